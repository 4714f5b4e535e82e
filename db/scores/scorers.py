"""The scorers of this database, and what one of them says of a dataset's samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt
import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.engine import Connection

from db.schema import dataset, sample, score, scorer
from db.scores.store import current_score
from db.server.arrays import read_arrays

UNSCORED = "not scored"
"""The reason of a sample that a scorer has no row for."""


@dataclass(frozen=True, slots=True)
class StoredScorer:
    """A row of table `scorer`: a metric with its models and parameters.

    status: active (the metric's own columns show it), candidate or retired.
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
        """The metric and the number, as commands take it: `vcs@3`."""
        return f"{self.metric}@{self.scorer_id}"


@dataclass(frozen=True, slots=True)
class SampleIds:
    """A sample's number, and the number of its video."""

    sample_id: int
    video_id: int


@dataclass(frozen=True, slots=True)
class NamedSample:
    """A sample as people name it."""

    key: str
    kind: str
    system: str
    text: str


def list_scorers(connection: Connection) -> list[StoredScorer]:
    """All scorers, by metric and number."""
    columns = [scorer.c[name] for name in StoredScorer.__dataclass_fields__]
    query = sa.select(*columns).order_by(scorer.c.metric, scorer.c.scorer_id)
    return [StoredScorer(*row) for row in connection.execute(query)]


def load_scorer(connection: Connection, scorer_id: int) -> StoredScorer:
    """The scorer of this number, which must be there."""
    columns = [scorer.c[name] for name in StoredScorer.__dataclass_fields__]
    return StoredScorer(*connection.execute(sa.select(*columns).where(scorer.c.scorer_id == scorer_id)).one())


def list_scored_datasets(connection: Connection, scorer_id: int) -> list[str]:
    """The names of the datasets of which a scorer has scored a sample."""
    of_dataset = sa.select(sample.c.sample_id).where(sample.c.dataset_id == dataset.c.dataset_id)
    has_score = sa.exists(of_dataset.join(score, score.c.sample_id == sample.c.sample_id)).where(
        score.c.scorer_id == scorer_id
    )
    return list(connection.scalars(sa.select(dataset.c.name).where(has_score).order_by(dataset.c.name)))


def list_dataset_samples(connection: Connection, dataset_id: int) -> list[SampleIds]:
    """The samples of a dataset by number."""
    columns = (sample.c.sample_id, sample.c.video_id)
    query = sa.select(*columns).where(sample.c.dataset_id == dataset_id).order_by(sample.c.sample_id)
    return [SampleIds(*row) for row in connection.execute(query)]


def load_scorer_values(
    connection: Connection, scorer_id: int, dataset_id: int, sample_ids: Sequence[int] | None = None
) -> dict[int, tuple[float | None, str]]:
    """Value and status of every score of a scorer on a dataset, by sample number; a stale score has no value.

    sample_ids: None for all samples.
    """
    view = current_score.c
    wanted = (
        sa.true() if sample_ids is None else view.sample_id == sa.any_(sa.literal(sample_ids, ARRAY(sa.BigInteger)))
    )
    query = sa.select(view.sample_id, view.value, view.status).where(
        view.scorer_id == scorer_id, view.dataset_id == dataset_id, wanted
    )
    return {sample_id: (value, status) for sample_id, value, status in connection.execute(query)}


def load_value_arrays(connection: Connection, scorer_id: int, dataset_id: int) -> list[npt.NDArray[Any]]:
    """The samples of a dataset that a scorer has a value for, and these values; each (n,)."""
    query = (
        "SELECT sample_id, value FROM current_score "
        "WHERE scorer_id = :scorer_id AND dataset_id = :dataset_id AND value IS NOT NULL"
    )
    said = {"scorer_id": scorer_id, "dataset_id": dataset_id}
    return read_arrays(connection, {"sample_id": "i8", "value": "f8"}, query, said)


def load_named_samples(connection: Connection, sample_ids: Sequence[int]) -> dict[int, NamedSample]:
    """Key, kind, system and text of samples by number."""
    columns = [sample.c[name] for name in NamedSample.__dataclass_fields__]
    query = sa.select(sample.c.sample_id, *columns).where(sample.c.sample_id.in_(sample_ids))
    return {row[0]: NamedSample(*row[1:]) for row in connection.execute(query)}
