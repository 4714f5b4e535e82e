"""Columns of a manifest's tables that the user names, since they are not called as their fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from assets.ingest.rejects import Reject

# The name of the column of a field, for the fields whose columns have other names.
NO_COLUMNS: Mapping[str, str] = {}


def name_fields(row: dict[str, Any] | Reject, columns: Mapping[str, str]) -> dict[str, Any] | Reject:
    """Return a row with the names of fields in place of those of its columns. columns: by field, the name of its
    column. A row with two columns of a field becomes a Reject; a Reject comes back unchanged.

    >>> name_fields({"caption_id": "a", "Satz": "A dog."}, {"text": "Satz"})
    {'caption_id': 'a', 'text': 'A dog.'}
    """
    if not columns or isinstance(row, Reject):
        return row
    for field, column in columns.items():
        if field in row and column in row and field != column:
            reason = f"field {field!r} is in columns {field!r} and {column!r}: rename one of them"
            return Reject("duplicate_key", reason)
    fields = {column: field for field, column in columns.items()}
    return {fields.get(name, name): value for name, value in row.items()}
