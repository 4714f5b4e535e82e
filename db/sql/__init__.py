"""SQL statements that are long enough for a file of their own, and the comments on tables and columns."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent


def read_sql(name: str) -> str:
    """Return the text of the file `NAME.sql` of this folder. Raises FileNotFoundError if there is none."""
    return (FOLDER / f"{name}.sql").read_text()
