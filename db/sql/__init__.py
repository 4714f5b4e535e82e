"""Statements that are long enough for a file of their own, and the comments of the schema."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent


def read_sql(name: str) -> str:
    """Return the statement of the file `NAME.sql`."""
    return (FOLDER / f"{name}.sql").read_text()
