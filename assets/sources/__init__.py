"""Sources: what models find out about samples, each kind made by one asset and kept in tables of its own."""
