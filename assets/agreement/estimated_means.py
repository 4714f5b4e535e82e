"""Mean ratings over all captions of a dataset, and of each system, estimated from the part that people have rated.

A metric that has a value for all captions corrects the mean of the rated ones. Rated captions count up to the first one
without a rating in the order of their random numbers, so they are a simple random sample of the captions of a dataset
and of each system. This is the order in which `reelsieve rate` asks.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from sqlalchemy.engine import Connection

from db.manifest.datasets import Dataset
from db.manifest.rating_draws import load_caption_systems, load_drawable_captions
from db.reports.mean_ratings import list_rated_aspects, load_mean_ratings
from db.scores.scorers import StoredScorer, load_value_arrays
from metrics_core.arrays import BoolArray, FloatArray, IntArray
from metrics_core.promise import MeanEstimate, count_further_answers, estimate_mean
from metrics_core.promise.means import FEWEST_ANSWERS

SEED = 0
"""The seed of the order in which captions are rated without another one."""


@dataclass(frozen=True, slots=True)
class EstimatedMean:
    """The mean rating for an aspect of all captions by a system that a metric has a value for; of all systems where
    `system` is None. helper: the metric that corrects it. n_more: how many more ratings would probably halve the
    interval; None where that cannot be forecast.
    """

    aspect: str
    system: str | None
    helper: str
    estimate: MeanEstimate
    n_more: int | None

    def as_dict(self) -> dict[str, Any]:
        """Return the mean as plain data for JSON."""
        return {**asdict(self), "estimate": asdict(self.estimate)}


def estimate_mean_ratings(connection: Connection, dataset: Dataset, scorer: StoredScorer) -> list[EstimatedMean]:
    """Estimate the mean ratings of all captions of a dataset and of each system, corrected by a scorer: for every
    aspect with FEWEST_ANSWERS (10) ratings or more that count, and every system with as many. Empty without such. Reads
    one state of the database in a transaction that sees one.
    """
    systems = sorted(load_caption_systems(connection, dataset))
    captions = load_drawable_captions(connection, dataset, SEED, systems)
    helper = _place_values(captions.sample_ids, *load_value_arrays(connection, scorer.scorer_id, dataset.dataset_id))
    order = np.argsort(captions.chances, kind="stable")
    order = order[np.isfinite(helper[order])]
    means = []
    for aspect in list_rated_aspects(connection, dataset):
        rated = _place_values(captions.sample_ids, *load_mean_ratings(connection, dataset, aspect))
        groups: list[tuple[str | None, BoolArray]] = [(None, np.ones(order.size, dtype=np.bool_))]
        groups += [(name, captions.system_places[order] == place) for place, name in enumerate(systems)]
        for system, is_member in groups if len(systems) > 1 else groups[:1]:
            members = order[is_member]
            estimate = _estimate_group(rated[members], helper[members])
            if estimate.n >= FEWEST_ANSWERS:
                n_more = _count_to_halve(estimate)
                means.append(EstimatedMean(aspect, system, scorer.name, estimate, n_more))
    return means


def _estimate_group(rated: FloatArray, helper: FloatArray) -> MeanEstimate:
    """Estimate the mean of ratings, NaN for none, in the order of the draw; those before the first gap count."""
    gaps = np.flatnonzero(np.isnan(rated))
    n = int(gaps[0]) if gaps.size else rated.size
    cheap_mean = float(helper.mean()) if helper.size else None
    return estimate_mean(rated[:n], helper[:n], cheap_mean, size=rated.size)


def _count_to_halve(estimate: MeanEstimate) -> int | None:
    if estimate.low is None or estimate.high is None or estimate.high <= estimate.low:
        return None
    return count_further_answers(estimate, (estimate.high - estimate.low) / 4)


def _place_values(sample_ids: IntArray, ids: IntArray, values: FloatArray) -> FloatArray:
    """Return the values (n,) of these samples, which are sorted by id; NaN for none."""
    placed = np.full(sample_ids.size, np.nan)
    if sample_ids.size:
        rows = np.minimum(np.searchsorted(sample_ids, ids), sample_ids.size - 1)
        is_caption = sample_ids[rows] == ids
        placed[rows[is_caption]] = values[is_caption]
    return placed
