"""Bulk reads: columns of numbers leave Postgres as arrays, which numpy takes without an object for each number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa
from sqlalchemy.engine import Connection

# Bytes of an array of Postgres before its first value; each value stands behind its length.
_HEADER = 20


def pack_column(value: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
    """Return the aggregate that packs the values of all its rows into one, for `unpack_column`.

    All values must be of one width, and none may be NULL. Aggregates of one SELECT pack the rows in one order.
    """
    return sa.func.array_send(sa.func.array_agg(value), type_=sa.LargeBinary)


def unpack_column(packed: bytes | None, kind: str) -> npt.NDArray[Any]:
    """Return the values (n,) that `pack_column` has packed, none of None.

    kind: their type as numpy names it: "i4", "i8", "f8", or "V32" for 32 bytes.
    """
    row = np.dtype([("length", ">i4"), ("value", np.dtype(kind).newbyteorder(">"))])
    return np.frombuffer(packed or bytes(_HEADER), row, offset=_HEADER)["value"].astype(kind)


def read_arrays(
    connection: Connection, kinds: Mapping[str, str], query: str, values: Mapping[str, Any]
) -> list[npt.NDArray[Any]]:
    """Return columns of a query as arrays, in the order of `kinds`: their kinds by name, as `unpack_column` takes them.

    No value may be NULL.
    """
    columns = sa.text(query).columns(*[sa.column(name) for name in kinds]).subquery("queried").c
    packed = connection.execute(sa.select(*[pack_column(columns[name]) for name in kinds]), values).one()
    return [unpack_column(column, kind) for column, kind in zip(packed, kinds.values(), strict=True)]
