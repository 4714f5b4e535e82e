"""Rows of manifests that were refused."""

from __future__ import annotations

from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from db.schema import ingest_reject


class RejectRow(NamedTuple):
    """A refused row with the name of its file, or the first of `n_rows` that are not listed one by one."""

    source: str
    line: int
    code: str
    reason: str
    raw: str
    n_rows: int


def list_rejects(connection: Connection, dataset_id: int) -> list[dict[str, Any]]:
    """Refused rows as {source, line, code, n_rows, reason}, by source and line."""
    columns = [ingest_reject.c[name] for name in ("source", "line", "code", "n_rows", "reason")]
    query = sa.select(*columns).where(ingest_reject.c.dataset_id == dataset_id).order_by(*columns[:2])
    return [dict(row) for row in connection.execute(query).mappings()]
