"""The thresholds of a checklist's dimensions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Thresholds:
    """A keypoint of a dimension is covered from by_dimension[dimension] on, elsewhere from `default` on.

    default: the verifier's own threshold, for dimensions without labels to calibrate on.

    >>> thresholds = Thresholds({"camera": 0.3}, default=0.5)
    >>> thresholds.of("camera"), thresholds.of("speech")
    (0.3, 0.5)
    """

    by_dimension: Mapping[str, float]
    default: float | None = None

    def of(self, dimension: str) -> float:
        """The threshold of a dimension; ValueError where there is neither its own nor a default."""
        threshold = self.by_dimension.get(dimension, self.default)
        if threshold is None:
            raise ValueError(f"There is no threshold for {dimension!r}: calibrate it, or give a default.")
        return threshold
