"""Means of an expensive score over all captions of a dataset, a system or a selection, estimated from the part with it.

The expensive score is people's rating or that of the metric `judge`. A score that all captions of the group have
corrects the mean. Answers count up to the first caption without one in the order of the random numbers of captions, so
they are a simple random sample of the group. This is the order in which `reelsieve rate` and draws ask.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt
from sqlalchemy.engine import Connection, Engine

from assets.agreement.scales import load_scale
from assets.ingest.scales import Scale
from assets.promise.terms import JUDGE, uses_answers
from db.manifest.datasets import Dataset
from db.manifest.draws import load_caption_systems, load_drawable_captions
from db.reports.estimated_means import list_estimated_means, list_newest_selections, replace_estimated_means
from db.reports.judgements import load_mean_ratings
from db.scores.score_arrays import load_values
from db.scores.scorers import StoredScorer, list_scorers
from db.selection.draws import list_draws
from db.selection.promises import list_changed_samples, list_selected_ids, load_score_answers
from db.selection.recipes import build_recipe
from metrics_core.arrays import BoolArray, FloatArray, IntArray, find_values
from metrics_core.promise import MeanEstimate, count_further_answers, estimate_mean
from metrics_core.promise.means import FEWEST_ANSWERS

SEED = 0
"""The seed of the order in which captions are rated without another one."""
MOST_SELECTIONS = 10
"""Means are estimated for the newest selections of a dataset, at most so many."""
SHARE_OF_SCALE = 0.05
"""The half width of an interval that further answers are counted for, as a share of the scale; a judge's is 0 to 1."""


@dataclass(frozen=True, slots=True)
class EstimatedMean:
    """The mean of an expensive score over all captions of a group. expensive_score: the aspect of ratings, or `judge`.
    group_kind: dataset, system or selection; group_name: the system, the selection's number, None for the dataset.
    helper: the metric that corrects the mean; None without. n_more: further answers for an interval of this
    `half_width`; None where no forecast is possible.
    """

    expensive_score: str
    expensive_scorer_id: int | None
    group_kind: str
    group_name: str | None
    helper: str | None
    helper_scorer_id: int | None
    seed: int
    estimate: MeanEstimate
    half_width: float
    n_more: int | None

    def as_dict(self) -> dict[str, Any]:
        """Return the mean as flat plain data: its own fields, and those of the estimate."""
        own = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "estimate"}
        return {**own, **asdict(self.estimate)}


@dataclass(frozen=True, slots=True)
class _ExpensiveScore:
    """An expensive score. sample_ids, values: (n,), its answers; NaN for a caption that cannot be judged. is_of_all:
    whether captions of the whole dataset were asked, not only those that meet a condition.
    """

    name: str
    scorer_id: int | None
    sample_ids: IntArray
    values: FloatArray
    seed: int
    half_width: float
    is_of_all: bool


@dataclass(frozen=True, slots=True)
class _Group:
    """Captions of a dataset (`is_member`, by caption in the order of the draw)."""

    kind: str
    name: str | None
    is_member: BoolArray


def estimate_means(connection: Connection, dataset: Dataset, helpers: Sequence[StoredScorer]) -> list[EstimatedMean]:
    """Estimate the means of all expensive scores over the captions of a dataset, of each system and of the newest
    selections, with FEWEST_ANSWERS (10) answers or more: one for every helper with a value for all captions of the
    group, or one without correction. Must begin a transaction that sees one state.

    Left out are scores that all captions have, selections made by the answers, and groups with captions changed after
    they were asked.
    """
    systems = sorted(load_caption_systems(connection, dataset))
    loaded: list[tuple[StoredScorer, FloatArray]] = []
    means: list[EstimatedMean] = []
    for expensive in _load_expensive_scores(connection, dataset):
        captions = load_drawable_captions(connection, dataset, expensive.seed, systems)
        order = np.argsort(captions.numbers, kind="stable")
        ids, places = captions.sample_ids, captions.system_places[order]
        is_answered = np.isin(ids, expensive.sample_ids)[order]
        if is_answered.all():
            continue
        is_changed = np.isin(ids, list_changed_samples(connection, dataset, expensive.seed))[order]
        groups = [
            (group, n)
            for group in _list_groups(connection, dataset, expensive, ids[order], systems, places)
            if (n := _count_drawn(is_answered[group.is_member], is_of_all=expensive.is_of_all)) >= FEWEST_ANSWERS
            and not is_changed[group.is_member].any()
        ]
        if not groups:
            continue
        # Only now: they take most of the time, and few ratings come in the order of the draw.
        loaded = loaded or [(helper, load_values(connection, helper.scorer_id, ids)) for helper in helpers]
        answers = find_values(ids, expensive.sample_ids, expensive.values, np.nan)[order]
        cheap = [(scorer, values[order]) for scorer, values in loaded if scorer.scorer_id != expensive.scorer_id]
        for group, n in groups:
            means += _estimate_group(expensive, group, answers[group.is_member], n, cheap)
    return means


def store_estimated_means(engine: Engine, dataset: Dataset) -> list[EstimatedMean]:
    """Estimate the means of all expensive scores of a dataset, each by every active scorer as helper, replace the
    dataset's rows in table `estimated_mean`, and return the new ones.
    """
    with engine.connect().execution_options(isolation_level="REPEATABLE READ") as connection:
        helpers = [scorer for scorer in list_scorers(connection) if scorer.status == "active"]
        means = estimate_means(connection, dataset, helpers)
    with engine.begin() as connection:
        rows = [{name: value for name, value in mean.as_dict().items() if name != "helper"} for mean in means]
        replace_estimated_means(connection, dataset, rows)
    return means


