"""The arms of a trial: the captions that students train on, all of them of the training part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from db.selection.trial_rows import LENGTH, TrialCaptions
from metrics_core.arrays import FloatArray, IntArray
from metrics_core.trial.noise import plant_noise

NOISE_SHARE = 0.4
"""The share of a selection's captions that the control swaps between videos."""
RANDOM, ALL, NOISY, COPY = "random", "all", "planted noise", "copy"
"""Names of the arms that every trial has."""
_SIMPLE_NAMES = {LENGTH: "length", "words_in_common": "words in common", "cosine": "cosine"}


@dataclass(frozen=True, slots=True)
class Arm:
    """A part of the training captions that a trial trains on. n: its number of rows. share: the share of all captions,
    for an arm of the curve.

    draw: gives the rows by seed, the same ones for most: the positions (n,) of the captions whose texts they have, and
    of those whose videos; they differ only where noise is planted.
    """

    name: str
    n: int
    draw: Callable[[int], tuple[IntArray, IntArray]]
    share: float | None = None


@dataclass(frozen=True, slots=True)
class TrialRun:
    """One student to train: the rows of an arm in one seed, as `Arm.draw` gives them. rows_sha256: the digest of rows,
    held-out videos and seed; sha256: that of these and the trainer.
    """

    arm: str
    seed: int
    texts: IntArray
    videos: IntArray
    rows_sha256: str
    sha256: str


def build_arms(
    captions: TrialCaptions,
    training: IntArray,
    selections: Mapping[str, IntArray],
    shares: Mapping[float, IntArray],
    ratings: tuple[str, Mapping[int, float]] | None,
) -> list[Arm]:
    """Return the arms of a trial in the order of the report: the selection, those that it is compared with, the curve,
    and two controls. A trial that misses planted noise, or finds a difference in reordered rows, proves nothing.

    training: the positions of all training captions. selections: those of selections by name, the tried one first, of
    which every arm of equal number has as many in each stratum. shares: those of the curve. ratings: aspect and mean
    rating by sample; the arm of the best rated exists where enough captions are rated.
    """
    (name, chosen), *others = selections.items()
    pool = _group_by_stratum(captions, training)
    wanted = Counter(captions.strata[position] for position in chosen.tolist())
    # Captions of the selection that are gone are in no pool, which may then be too small.
    quota = {name: min(n, len(pool[name])) for name, n in wanted.items() if name in pool}

    def draw(seed: int) -> tuple[IntArray, IntArray]:
        drawn = _draw(pool, quota, seed)
        return drawn, drawn

    def add_noise(seed: int) -> tuple[IntArray, IntArray]:
        return chosen[plant_noise(captions.video_ids[chosen], NOISE_SHARE, seed)], chosen

    def reorder(seed: int) -> tuple[IntArray, IntArray]:
        shuffled = np.random.default_rng(seed).permutation(chosen)
        return shuffled, shuffled

    values = {_SIMPLE_NAMES[name]: column for name, column in captions.values.items()}
    if ratings is not None:
        aspect, means = ratings
        rated = np.array([means.get(sample_id, np.nan) for sample_id in captions.sample_ids.tolist()])
        values[f"best rated ({aspect})"] = rated
    best = {name: _take_best(pool, quota, column) for name, column in values.items()}
    return [
        _build_fixed_arm(name, chosen),
        Arm(RANDOM, sum(quota.values()), draw),
        _build_fixed_arm(ALL, training),
        *[_build_fixed_arm(other, positions) for other, positions in others],
        *[_build_fixed_arm(value, positions) for value, positions in best.items() if positions is not None],
        *[_build_fixed_arm(f"share {share:g}", positions, share) for share, positions in shares.items()],
        Arm(NOISY, len(chosen), add_noise),
        Arm(COPY, len(chosen), reorder),
    ]


def _build_fixed_arm(name: str, positions: IntArray, share: float | None = None) -> Arm:
    """An arm that has the captions at these positions, whatever the seed."""
    return Arm(name, len(positions), lambda _: (positions, positions), share)


def _group_by_stratum(captions: TrialCaptions, positions: IntArray) -> dict[str, IntArray]:
    strata = np.array([captions.strata[position] for position in positions.tolist()])
    return {str(name): positions[strata == name] for name in np.unique(strata)}


def _draw(pool: Mapping[str, IntArray], quota: Mapping[str, int], seed: int) -> IntArray:
    """Draw as many captions of every stratum as the quota has, without replacement."""
    rng = np.random.default_rng(seed)
    return _join([rng.permutation(pool[name])[:n] for name, n in sorted(quota.items())])


def _take_best(pool: Mapping[str, IntArray], quota: Mapping[str, int], values: FloatArray) -> IntArray | None:
    """Take the best by a value in every stratum, equal ones in order of id; None where one has too few values."""
    taken = []
    for name, n in sorted(quota.items()):
        known = pool[name][np.isfinite(values[pool[name]])]
        if len(known) < n:
            return None
        taken.append(known[np.argsort(-values[known], kind="stable")][:n])
    return _join(taken)


def _join(parts: Sequence[IntArray]) -> IntArray:
    return np.sort(np.concatenate([np.empty(0, dtype=np.int64), *parts]))
