"""Rejects: rows of manifests that ingest refused (table `ingest_reject`)."""

from __future__ import annotations

from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from db.schema import ingest_reject


class RejectRow(NamedTuple):
    """A refused row of a manifest: file, line, code, reason and raw text. It may stand for `n_rows` rows that are not
    listed one by one.
    """

    source: str
    line: int
    code: str
    reason: str
    raw: str
    n_rows: int


def list_rejects(connection: Connection, dataset_id: int) -> list[dict[str, Any]]:
    """List the refused rows of a dataset as dicts {source, line, code, n_rows, reason}, ordered by file and line."""
    columns = [ingest_reject.c[name] for name in ("source", "line", "code", "n_rows", "reason")]
    query = sa.select(*columns).where(ingest_reject.c.dataset_id == dataset_id).order_by(*columns[:2])
    return [dict(row) for row in connection.execute(query).mappings()]
