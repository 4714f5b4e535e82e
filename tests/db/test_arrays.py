"""Columns of numbers read as arrays are the rows that the database has."""

from __future__ import annotations

import numpy as np
import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from db.server.arrays import pack_column, read_arrays, unpack_column

VALUES = [0.5, -0.0, 1e-300, 1.7e308, 3.0]


def test_numbers_and_bytes_come_back_to_the_last_bit(shared_server: Engine) -> None:
    rows = sa.text(
        "SELECT i, CAST(i * i - 7 AS integer) AS small, v, decode(repeat('00', 31) || '0' || i, 'hex') AS hash "
        "FROM unnest(CAST(:values AS double precision[])) WITH ORDINALITY AS made (v, i)"
    ).columns(*[sa.column(name) for name in ("i", "small", "v", "hash")])
    columns = rows.subquery("made").c
    packed = sa.select(*[pack_column(columns[name]) for name in ("i", "small", "v", "hash")])
    with shared_server.connect() as connection:
        row = connection.execute(packed, {"values": VALUES}).one()
    numbers, small, values, hashes = (unpack_column(*pair) for pair in zip(row, ("i8", "i4", "f8", "V32"), strict=True))
    assert numbers.tolist() == [1, 2, 3, 4, 5]
    assert small.tolist() == [-6, -3, 2, 9, 18]
    assert values.tobytes() == np.array(VALUES).tobytes()
    # NumPy would cut zeros at the end of texts, and keeps them in bytes.
    assert hashes.tolist() == [bytes(31) + bytes([number]) for number in range(1, 6)]


@pytest.mark.parametrize("kind", ["i4", "i8", "f8", "V32"])
def test_no_rows_are_an_empty_array(shared_server: Engine, kind: str) -> None:
    with shared_server.connect() as connection:
        (empty,) = read_arrays(connection, {"x": kind}, "SELECT 1 AS x WHERE :never", {"never": False})
    assert (empty.dtype, empty.shape) == (np.dtype(kind), (0,))
