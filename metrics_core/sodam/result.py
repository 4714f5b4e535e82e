"""What SodaM returns: an alignment, and the scores of a clip and of a system."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Compat = Literal["official"]
Status = Literal["ok", "no_prediction", "no_reference"]


@dataclass(frozen=True, slots=True)
class Alignment:
    """Which predicted segments tell of which reference segment. All indices refer to the input.

    anchors: (reference, prediction) pairs in time order, at most one for each side. groups: for each anchored reference
    all predictions merged into it, in time order. orphans: predictions of no group, in time order. value: sum of the
    anchors' IoU, in [0, min(N, M)]. n_swapped: spans on both sides that ended before they started.
    """

    anchors: tuple[tuple[int, int], ...]
    groups: Mapping[int, tuple[int, ...]]
    orphans: tuple[int, ...]
    value: float
    n_swapped: int = 0

    @property
    def n_merged(self) -> int:
        """Predictions after merging: groups and orphans."""
        return len(self.groups) + len(self.orphans)


@dataclass(frozen=True, slots=True)
class PairScore:
    """How much of one matched reference segment its merged predictions cover.

    value: covered share of its keypoints in [0, 1], None where it has no keypoint. by_dimension: (covered, total).
    """

    reference: int
    predictions: tuple[int, ...]
    covered: int
    keypoints: int
    value: float | None
    by_dimension: Mapping[str, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class DimensionScore:
    """Precision, recall and F1 of one dimension, each in [0, 1] or None where it is not defined."""

    precision: float | None
    recall: float | None
    f1: float | None


@dataclass(frozen=True, slots=True)
class ClipScore:
    """SodaM of one clip: `total` is the F1 over all dimensions. Numbers lie in [0, 1] or are None.

    ==============  ======================================  ==========================================
    status          meaning                                 numbers
    ==============  ======================================  ==========================================
    ok              scored                                  precision is None where every prediction
                                                            was merged into references without keypoint
    no_prediction   no predicted segment                    total and recall 0, precision None
    no_reference    no reference segment with a keypoint    all None
    ==============  ======================================  ==========================================

    by_dimension has an entry for every dimension named in the counts; its numbers are None where the clip has no
    keypoint of that dimension.
    """

    status: Status
    total: float | None
    precision: float | None
    recall: float | None
    by_dimension: Mapping[str, DimensionScore]
    pairs: tuple[PairScore, ...]


@dataclass(frozen=True, slots=True)
class SystemScore:
    """Unweighted means of the clips' F1, in total and by dimension, over the clips where it is defined.

    n_missing clips had no prediction and count as 0; n_undefined had no keypoint and are left out of n_clips.
    """

    total: float | None
    by_dimension: Mapping[str, float | None]
    n_clips: int
    n_missing: int
    n_undefined: int


@dataclass(frozen=True, slots=True)
class TemporalScore:
    """How well the times fit, whatever the texts say. Numbers lie in [0, 1] or are None.

    precision_at and recall_at: by IoU threshold, the share of merged predictions (of references) with some IoU above
    it; precision and recall are their means, f1 the harmonic mean of those. miou: mean over the references of their
    best IoU. With "no_prediction" precision is None and the rest 0, with "no_reference" all are None.
    """

    status: Status
    precision: float | None
    recall: float | None
    f1: float | None
    miou: float | None
    precision_at: Mapping[float, float | None]
    recall_at: Mapping[float, float | None]
