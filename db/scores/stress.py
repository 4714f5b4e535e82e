"""Stored results of stressed metrics: how fixed rewrites of captions change the values of a scorer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from db.schema import scorer, stress_effect, stress_result
from db.server.conflicts import retry_conflicts


@dataclass(frozen=True, slots=True)
class StressEffect:
    """How one kind of rewrite (`rewrite`) changes the values of a scorer. keeps_truth: whether it adds no truth;
    otherwise it takes truth away. conclusion: `gains_from_nothing`, `does_not_lose`, `fine` or `open`. n, n_videos:
    captions with a value before and after, and their videos. change: mean of the value after less the value before,
    with its 95 % interval from low to high. rank_change: the same in percentile points, with its interval. rise_share,
    fall_share: shares of the captions, 0 to 1. p_value: corrected for the number of kinds. These are None where
    undefined.

    n_not_applicable: captions that the rewrite does not fit. unscored: rewrites without a value, by status.
    best_look_alike, all_look_alike: shares of the best eighth and of all captions that look so without a rewrite; None
    where there is no simple sign.
    """

    rewrite: str
    keeps_truth: bool
    conclusion: str
    n: int
    n_videos: int
    change: float | None
    low: float | None
    high: float | None
    rank_change: float | None
    rank_low: float | None
    rank_high: float | None
    rise_share: float | None
    fall_share: float | None
    p_value: float | None
    n_not_applicable: int
    unscored: Mapping[str, int]
    best_look_alike: float | None
    all_look_alike: float | None


@dataclass(frozen=True, slots=True)
class Stress:
    """The outcome of a stress of one scorer of a metric on one dataset, with the effect of every kind of rewrite.

    n_drawn: captions drawn. n_timed: those left out because they have times. n_unscored: those left out because they
    got no value again. n_captions, n_videos: those that were rewritten, and their videos. small_change: the least
    change of the value that counts. stressed_at: when it was measured.
    """

    metric: str
    scorer_id: int
    seed: int
    n_drawn: int
    n_timed: int
    n_unscored: int
    n_captions: int
    n_videos: int
    small_change: float
    stressed_at: datetime
    effects: tuple[StressEffect, ...]


_EFFECT_COLUMNS = [stress_effect.c[name] for name in StressEffect.__dataclass_fields__]
_RESULT_COLUMNS = [stress_result.c[name] for name in Stress.__dataclass_fields__ if name in stress_result.c]


@retry_conflicts
def store_stress(engine: Engine, dataset_id: int, stress: Stress) -> None:
    """Store the outcome of a stress in one transaction, in place of the earlier one of this scorer on this dataset.
    Raises sqlalchemy.exc.IntegrityError, and stores nothing, if dataset or scorer are gone. Tried again, up to three
    times, after a conflict with another transaction.
    """
    keys = {"dataset_id": dataset_id, "scorer_id": stress.scorer_id}
    # Two commands may replace at once: the later one waits here, then replaces what the earlier one stored.
    is_this = scorer.c.scorer_id == stress.scorer_id
    with engine.begin() as connection:
        connection.execute(sa.select(scorer.c.scorer_id).where(is_this).with_for_update(key_share=True))
        connection.execute(sa.delete(stress_result).filter_by(**keys))
        row = {column.name: getattr(stress, column.name) for column in _RESULT_COLUMNS}
        connection.execute(sa.insert(stress_result), {**keys, **row})
        connection.execute(sa.insert(stress_effect), [{**keys, **asdict(effect)} for effect in stress.effects])


def load_stresses(connection: Connection, dataset_id: int) -> dict[str, Stress]:
    """Load {metric: the outcome of its stress on a dataset} of the metrics whose active scorer was stressed there, with
    the effects in the order of the names of their kinds. Outcomes of other scorers are left out.
    """
    is_shown = sa.and_(stress_result.c.dataset_id == dataset_id, scorer.c.status == "active")
    results = stress_result.join(scorer, scorer.c.scorer_id == stress_result.c.scorer_id)
    query = sa.select(scorer.c.metric, *_RESULT_COLUMNS).select_from(results).where(is_shown).order_by(scorer.c.metric)
    effects = sa.select(*_EFFECT_COLUMNS).where(stress_effect.c.dataset_id == dataset_id)
    ordered = effects.order_by(sa.collate(stress_effect.c.rewrite, "C"))
    return {
        row["metric"]: Stress(
            **row,
            effects=tuple(
                StressEffect(*effect)
                for effect in connection.execute(ordered.where(stress_effect.c.scorer_id == row["scorer_id"]))
            ),
        )
        for row in connection.execute(query).mappings().all()
    }
