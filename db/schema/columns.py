"""Constructors of tables and their columns, each with the comment that explains it in Postgres; `COMMON_COMMENTS` has
those of columns that mean the same in all tables and views.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

METADATA = sa.MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    }
)
COMMON_COMMENTS = {
    "dataset_id": "Dataset, a row of table dataset.",
    "dataset": "Name of the dataset.",
    "shard": "Number of a shard, a fixed part of the dataset's videos, from 0. A hash of the video's key decides it, "
    "so a new video never moves another one.",
    "video_id": "Video, a row of table video.",
    "video": "Key of the video, the video_id of the manifest.",
    "sample_id": "Sample, a row of table sample.",
    "sample": "Key of the sample, the caption_id or qa_id of the manifest; unique within dataset and kind.",
    "kind": "caption, or qa for a question-answer pair.",
    "system": "Model or person that wrote the sample.",
    "keypoint_id": "Keypoint, a row of table keypoint.",
    "keypoint": "Key of the keypoint, the keypoint_id of the manifest.",
    "scorer_id": "Scorer, a row of table scorer: a metric with fixed models and parameters.",
    "model_id": "Model, a row of table model.",
    "metric": "Name of the metric, such as vcs.",
    "run_id": "Dagster run that wrote the row.",
    "key": "Key of the row in the manifest, unique within its dataset.",
    "extra": "Own fields of the manifest, which Reelsieve does not read, unchanged.",
    "row_sha256": "Digest of the row of the manifest: the next ingest skips a row that did not change.",
    "text_sha256": "SHA-256 of the text in UTF-8; table text_embedding has vectors by it.",
    "content_sha256": "Digest of the video file that was read, as in table video.",
    "input_sha256": "Digest of everything that the result was computed from; if it differs now, the result is stale.",
    "created_at": "When the row was added.",
    "embedding": "Vector of pgvector; <=> is the cosine distance, as in 1 - (a <=> b).",
}


def declare_table(name: str, comment: str, *items: sa.schema.SchemaItem) -> sa.Table:
    """Return a table of METADATA with these columns, constraints and indexes. A column without a comment of its own
    gets the common one of its name.
    """
    table = sa.Table(name, METADATA, *items, comment=comment)
    for item in table.columns:
        item.comment = item.comment or COMMON_COMMENTS.get(item.name)
    return table


def column(name: str, type_: Any, comment: str | None = None, *, nullable: bool = False, **options: Any) -> Any:
    """Return a column of any type; NOT NULL unless `nullable`. options: as of `sqlalchemy.Column`."""
    return sa.Column(name, type_, nullable=nullable, comment=comment, **options)


def measure_column(name: str, comment: str | None = None) -> sa.Column[float]:
    """Return a column of floating-point numbers that may be NULL."""
    return sa.Column(name, sa.Double, nullable=True, comment=comment)


def key_column(name: str, type_: Any, comment: str | None = None) -> sa.Column[Any]:
    """Return a column of the primary key, whose value the caller inserts."""
    return sa.Column(name, type_, primary_key=True, autoincrement=False, comment=comment)


def id_column(name: str, comment: str | None = None) -> sa.Column[int]:
    """Return a primary-key column of this name, a bigint that Postgres assigns to every new row."""
    return sa.Column(name, sa.BigInteger, sa.Identity(), primary_key=True, comment=comment)


def parent_column(
    target: str,
    comment: str | None = None,
    *,
    name: str | None = None,
    primary_key: bool = False,
    nullable: bool = False,
) -> sa.Column[int]:
    """Return a foreign-key column for a target such as "video.video_id", under the name of the target's column, here
    video_id, unless a `name` is given. It is NOT NULL unless `nullable`, and deleting the target's row deletes the rows
    that point to it.
    """
    key = sa.ForeignKey(target, ondelete="CASCADE")
    name = name or target.split(".")[1]
    return sa.Column(name, sa.BigInteger, key, primary_key=primary_key, nullable=nullable, comment=comment)


def text_column(name: str, comment: str | None = None, *, nullable: bool = False) -> sa.Column[str]:
    """Return a text column; NOT NULL unless `nullable`."""
    return sa.Column(name, sa.Text, nullable=nullable, comment=comment)


def key_copy_column(name: str) -> sa.Column[str]:
    """Return a text column that Postgres fills with a copy of column `key`. `name` is the name that views use, such as
    "video"; without such a column, this name would mean the whole row in SQL.
    """
    return sa.Column(name, sa.Text, sa.Computed("key", persisted=True))


def digest_column(name: str, comment: str | None = None, *, nullable: bool = False) -> sa.Column[bytes]:
    """Return a column of bytes for a SHA-256; NOT NULL unless `nullable`."""
    return sa.Column(name, sa.LargeBinary, nullable=nullable, comment=comment)


def time_column(name: str, comment: str | None = None) -> sa.Column[object]:
    """Return a NOT NULL column for a time with its zone; a row inserted without a value gets the time at which its
    transaction began.
    """
    return sa.Column(name, sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now(), comment=comment)


def json_column(
    name: str, comment: str | None = None, *, nullable: bool = False, server_default: str | None = None
) -> sa.Column[object]:
    """Return a JSONB column, in which Python's None is stored as NULL; NOT NULL unless `nullable`."""
    return sa.Column(name, JSONB(none_as_null=True), nullable=nullable, server_default=server_default, comment=comment)