def load_estimated_means(connection: Connection, dataset: Dataset) -> tuple[EstimatedMean, ...]:
    """Load the rows of a dataset from table `estimated_mean`, in the order in which they were computed."""
    of_estimate = [field.name for field in fields(MeanEstimate)]
    own = [field.name for field in fields(EstimatedMean) if field.name != "estimate"]
    return tuple(
        EstimatedMean(
            **{name: row[name] for name in own}, estimate=MeanEstimate(**{name: row[name] for name in of_estimate})
        )
        for row in list_estimated_means(connection, dataset)
    )


def _load_expensive_scores(connection: Connection, dataset: Dataset) -> Iterator[_ExpensiveScore]:
    """Yield ratings of captions, by aspect, and then the scores of the active judge."""
    for aspect, rated in load_mean_ratings(connection, dataset).items():
        half_width = _choose_half_width(load_scale(connection, dataset, aspect), rated.values)
        yield _ExpensiveScore(aspect, None, rated.sample_ids, rated.values, SEED, half_width, is_of_all=True)
    for scorer in list_scorers(connection):
        if scorer.metric != JUDGE or scorer.status != "active":
            continue
        ids, values = load_score_answers(connection, dataset, scorer.scorer_id)
        if ids.size:
            draws = list_draws(connection, dataset, JUDGE)
            whole = [draw for draw in draws if draw.condition is None]
            seed = max(whole or draws, key=lambda draw: draw.n_wanted).seed if draws else SEED
            is_of_all = bool(whole) or not draws
            yield _ExpensiveScore(JUDGE, scorer.scorer_id, ids, values, seed, SHARE_OF_SCALE, is_of_all)


def _choose_half_width(scale: Scale, ratings: FloatArray) -> float:
    """Return a twentieth of the scale; on real numbers, of the range of the ratings, or 1 where they are all equal."""
    if scale.least is None or scale.most is None:
        return float(np.ptp(ratings)) * SHARE_OF_SCALE or 1.0
    return (scale.most - scale.least) * SHARE_OF_SCALE


def _list_groups(
    connection: Connection,
    dataset: Dataset,
    expensive: _ExpensiveScore,
    ids: IntArray,
    systems: Sequence[str],
    places: npt.NDArray[np.int32],
) -> Iterator[_Group]:
    """Yield the groups of captions, whose ids and places of systems are given in the order of the draw."""
    yield _Group("dataset", None, np.ones(ids.size, dtype=np.bool_))
    if len(systems) > 1:
        for place, name in enumerate(systems):
            yield _Group("system", name, places == place)
    aspect = None if expensive.scorer_id is not None else expensive.name
    for row in list_newest_selections(connection, dataset, MOST_SELECTIONS):
        # A threshold stays the name that it had in the recipe, which says whether ratings made it.
        recipe = build_recipe({**row["spec"], "cuts": None})
        promised_by = "" if row["promise"] is None else row["promise"]["answered_by"]
        is_promised = promised_by.startswith(f"{JUDGE} ") if aspect is None else promised_by == f"people: {aspect}"
        if not is_promised and not uses_answers(recipe, aspect):
            is_member = np.isin(ids, list_selected_ids(connection, row["selection_id"]))
            yield _Group("selection", str(row["selection_id"]), is_member)


def _count_drawn(is_answered: BoolArray, *, is_of_all: bool) -> int:
    """Count the answers before the first gap; 0 where captions were asked by a condition that leaves out some of the
    group: answers after a gap show that, and those before it are then no random sample.
    """
    gaps = np.flatnonzero(~is_answered)
    n = int(gaps[0]) if gaps.size else is_answered.size
    return n if is_of_all or not is_answered[n:].any() else 0


def _estimate_group(
    expensive: _ExpensiveScore,
    group: _Group,
    answers: FloatArray,
    n: int,
    cheap: Sequence[tuple[StoredScorer, FloatArray]],
) -> Iterator[EstimatedMean]:
    """Yield the means of a group whose first n captions count, by each helper that has all values. Where some of these
    captions cannot be judged, the mean is that of captions that can, whose helpers' mean is not known.
    """
    is_judged = np.isfinite(answers[:n])
    n_unjudged = n - int(is_judged.sum())
    if n - n_unjudged < FEWEST_ANSWERS:
        return
    whole = [
        (scorer, values[group.is_member])
        for scorer, values in cheap
        if not n_unjudged and np.isfinite(values[group.is_member]).all()
    ]
    expensive_values, size = answers[:n][is_judged], answers.size - n_unjudged
    estimates: list[tuple[StoredScorer | None, MeanEstimate]] = [
        (scorer, estimate_mean(expensive_values, values[:n], float(values.mean()), size=size))
        for scorer, values in whole
    ]
    for scorer, estimate in estimates or [(None, estimate_mean(expensive_values, size=size))]:
        yield EstimatedMean(
            expensive_score=expensive.name,
            expensive_scorer_id=expensive.scorer_id,
            group_kind=group.kind,
            group_name=group.name,
            helper=scorer.metric if scorer else None,
            helper_scorer_id=scorer.scorer_id if scorer else None,
            seed=expensive.seed,
            estimate=estimate,
            half_width=expensive.half_width,
            n_more=count_further_answers(estimate, expensive.half_width),
        )
