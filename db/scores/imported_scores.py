"""Scores that another program computed and a user imported: their scorers exist only in the database, without code
here.

The views read the names of imported metrics from the database, so their columns do not depend on the code installed in
a process.
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
"""Code version of all scorers whose scores were imported."""

# The only known input of imported scores.
IMPORTED_INPUTS: Collection[Input[Any]] = (TEXT,)
# Names that statements over sample_scores use themselves, and names in table agreement that are no metrics'.
RESERVED_NAMES = ("chance", "majority", "raters", "score", "value", "video_id")


class KeyedSample(NamedTuple):
    """A sample with its id, kind ("caption" or "qa"), key and text, and the key of its video."""

    sample_id: int
    kind: str
    key: str
    video: str
    text: str


def add_imported_metrics(connection: Connection, metrics: MetricInputs) -> MetricInputs:
    """Return a dict {metric: its inputs} of the given metrics, followed by the imported metrics of the database,
    sorted, that have another name. The input of an imported metric is the sample's text only.
    """
    query = (
        sa.select(scorer.c.metric).where(scorer.c.code_version == IMPORTED_VERSION).distinct().order_by(scorer.c.metric)
    )
    return {**metrics, **{name: IMPORTED_INPUTS for name in connection.scalars(query) if name not in metrics}}


def load_imported_scorers(connection: Connection) -> dict[str, list[int]]:
    """Return {metric: ids of its imported scorers, ascending} for all imported scorers, active or not."""
    query = sa.select(scorer.c.metric, scorer.c.scorer_id).where(scorer.c.code_version == IMPORTED_VERSION)
    scorers: dict[str, list[int]] = {}
    for row in connection.execute(query.order_by(scorer.c.metric, scorer.c.scorer_id)):
        scorers.setdefault(row.metric, []).append(row.scorer_id)
    return scorers


def list_imported_scorers(connection: Connection, dataset_id: int) -> list[int]:
    """List the ids of imported scorers, active or not, that have a score in this dataset, in no fixed order."""
    has_scores = shard_count.select().where(_build_has_scores(dataset_id)).exists()
    return list(
        connection.scalars(sa.select(scorer.c.scorer_id).where(scorer.c.code_version == IMPORTED_VERSION, has_scores))
    )


def list_metrics_imported_elsewhere(connection: Connection, dataset_id: int) -> set[str]:
    """Return the metrics that have only imported scorers, none of which has a score in this dataset."""
    has_scores = shard_count.select().where(_build_has_scores(dataset_id)).exists()
    is_of_others = sa.and_(scorer.c.code_version == IMPORTED_VERSION, sa.not_(has_scores))
    query = sa.select(scorer.c.metric).group_by(scorer.c.metric).having(sa.func.bool_and(is_of_others))
    return set(connection.scalars(query))


def _build_has_scores(dataset_id: int) -> sa.ColumnElement[bool]:
    is_of_dataset = sa.and_(shard_count.c.scorer_id == scorer.c.scorer_id, shard_count.c.dataset_id == dataset_id)
    return sa.and_(is_of_dataset, shard_count.c.n > 0)


def explain_refused_name(connection: Connection, name: str) -> str | None:
    """Return why an imported metric cannot have this name, as the end of a sentence such as "is a reserved word of
    SQL"; None if it can. A name that an imported metric has already is allowed.

    The name becomes a column of view sample_scores, so it must be no other column of it and no reserved word of SQL.
    """
    if name in (*RESERVED_NAMES, *add_imported_metrics(connection, {})):
        return "has another meaning in queries" if name in RESERVED_NAMES else None
    columns = "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass('sample_scores') AND attname = :name"
    if connection.scalar(sa.text(columns), {"name": name}):
        return "is already a metric or another column of view sample_scores"
    keyword = "SELECT word FROM pg_get_keywords() WHERE word = :name AND catcode <> 'U'"
    return "is a reserved word of SQL" if connection.scalar(sa.text(keyword), {"name": name}) else None


def load_samples_by_key(connection: Connection, dataset_id: int, keys: Sequence[str]) -> list[KeyedSample]:
    """Load the samples of a dataset with these keys, captions and question-answer pairs, in no fixed order. A key that
    both have gives two samples; unknown keys are left out.
    """
    query = (
        sa.select(sample.c.sample_id, sample.c.kind, sample.c.key, video.c.key, sample.c.text)
        .join(video, video.c.video_id == sample.c.video_id)
        .where(sample.c.dataset_id == dataset_id, sample.c.key == sa.any_(sa.literal(keys, ARRAY(sa.Text))))
    )
    return [KeyedSample(*row) for row in connection.execute(query)]
