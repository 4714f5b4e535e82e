"""Scores that were made elsewhere. Their scorer stands in the database alone: no code here computes them.

The views ask the database for such metrics, so that a column does not depend on what a process has installed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.engine import Connection

from db.schema import sample, scorer, shard_count, video
from db.schema.inputs import TEXT, Input
from db.schema.marks import MetricInputs

IMPORTED_VERSION = "imported"
"""The code version of a scorer whose scores were made elsewhere."""

# All that is known of what the numbers depend on.
IMPORTED_INPUTS: Collection[Input[Any]] = (TEXT,)
# Names that statements over sample_scores use themselves, so that no metric can have them.
RESERVED_NAMES = ("chance", "score", "value", "video_id")


class KeyedSample(NamedTuple):
    """A sample with its video's key."""

    sample_id: int
    kind: str
    key: str
    video: str
    text: str


def add_imported_metrics(connection: Connection, metrics: MetricInputs) -> MetricInputs:
    """These metrics with their inputs, and behind them the imported ones of other names."""
    query = (
        sa.select(scorer.c.metric).where(scorer.c.code_version == IMPORTED_VERSION).distinct().order_by(scorer.c.metric)
    )
    return {**metrics, **{name: IMPORTED_INPUTS for name in connection.scalars(query) if name not in metrics}}


def load_imported_scorers(connection: Connection) -> dict[str, list[int]]:
    """The scorers of each metric whose scores were imported, by its name."""
    query = sa.select(scorer.c.metric, scorer.c.scorer_id).where(scorer.c.code_version == IMPORTED_VERSION)
    found: dict[str, list[int]] = {}
    for row in connection.execute(query.order_by(scorer.c.metric, scorer.c.scorer_id)):
        found.setdefault(row.metric, []).append(row.scorer_id)
    return found


def list_imported_scorers(connection: Connection, dataset_id: int) -> list[int]:
    """The imported scorers, active or not, that have a score of the dataset."""
    has_scores = shard_count.select().where(_build_has_scores(dataset_id)).exists()
    return list(
        connection.scalars(sa.select(scorer.c.scorer_id).where(scorer.c.code_version == IMPORTED_VERSION, has_scores))
    )


def list_metrics_imported_elsewhere(connection: Connection, dataset_id: int) -> set[str]:
    """The metrics of which all scorers are imported ones, and none has a score of the dataset."""
    has_scores = shard_count.select().where(_build_has_scores(dataset_id)).exists()
    is_of_others = sa.and_(scorer.c.code_version == IMPORTED_VERSION, sa.not_(has_scores))
    query = sa.select(scorer.c.metric).group_by(scorer.c.metric).having(sa.func.bool_and(is_of_others))
    return set(connection.scalars(query))


def _build_has_scores(dataset_id: int) -> sa.ColumnElement[bool]:
    of_dataset = sa.and_(shard_count.c.scorer_id == scorer.c.scorer_id, shard_count.c.dataset_id == dataset_id)
    return sa.and_(of_dataset, shard_count.c.n > 0)


def explain_refused_name(connection: Connection, name: str) -> str | None:
    """Why an imported metric cannot have this name; None where it can. It becomes a column of sample_scores."""
    if name in (*RESERVED_NAMES, *add_imported_metrics(connection, {})):
        return "stands for something else in queries" if name in RESERVED_NAMES else None
    columns = "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass('sample_scores') AND attname = :name"
    if connection.scalar(sa.text(columns), {"name": name}):
        return "is a metric or another column of sample_scores already"
    keyword = "SELECT word FROM pg_get_keywords() WHERE word = :name AND catcode <> 'U'"
    return "is a word of SQL" if connection.scalar(sa.text(keyword), {"name": name}) else None


def load_samples_by_key(connection: Connection, dataset_id: int, keys: Sequence[str]) -> list[KeyedSample]:
    """The samples of a dataset with these keys, of both kinds."""
    query = (
        sa.select(sample.c.sample_id, sample.c.kind, sample.c.key, video.c.key, sample.c.text)
        .join(video, video.c.video_id == sample.c.video_id)
        .where(sample.c.dataset_id == dataset_id, sample.c.key == sa.any_(sa.literal(keys, ARRAY(sa.Text))))
    )
    return [KeyedSample(*row) for row in connection.execute(query)]
