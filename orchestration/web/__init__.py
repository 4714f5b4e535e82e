"""The web interface: Dagster's own and our pages, behind one guard."""
