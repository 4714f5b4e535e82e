"""The checked input of an agreement table: values of metrics and simple scores, ratings of the same items, and their
videos and systems.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from metrics_core.agreement.groupings import ComparedValues
from metrics_core.agreement.raters import require_ratings
from metrics_core.arrays import BoolArray, FloatArray, IntArray, number_groups
from metrics_core.intervals import draw_blocks


@dataclass(frozen=True)
class AgreementInputs:
    """The checked input of an agreement table over n items. values: of metrics and baselines, (n,) by name, NaN for
    undefined; `baselines` names those that are simple scores. ratings: (n, raters) by aspect, NaN where a rater gave
    none. video, system, block: numbers (n,) of each item's video, system (-1 for unknown) and block of videos.

    seed: of the blocks (see `draw_blocks`), and of the halves of videos on which ties are calibrated.
    """

    values: dict[str, FloatArray]
    baselines: tuple[str, ...]
    ratings: dict[str, FloatArray]
    video: IntArray
    system: IntArray
    block: IntArray
    seed: int = 0

    @property
    def n_videos(self) -> int:
        """The number of different videos."""
        return int(self.video.max(initial=-1)) + 1

    def count_videos(self, kept: BoolArray) -> int:
        """Count the videos of the items for which the mask `kept` is True."""
        return np.unique(self.video[kept]).size

    def select_items(self, metric: FloatArray, people: FloatArray, kept: BoolArray) -> ComparedValues:
        """Return a metric's values (n,) and people's ratings (n,) of the items for which the mask `kept` is True, with
        their videos, systems and blocks.
        """
        return ComparedValues(metric[kept], people[kept], self.video[kept], self.system[kept], self.block[kept])

    def select_defined_items(self, metric: FloatArray, people: FloatArray) -> ComparedValues:
        """Return a metric's values (n,) and people's ratings (n,) of the items where both are finite, with their
        videos, systems and blocks.
        """
        return self.select_items(metric, people, np.isfinite(metric) & np.isfinite(people))


def build_inputs(
    metrics: Mapping[str, npt.ArrayLike],
    ratings: Mapping[str, npt.ArrayLike],
    videos: Sequence[object],
    systems: Sequence[object | None] | None = None,
    baselines: Mapping[str, npt.ArrayLike] | None = None,
    *,
    seed: int = 0,
) -> AgreementInputs:
    """Check the arguments of `compute_agreement_rows` and convert them to arrays, with videos, systems and blocks of
    videos as numbers. Raises ValueError for shapes that do not fit, infinite numbers, and a name of both a metric and a
    baseline.
    """
    n, baselines = len(videos), baselines or {}
    shared_names = sorted(set(metrics) & set(baselines))
    if shared_names:
        raise ValueError(f"{shared_names[0]!r} names a metric and a baseline: give them different names.")
    values = {name: _require_values(name, side, n) for name, side in {**metrics, **baselines}.items()}
    rated = {aspect: require_ratings(of_aspect) for aspect, of_aspect in ratings.items()}
    for aspect, of_aspect in rated.items():
        if len(of_aspect) != n:
            raise ValueError(
                f"{aspect} has ratings of {len(of_aspect)} items, there are {n}: give a row for each item."
            )
    if systems is not None and len(systems) != n:
        raise ValueError(f"There are {len(systems)} systems for {n} items: give one for each item.")
    video = number_groups(videos)
    block = draw_blocks(video, seed)
    system = _number_systems(systems or [None] * n)
    return AgreementInputs(values, tuple(baselines), rated, video, system, block, seed)


def _require_values(name: str, values: npt.ArrayLike, n: int) -> FloatArray:
    """Return values (n,) as float64. Raises ValueError for another shape and infinite numbers."""
    side = np.asarray(values, dtype=np.float64)
    if side.shape != (n,):
        raise ValueError(f"{name} has shape {side.shape}: give a number for every one of the {n} items.")
    if np.isinf(side).any():
        raise ValueError(f"{name} has an infinite value: give numbers, and NaN where it is undefined.")
    return side


def _number_systems(systems: Sequence[object | None]) -> IntArray:
    """Number the systems of items from 0 in the order in which they first appear, and None as -1."""
    known = np.array([system is not None for system in systems], dtype=np.bool_)
    number = np.full(len(systems), -1, dtype=np.int64)
    number[known] = number_groups([system for system in systems if system is not None])
    return number
