"""The datasets in the database, and the shard that each video belongs to."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.engine import Connection

from db.schema import dataset, video


@dataclass(frozen=True, slots=True)
class Dataset:
    """A row of table `dataset`: id, name and number of shards. The number of shards never changes."""

    dataset_id: int
    name: str
    n_shards: int

    def compute_shard(self, video_key: str) -> int:
        """Return the shard, from 0 to n_shards - 1, of the video with this key. It is a hash of the key (the first 8
        bytes of its SHA-256) modulo `n_shards`, so that a new video never moves another one.
        """
        digest = hashlib.sha256(video_key.encode()).digest()
        return int.from_bytes(digest[:8], "big") % self.n_shards


def find_dataset(connection: Connection, name: str) -> Dataset | None:
    """Return the dataset of exactly this name; None if there is none."""
    query = sa.select(dataset.c.dataset_id, dataset.c.name, dataset.c.n_shards).where(dataset.c.name == name)
    row = connection.execute(query).one_or_none()
    return None if row is None else Dataset(*row)


def find_first_video_uri(connection: Connection, name: str) -> str | None:
    """Return the path or address of the first ingested video with a file in the dataset of this name. None if no video
    has a file, or there is no such dataset.
    """
    query = (
        sa.select(video.c.uri)
        .join(dataset, dataset.c.dataset_id == video.c.dataset_id)
        .where(dataset.c.name == name, video.c.uri.is_not(None))
        .order_by(video.c.video_id)
    )
    return connection.scalar(query.limit(1))


def list_datasets(connection: Connection) -> list[Dataset]:
    """List all datasets, ordered by name."""
    query = sa.select(dataset.c.dataset_id, dataset.c.name, dataset.c.n_shards).order_by(dataset.c.name)
    return [Dataset(*row) for row in connection.execute(query)]


def find_or_create_dataset(connection: Connection, name: str, n_shards: int) -> Dataset:
    """Return the dataset of this name; insert it with `n_shards` shards if there is none. A dataset that exists keeps
    its own number of shards.
    """
    connection.execute(insert(dataset).values(name=name, n_shards=n_shards).on_conflict_do_nothing())
    stored = find_dataset(connection, name)
    assert stored is not None
    return stored
