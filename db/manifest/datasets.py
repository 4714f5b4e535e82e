"""The datasets of this database, and the shard of each video."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.engine import Connection

from db.schema import dataset, video


@dataclass(frozen=True, slots=True)
class Dataset:
    """A dataset and the number of its shards, which never changes."""

    dataset_id: int
    name: str
    n_shards: int

    def compute_shard(self, video_key: str) -> int:
        """The shard of a video: a bucket of the SHA-256 of its key, so that adding a video never moves another."""
        digest = hashlib.sha256(video_key.encode()).digest()
        return int.from_bytes(digest[:8], "big") % self.n_shards


def find_dataset(connection: Connection, name: str) -> Dataset | None:
    """The dataset of this name, or None."""
    query = sa.select(dataset.c.dataset_id, dataset.c.name, dataset.c.n_shards).where(dataset.c.name == name)
    row = connection.execute(query).one_or_none()
    return None if row is None else Dataset(*row)


def find_dataset_name(connection: Connection, dataset_id: int) -> str | None:
    """The name that a dataset has now; None where it was dropped."""
    return connection.scalar(sa.select(dataset.c.name).where(dataset.c.dataset_id == dataset_id))


def find_first_video_uri(connection: Connection, name: str) -> str | None:
    """Where the first video with a file lies of the dataset of this name; None where there is none."""
    query = (
        sa.select(video.c.uri)
        .join(dataset, dataset.c.dataset_id == video.c.dataset_id)
        .where(dataset.c.name == name, video.c.uri.is_not(None))
        .order_by(video.c.video_id)
    )
    return connection.scalar(query.limit(1))


def list_datasets(connection: Connection) -> list[Dataset]:
    """All datasets by name."""
    query = sa.select(dataset.c.dataset_id, dataset.c.name, dataset.c.n_shards).order_by(dataset.c.name)
    return [Dataset(*row) for row in connection.execute(query)]


def find_or_create_dataset(connection: Connection, name: str, n_shards: int) -> Dataset:
    """The dataset of this name; `n_shards` counts only when it is new."""
    connection.execute(insert(dataset).values(name=name, n_shards=n_shards).on_conflict_do_nothing())
    stored = find_dataset(connection, name)
    assert stored is not None
    return stored
