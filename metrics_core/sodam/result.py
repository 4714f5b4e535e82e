"""The results of SodaM: an alignment, and the scores of a video and of a system."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Compat = Literal["official"]
Status = Literal["ok", "no_prediction", "no_reference"]


@dataclass(frozen=True, slots=True)
class Alignment:
    """An assignment of one video's predicted segments to its reference segments, by their positions in the caller's
    input. anchors: (reference, prediction) pairs; a segment is in at most one. groups: by anchored reference, all
    predictions merged into it. orphans: predictions in no group. total_iou: sum of the anchors' IoU, in [0, min(N, M)].

    All are in time order, or with compat="official" in the order of the input. n_swapped: spans of both sides that
    ended before they started.
    """

    anchors: tuple[tuple[int, int], ...]
    groups: Mapping[int, tuple[int, ...]]
    orphans: tuple[int, ...]
    total_iou: float
    n_swapped: int = 0

    @property
    def n_merged_predictions(self) -> int:
        """The number of predictions after merging: every group counts as one, and so does every orphan."""
        return len(self.groups) + len(self.orphans)


@dataclass(frozen=True, slots=True)
class SegmentScore:
    """How many keypoints of one anchored reference segment the predictions merged into it cover. reference,
    predictions: their positions in the input of `align`. coverage: covered share of the keypoints, None where the
    segment has no keypoint. by_dimension: (covered, all) keypoints of every dimension.
    """

    reference: int
    predictions: tuple[int, ...]
    n_covered: int
    n_keypoints: int
    coverage: float | None
    by_dimension: Mapping[str, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class DimensionF1:
    """Precision, recall and F1 of one dimension, in [0, 1]. All are None where no reference segment has a keypoint of
    the dimension; precision also where no prediction counts.
    """

    precision: float | None
    recall: float | None
    f1: float | None


@dataclass(frozen=True, slots=True)
class AlignmentScore:
    """SodaM of one video: precision, recall and F1 over all dimensions and by dimension. Numbers lie in [0, 1] or are
    None. segment_scores: the details of every reference segment that a prediction was merged into.

    ==============  ======================================  ==========================================
    status          meaning                                 numbers
    ==============  ======================================  ==========================================
    ok              scored                                  precision is None where every prediction
                                                            was merged into references without keypoint
    no_prediction   no predicted segment                    total and recall 0, precision None
    no_reference    no reference segment with a keypoint    all None
    ==============  ======================================  ==========================================

    by_dimension has an entry for every dimension named in the counts; its numbers are None where the video has no
    keypoint of that dimension.
    """

    status: Status
    f1: float | None
    precision: float | None
    recall: float | None
    by_dimension: Mapping[str, DimensionF1]
    segment_scores: tuple[SegmentScore, ...]


@dataclass(frozen=True, slots=True)
class SystemScore:
    """The unweighted means of F1 over one system's videos, in total and by dimension; None where no video's F1 is
    defined. n_without_prediction videos had no prediction and count as 0. n_undefined videos had no keypoint and are
    not among the n_videos.
    """

    mean_f1: float | None
    by_dimension: Mapping[str, float | None]
    n_videos: int
    n_without_prediction: int
    n_undefined: int


@dataclass(frozen=True, slots=True)
class TemporalScore:
    """How well the times of one video's predictions fit those of the reference segments, whatever the texts say.
    precision_by_threshold: by IoU threshold, the share of merged predictions with an IoU above it; recall_by_threshold:
    the same share of references. precision and recall are their means, f1 the harmonic mean of both. mean_iou: mean of
    the references' best IoU.

    Numbers lie in [0, 1] or are None. With "no_prediction" precision is None, also at every threshold, and the rest 0;
    with "no_reference" all numbers are None.
    """

    status: Status
    precision: float | None
    recall: float | None
    f1: float | None
    mean_iou: float | None
    precision_by_threshold: Mapping[float, float | None]
    recall_by_threshold: Mapping[float, float | None]
