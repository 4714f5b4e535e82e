"""What resolving a manifest row ends in: a row for the database, or a refusal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from assets.ingest.rejects import Reject


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row ready to be written, and the table it belongs to."""

    table: str
    columns: dict[str, Any]


Resolved = TableRow | Reject


def no_such(what: str, field: str, key: str) -> Reject:
    """The refusal of a row that points to something that is not there."""
    return Reject("dangling_reference", f"field '{field}' is {key!r}: there is no such {what}; add it before this row")
