"""Writers of the formats of an export, one module each."""
