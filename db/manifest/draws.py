"""The permanent random numbers of samples, by which a part of a dataset is drawn to be answered by people or models.

Every sample has a number in [0, 1) by a seed. Of any set of samples, those n with the least numbers are a simple random
sample, so answers on one part serve many sets, and samples that arrive later have numbers of their own.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from db.schema import sample


def build_draw_number(seed: int) -> sa.ColumnElement[float]:
    """Build the SQL expression for the random number of the row's sample, in [0, 1), for queries of table sample. It
    calls the function `draw_number(kind, key, seed)` of the database, which views and SQL may call too.
    """
    return sa.func.draw_number(sample.c.kind, sample.c.key, sa.literal(seed, sa.BigInteger), type_=sa.Double)


def build_draw_order(seed: int) -> tuple[sa.ColumnElement[Any], ...]:
    """Build the SQL expressions that sort samples by their random numbers; equal numbers by kind and key."""
    return build_draw_number(seed), sample.c.kind, sa.collate(sample.c.key, "C")
