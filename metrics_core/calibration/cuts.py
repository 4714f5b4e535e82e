"""The candidate thresholds of a label set, and what each would predict."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from metrics_core.calibration.labels import FloatArray, IntArray, Labelled


@dataclass(frozen=True, slots=True, eq=False)
class Cuts:
    """Candidate thresholds (c,), from the largest down, and how many of the sorted scores reach each."""

    thresholds: FloatArray
    n_reaching: IntArray


def cuts_of(labelled: Labelled, grid_step: float | None) -> Cuts:
    """The candidates: every distinct score and one above them all, or the multiples of `grid_step` in [0, 1]."""
    rising = labelled.scores[::-1]
    if grid_step is None:
        distinct = np.unique(rising)
        thresholds = np.append(distinct, np.nextafter(distinct[-1:], np.inf))[::-1]
    else:
        n_steps = round(1 / grid_step)
        # Quotients of whole numbers are the floats nearest to the decimals; sums of steps are not.
        thresholds = (np.arange(n_steps + 1) / n_steps)[::-1]
    return Cuts(thresholds, rising.size - np.searchsorted(rising, thresholds, side="left"))


def counts_at(cuts: Cuts, weights: IntArray) -> IntArray:
    """Sums of `weights` (.., n), in the order of the sorted scores, over the scores that reach each cut: (.., c)."""
    sums = np.zeros((*weights.shape[:-1], weights.shape[-1] + 1), dtype=np.int64)
    weights.cumsum(axis=-1, out=sums[..., 1:])
    counts: IntArray = sums[..., cuts.n_reaching]
    return counts
