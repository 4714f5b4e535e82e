"""The result of VCS: the score, its parts, and the details that show a person how the score came about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DistanceDetail:
    """The numbers behind NAS-D of one direction. lct_height: the tolerance in chunks per unit of `lct`. total_penalty:
    the sum of the matches' offsets from the mapping windows, where these exceed the tolerance, divided by the length of
    the timeline. max_penalty: the largest possible one, 0 where no match can miss its window.
    """

    lct_height: int
    max_penalty: float
    total_penalty: float


@dataclass(frozen=True, slots=True)
class LineDetail:
    """The numbers behind NAS-L of one direction: the length of the line through the matches, and those of the shortest
    (floor) and the longest (ceil) line through the mapping windows. floor_path_y, ceil_path_y: the cells of these
    lines, counted from 0. omega0: how many chunks a step may rise to count with its own length; omega_lct: to count at
    all.

    `step_rule` has one letter per step: `s` counts with its own length, `c` counts with the length of the floor line's
    step (within the tolerance), `-` does not count. A single walked chunk draws no line: its lengths are 0, its limits
    None, its paths and rule empty.
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
    """VCS of one pair of texts, with all its parts. VCS is computed from SAS and NAS; SAS from GAS, the similarity of
    the whole texts, and LAS, that of matched chunks; NAS from NAS-D and NAS-L, the order of the matches. Precision
    matches every generated chunk with a reference chunk, recall every reference chunk with a generated one.

    So `match_precision` and `windows_precision` have one entry per generated chunk, `match_recall` and `windows_recall`
    one per reference chunk. Windows are half-open (start, end) pairs of 0-based indices. `vcs`, `sas` and `nas` lie in
    [0, 1], up to rounding, when GAS and similarities are cosines.
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
        """SAS + NAS - 1, the numerator of VCS. It may be negative, so it ranks pairs whose VCS is 0."""
        return self.sas + self.nas - 1.0

    @property
    def always_zero(self) -> bool:
        """Whether the numbers of chunks force VCS to 0 (up to rounding), whatever the texts say. It is False for every
        pair scored with `short_text=True`.
        """
        return (
            self.window_regularizer == 1.0
            or (self.nas_d_detail_precision.max_penalty == 0.0 and self.nas_d_precision == 0.0)
            or (self.nas_d_detail_recall.max_penalty == 0.0 and self.nas_d_recall == 0.0)
        )


def choose_best_reference(results: Sequence[VCSResult]) -> int:
    """Return the index of the result with the highest VCS. Ties go to the higher margin, then the lower index. Raises
    ValueError when there is no result to choose from.
    """
    if not results:
        raise ValueError("There is no result to choose from: score the text against at least one reference.")
    return max(range(len(results)), key=lambda i: (results[i].vcs, results[i].margin))
