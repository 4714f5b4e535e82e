"""Numbers in bulk: columns leave Postgres as arrays, which numpy reads without an object per number, and ids go to it
as one array.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.engine import Connection

# Bytes of a Postgres array before its first value; every value comes after its length.
_HEADER = 20


def build_id_condition(column: sa.ColumnElement[Any], ids: Sequence[int]) -> sa.ColumnElement[bool]:
    """Return the SQL condition that a column has one of these ids. They are one parameter, an array, since a statement
    takes at most 65,535 parameters.
    """
    return column == sa.any_(sa.literal(list(ids), ARRAY(sa.BigInteger)))


def pack_column(value: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
    """Return an SQL aggregate that packs the values of all rows into bytes, for `unpack_column`. All values must have
    the same width in bytes, and none may be NULL. Aggregates of one SELECT pack the rows in the same order.
    """
    return sa.func.array_send(sa.func.array_agg(value), type_=sa.LargeBinary)


def unpack_column(packed: bytes | None, kind: str) -> npt.NDArray[Any]:
    """Return the values that `pack_column` packed, as an array (n,); an empty one for None. `kind` is numpy's name of
    the type that the values have in Postgres: "i4", "i8", "f8", or "V32" for 32 bytes.
    """
    row = np.dtype([("length", ">i4"), ("value", np.dtype(kind).newbyteorder(">"))])
    return np.frombuffer(packed or bytes(_HEADER), row, offset=_HEADER)["value"].astype(kind)


def read_arrays(
    connection: Connection, kinds: Mapping[str, str], query: str, values: Mapping[str, Any]
) -> list[npt.NDArray[Any]]:
    """Run a query and return its columns as arrays (n,), in the order of `kinds`, which has numpy's name of the type by
    column name, such as "f8". values: the parameters of the query. No value may be NULL. Raises
    sqlalchemy.exc.DBAPIError for more than some 67 million rows, for which Postgres has no room in one array.
    """
    columns = sa.text(query).columns(*[sa.column(name) for name in kinds]).subquery("queried").c
    packed = connection.execute(sa.select(*[pack_column(columns[name]) for name in kinds]), values).one()
    return [unpack_column(column, kind) for column, kind in zip(packed, kinds.values(), strict=True)]
