"""What VCS returns: the score, each of its parts, and what a person needs to see why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DistanceDetail:
    """How one direction's NAS-D came about.

    `lct_height` is the tolerance in chunks per unit of `lct`; the penalties are sums of offsets from the
    mapping windows as fractions of the timeline. `max_penalty` is 0 where no match can miss its window.
    """

    lct_height: int
    max_penalty: float
    total_penalty: float


@dataclass(frozen=True, slots=True)
class LineDetail:
    """How one direction's NAS-L came about: the length of the line through the matches against its band.

    `floor_path_y` and `ceil_path_y` are the matches (0-based) along the shortest and the longest line through
    the mapping windows. `step_rule` has one letter per step: `s` counted as drawn, `c` capped to the floor
    line's step (within the tolerance), `-` not counted. A single walked chunk draws no line: lengths 0,
    limits None, paths and rule empty.
    """

    actual_length: float
    floor_length: float
    ceil_length: float
    omega0: float | None
    omega_lct: float | None
    floor_path_y: tuple[int, ...]
    ceil_path_y: tuple[int, ...]
    step_rule: str


@dataclass(frozen=True, slots=True)
class VCSResult:
    """VCS of one pair of texts and everything it was made from.

    Precision walks the generated chunks and looks for reference chunks, recall the other way round:
    `match_precision` and `windows_precision` have one entry per generated chunk, `match_recall` and
    `windows_recall` one per reference chunk. Windows are half-open (start, end) pairs of 0-based indices.
    `vcs`, `sas` and `nas` lie in [0, 1] when GAS and similarities are cosines, up to rounding.
    """

    vcs: float
    gas: float
    sas: float
    las: float
    las_precision: float
    las_recall: float
    nas: float
    nas_f1: float
    nas_d: float
    nas_d_precision: float
    nas_d_recall: float
    nas_l: float
    nas_l_precision: float
    nas_l_recall: float
    window_regularizer: float
    window_area: int
    windows_precision: tuple[tuple[int, int], ...]
    windows_recall: tuple[tuple[int, int], ...]
    match_precision: tuple[int, ...]
    match_recall: tuple[int, ...]
    nas_d_detail_precision: DistanceDetail
    nas_d_detail_recall: DistanceDetail
    nas_l_detail_precision: LineDetail
    nas_l_detail_recall: LineDetail

    @property
    def margin(self) -> float:
        """SAS + NAS - 1: the numerator of VCS before the cut at 0, so it still ranks pairs that score 0."""
        return self.sas + self.nas - 1.0

    @property
    def always_zero(self) -> bool:
        """True when the numbers of chunks alone force VCS to 0 (up to rounding), whatever the texts say.

        Never true of a pair scored with `short_text=True`.
        """
        return (
            self.window_regularizer == 1.0
            or (self.nas_d_detail_precision.max_penalty == 0.0 and self.nas_d_precision == 0.0)
            or (self.nas_d_detail_recall.max_penalty == 0.0 and self.nas_d_recall == 0.0)
        )


def best_reference(results: Sequence[VCSResult]) -> int:
    """Index of the reference with the highest VCS; ties go to the higher margin, then to the lower index.

    Raises ValueError when there is no result to choose from.
    """
    if not results:
        raise ValueError("There is no result to choose from: score the text against at least one reference.")
    return max(range(len(results)), key=lambda i: (results[i].vcs, results[i].margin))
