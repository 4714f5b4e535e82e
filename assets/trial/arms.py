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
SIMPLE_NAMES = {LENGTH: "length", "words_in_common": "words in common", "cosine": "cosine"}


@dataclass(frozen=True, slots=True)
class Arm:
    """A part of the training captions. n: its number of rows. share: the share of all captions, for an arm of the
    curve.

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
    chosen: IntArray,
    ratings: tuple[str, Mapping[int, float]] | None,
    others: Mapping[str, IntArray],
) -> list[Arm]:
    """Return the arms that a selection is compared with, in the order of the report.

    training: the positions of all training captions. chosen: those of the selection, of which every arm of equal number
    has as many in each stratum. ratings: aspect and mean rating by sample; the arm of the best rated exists where
    enough captions are rated. others: the positions of further selections, by name.
    """
    pool = _group_by_stratum(captions, training)
    wanted = Counter(captions.strata[position] for position in chosen.tolist())
    # Captions of the selection that are gone are in no pool, which may then be too small.
    quota = {name: min(n, len(pool[name])) for name, n in wanted.items() if name in pool}

    def draw(seed: int) -> tuple[IntArray, IntArray]:
        drawn = _draw(pool, quota, seed)
        return drawn, drawn

    arms = [
        Arm(RANDOM, sum(quota.values()), draw),
        build_fixed_arm(ALL, training),
        *[build_fixed_arm(name, positions) for name, positions in others.items()],
    ]
    values = {SIMPLE_NAMES[name]: column for name, column in captions.values.items()}
    if ratings is not None:
        aspect, means = ratings
        rated = np.array([means.get(sample_id, np.nan) for sample_id in captions.sample_ids.tolist()])
        values[f"best rated ({aspect})"] = rated
    for name, column in values.items():
        best = _take_best(pool, quota, column)
        if best is not None:
            arms.append(build_fixed_arm(name, best))
    return arms


def build_controls(captions: TrialCaptions, chosen: IntArray) -> list[Arm]:
    """Return the two controls of a trial: the selection with planted noise, and the selection in another order.

    A trial that misses the first, or finds a difference in the second, can prove nothing.
    """

    def add_noise(seed: int) -> tuple[IntArray, IntArray]:
        return chosen[plant_noise(captions.video_ids[chosen], NOISE_SHARE, seed)], chosen

    def reorder(seed: int) -> tuple[IntArray, IntArray]:
        shuffled = np.random.default_rng(seed).permutation(chosen)
        return shuffled, shuffled

    return [Arm(NOISY, len(chosen), add_noise), Arm(COPY, len(chosen), reorder)]


def build_fixed_arm(name: str, positions: IntArray, share: float | None = None) -> Arm:
    """Return an arm that has the captions at these positions, whatever the seed. share: see `Arm`."""
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
