"""The dataset that an ingest writes to: a new one is divided into shards, once and for all."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

from sqlalchemy.engine import Engine

from assets.ingest.readers import count_rows
from db.manifest import Dataset, ensure_dataset, find_dataset

SAMPLES_PER_SHARD = 4000
MAX_SHARDS = 10_000


def open_dataset(engine: Engine, name: str, n_shards: int | None, tables: Mapping[str, Path]) -> Dataset:
    """The dataset of this name. Only for a new one are the rows counted, which reads their tables once more.

    Without `n_shards` there is one shard per 4,000 captions and questions.
    """
    with engine.connect() as connection:
        found = find_dataset(connection, name)
    if found is not None:
        return found
    wanted = n_shards or _wanted_shards(tables)
    with engine.begin() as connection:
        return ensure_dataset(connection, name, wanted)


def _wanted_shards(tables: Mapping[str, Path]) -> int:
    n_rows = sum(count_rows(tables[kind], kind) for kind in ("caption", "qa") if kind in tables)
    return min(max(1, math.ceil(n_rows / SAMPLES_PER_SHARD)), MAX_SHARDS)
