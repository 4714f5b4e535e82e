"""Checked rows as plain data that one process sends to another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from assets.ingest.manifest_tables import MANIFEST_TABLES
from assets.ingest.rejects import Reject
from assets.ingest.rows import CheckedRow, RawRow, ValidRow

PackedRow = tuple[Any, ...]


def pack_rows(rows: Iterable[CheckedRow]) -> list[PackedRow]:
    """Convert checked rows, each a raw row with its valid row or Reject, to plain tuples that can be pickled. The
    hashes of valid rows are computed here; their raw fields are left out, except those of videos.
    """
    return [_pack(raw, row) for raw, row in rows]


def unpack_rows(rows: Sequence[PackedRow]) -> list[CheckedRow]:
    """Convert the tuples of `pack_rows` back to checked rows, in order, without another validation."""
    return [_unpack(*row) for row in rows]


def _pack(raw: RawRow, row: ValidRow | Reject) -> PackedRow:
    # An address in the path of a video must not be shown with its credentials, if the row is refused later.
    payload = raw.fields if isinstance(row, Reject) or raw.kind == "video" else None
    parts = (raw.source, raw.line, raw.kind, payload, raw.reject, raw.raw)
    if isinstance(row, Reject):
        return (*parts, row, None, None)
    row.content_sha256  # noqa: B018 (computed here, so that the other process need not)
    values = dict(row.__dict__)
    values.pop("content", None)
    if values.get("segments") is not None:
        values |= {"content": row.content, "segments": row.content["segments"]}
    return (*parts, None, values, row.__pydantic_extra__)


def _unpack(
    source: str,
    line: int,
    kind: str,
    payload: dict[str, Any] | None,
    reject: Reject | None,
    raw: str,
    refusal: Reject | None,
    values: dict[str, Any] | None,
    extra: dict[str, Any] | None,
) -> CheckedRow:
    raw_row = RawRow(source, line, kind, payload, reject, raw)
    if refusal is not None:
        return raw_row, refusal
    model = MANIFEST_TABLES[kind].row_model
    row = model.__new__(model)
    row.__setstate__({"__dict__": values, "__pydantic_extra__": extra, "__pydantic_fields_set__": set()})
    return raw_row, row
