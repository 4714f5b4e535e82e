"""Rejects: rows of manifests that ingest refused (table `ingest_reject`)."""

from __future__ import annotations

from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from db.schema import ingest_reject


class RejectRow(NamedTuple):
    """A row of a manifest that was refused. source: the file. raw: the beginning of the row's text, without
    credentials. n_rows: how many refused rows with this code it stands for; more than 1 if some are not listed one by
    one.
    """

    source: str
    line: int
    code: str
    reason: str
    raw: str
    n_rows: int


def list_rejects(connection: Connection, dataset_id: int) -> list[dict[str, Any]]:
    """List the refused rows of a dataset as dicts with source (the file), line, code, n_rows and reason, ordered by
    file and line. n_rows: how many rows an entry stands for.
    """
    columns = [ingest_reject.c[name] for name in ("source", "line", "code", "n_rows", "reason")]
    query = sa.select(*columns).where(ingest_reject.c.dataset_id == dataset_id).order_by(*columns[:2])
    return [dict(row) for row in connection.execute(query).mappings()]
