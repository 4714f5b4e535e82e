"""Stored thresholds on keypoint probabilities and on scores, with their method, objective and counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from db.schema import keypoint_threshold, score_threshold, scorer
from db.scores.keypoint_decisions import LABEL_METHOD


@dataclass(frozen=True, slots=True)
class LabelThreshold:
    """A probability from which keypoints of one dimension count as covered. `value` is the best for `objective` on `n`
    labels, of which `n_positive` are yes. shard: None for scope "dataset". details: plain data about how the value was
    chosen.
    """

    scope: Literal["dataset", "shard"]
    shard: int | None
    dimension: str
    objective: str
    value: float
    n: int
    n_positive: int
    details: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ScoreThreshold:
    """A threshold on the scores of one kind of sample: `at_least` is the lowest score that passes. objective: what it
    is for, such as "keep 0.125". shard: None for the whole dataset. n: the number of scores it was computed from;
    n_kept: how many of these pass. low, high: its 95 % interval, and n_good: how many samples people find good; all
    None for a share.

    details: plain data about how it was chosen.
    """

    shard: int | None
    kind: str
    objective: str
    at_least: float
    n: int
    n_kept: int
    low: float | None = None
    high: float | None = None
    n_good: int | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


def store_score_thresholds(
    connection: Connection, scorer_id: int, dataset_id: int, method: str, thresholds: Sequence[ScoreThreshold]
) -> None:
    """Store thresholds on a scorer's scores in a dataset, in place of all earlier ones by the same method for this
    scorer and dataset. method: column `method`, which names how they were chosen. Does not commit.
    """
    conditions = (
        score_threshold.c.scorer_id == scorer_id,
        score_threshold.c.dataset_id == dataset_id,
        score_threshold.c.method == method,
    )
    # Two runs may replace at once: the later one waits here, then replaces what the earlier one stored.
    is_this = scorer.c.scorer_id == scorer_id
    connection.execute(sa.select(scorer.c.scorer_id).where(is_this).with_for_update(key_share=True))
    connection.execute(sa.delete(score_threshold).where(*conditions))
    common = {"scorer_id": scorer_id, "dataset_id": dataset_id, "method": method}
    rows = [
        {
            **common,
            "scope": "dataset" if cutoff.shard is None else "shard",
            **{name: getattr(cutoff, name) for name in ScoreThreshold.__dataclass_fields__},
        }
        for cutoff in thresholds
    ]
    if rows:
        connection.execute(sa.insert(score_threshold), rows)


def list_score_thresholds(connection: Connection, dataset_id: int, method: str) -> list[tuple[str, ScoreThreshold]]:
    """List (metric, threshold) of all thresholds by one method on the active scorers' scores of a whole dataset, in no
    fixed order. Thresholds within a shard are left out.
    """
    columns = [score_threshold.c[name] for name in ScoreThreshold.__dataclass_fields__]
    query = (
        sa.select(scorer.c.metric, *columns)
        .join(scorer, scorer.c.scorer_id == score_threshold.c.scorer_id)
        .where(score_threshold.c.dataset_id == dataset_id, score_threshold.c.method == method)
        .where(score_threshold.c.scope == "dataset", scorer.c.status == "active")
    )
    return [(metric, ScoreThreshold(*row)) for metric, *row in connection.execute(query)]


def list_stored_objectives(connection: Connection, dataset_id: int) -> set[tuple[str, str]]:
    """Return (metric, objective) of all thresholds that are stored on the active scorers' scores of the whole dataset;
    thresholds within a shard do not count.
    """
    query = sa.text("SELECT metric, objective FROM dataset_thresholds WHERE dataset_id = :dataset_id")
    return {(row[0], row[1]) for row in connection.execute(query, {"dataset_id": dataset_id})}


def store_label_thresholds(
    connection: Connection, scorer_id: int, dataset_id: int, rows: Sequence[LabelThreshold]
) -> None:
    """Store keypoint thresholds that were chosen on labels, in place of all earlier ones of this scorer on this
    dataset. Those of scope "dataset" are in force from then on. Raises ValueError if a dimension has two thresholds in
    one scope and shard. Does not commit.
    """
    places = [(row.scope, row.shard, row.dimension) for row in rows]
    if repeated := next((place for place in places if places.count(place) > 1), None):
        raise ValueError(f"dimension {repeated[2]!r} has several thresholds in scope {repeated[0]!r}: give one")
    # Two runs may replace at once: the later one waits here, then removes what the earlier one stored.
    is_this = scorer.c.scorer_id == scorer_id
    connection.execute(sa.select(scorer.c.scorer_id).where(is_this).with_for_update(key_share=True))
    conditions = (
        keypoint_threshold.c.scorer_id == scorer_id,
        keypoint_threshold.c.dataset_id == dataset_id,
        keypoint_threshold.c.method == LABEL_METHOD,
    )
    connection.execute(sa.delete(keypoint_threshold).where(*conditions))
    if rows:
        common = {"scorer_id": scorer_id, "dataset_id": dataset_id, "method": LABEL_METHOD}
        connection.execute(sa.insert(keypoint_threshold), [{**common, **_build_columns(row)} for row in rows])


def load_label_thresholds(connection: Connection, scorer_id: int, dataset_id: int) -> dict[str, float]:
    """Load the keypoint thresholds in force for a scorer on a dataset as {dimension: probability}, sorted by dimension;
    {} if none was chosen on labels.
    """
    query = sa.text(
        "SELECT dimension, threshold FROM threshold_in_force WHERE scorer_id = :scorer_id AND dataset_id = :dataset_id "
        'ORDER BY dimension COLLATE "C"'
    )
    rows = connection.execute(query, {"scorer_id": scorer_id, "dataset_id": dataset_id})
    return {row.dimension: row.threshold for row in rows}


def _build_columns(row: LabelThreshold) -> dict[str, Any]:
    return {
        "scope": row.scope,
        "shard": row.shard,
        "dimension": row.dimension,
        "objective": row.objective,
        "threshold": row.value,
        "n": row.n,
        "n_positive": row.n_positive,
        "details": dict(row.details),
    }
