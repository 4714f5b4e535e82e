"""The scorers in the database, and the scores of one scorer on a dataset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from db.schema import dataset, sample, score, scorer
from db.scores.store import current_score
from db.server.arrays import build_id_condition

UNSCORED = "not scored"
"""Reason for a sample without a stored score by a scorer."""


@dataclass(frozen=True, slots=True)
class StoredScorer:
    """A row of table `scorer`: a metric with its models, parameters and code version. models: by role, the identity of
    the model. status: "active" (the metric's own columns show its scores), "candidate" or "retired".
    """

    scorer_id: int
    metric: str
    fingerprint: str
    models: Mapping[str, Any]
    params: Mapping[str, Any]
    code_version: str
    status: str

    @property
    def name(self) -> str:
        """Metric and id of the scorer as commands take them, such as `vcs@3`."""
        return f"{self.metric}@{self.scorer_id}"


@dataclass(frozen=True, slots=True)
class SampleIds:
    """The id of a sample and the id of its video."""

    sample_id: int
    video_id: int


@dataclass(frozen=True, slots=True)
class NamedSample:
    """A sample of any dataset by its key, kind ("caption" or "qa"), system and text."""

    key: str
    kind: str
    system: str
    text: str


@dataclass(frozen=True, slots=True)
class ScoredCaption:
    """A caption with its key and its value by one scorer."""

    sample_id: int
    video_id: int
    key: str
    value: float


def list_scorers(connection: Connection) -> list[StoredScorer]:
    """List all scorers of the database, active or not, ordered by metric and id."""
    columns = [scorer.c[name] for name in StoredScorer.__dataclass_fields__]
    query = sa.select(*columns).order_by(scorer.c.metric, scorer.c.scorer_id)
    return [StoredScorer(*row) for row in connection.execute(query)]


def load_scorer(connection: Connection, scorer_id: int) -> StoredScorer:
    """Load the scorer with this id. Raises sqlalchemy.exc.NoResultFound if there is none."""
    columns = [scorer.c[name] for name in StoredScorer.__dataclass_fields__]
    return StoredScorer(*connection.execute(sa.select(*columns).where(scorer.c.scorer_id == scorer_id)).one())


def list_scored_datasets(connection: Connection, scorer_id: int) -> list[str]:
    """List the names, sorted, of the datasets with at least one score by this scorer, of any status."""
    dataset_sample_ids = sa.select(sample.c.sample_id).where(sample.c.dataset_id == dataset.c.dataset_id)
    has_score = sa.exists(dataset_sample_ids.join(score, score.c.sample_id == sample.c.sample_id)).where(
        score.c.scorer_id == scorer_id
    )
    return list(connection.scalars(sa.select(dataset.c.name).where(has_score).order_by(dataset.c.name)))


def list_dataset_samples(connection: Connection, dataset_id: int) -> list[SampleIds]:
    """List the ids of all samples of a dataset with those of their videos, ordered by sample id. These are captions and
    question-answer pairs.
    """
    columns = (sample.c.sample_id, sample.c.video_id)
    query = sa.select(*columns).where(sample.c.dataset_id == dataset_id).order_by(sample.c.sample_id)
    return [SampleIds(*row) for row in connection.execute(query)]


def load_scorer_values(
    connection: Connection, scorer_id: int, dataset_id: int, sample_ids: Sequence[int] | None = None
) -> dict[int, tuple[float | None, str]]:
    """Load a scorer's scores on a dataset as {sample id: (value, status)}. A stale score has the value None and the
    status "stale"; samples without a score are left out. sample_ids: None for all samples.
    """
    view = current_score.c
    condition = sa.true() if sample_ids is None else build_id_condition(view.sample_id, sample_ids)
    query = sa.select(view.sample_id, view.value, view.status).where(
        view.scorer_id == scorer_id, view.dataset_id == dataset_id, condition
    )
    return {sample_id: (value, status) for sample_id, value, status in connection.execute(query)}


def load_scored_captions(connection: Connection, scorer_id: int, dataset_id: int) -> list[ScoredCaption]:
    """Load the captions of a dataset that a scorer has a current value for, by number; questions are left out."""
    view = current_score.c
    query = (
        sa.select(view.sample_id, sample.c.video_id, view.key, view.value)
        .select_from(current_score.join(sample, sample.c.sample_id == view.sample_id))
        .where(
            view.scorer_id == scorer_id,
            view.dataset_id == dataset_id,
            view.kind == "caption",
            view.value.is_not(None),
        )
        .order_by(view.sample_id)
    )
    return [ScoredCaption(*row) for row in connection.execute(query)]


def count_captions(connection: Connection, dataset_id: int) -> int:
    """Count the captions of a dataset that may be scored: neither references nor questions."""
    query = sa.select(sa.func.count()).where(sample.c.dataset_id == dataset_id, sample.c.kind == "caption")
    return connection.scalar(query) or 0


def load_named_samples(connection: Connection, sample_ids: Sequence[int]) -> dict[int, NamedSample]:
    """Load {sample id: key, kind, system and text of the sample}; unknown ids are left out."""
    columns = [sample.c[name] for name in NamedSample.__dataclass_fields__]
    query = sa.select(sample.c.sample_id, *columns).where(sample.c.sample_id.in_(sample_ids))
    return {row[0]: NamedSample(*row[1:]) for row in connection.execute(query)}
