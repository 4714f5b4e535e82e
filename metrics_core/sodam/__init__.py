"""SodaM: align timed predictions with reference segments, and score the coverage of keypoints along the alignment.

The code follows the published recurrence; docs/metrics/ecs.md explains the numbers.
"""

from metrics_core.sodam.alignment import align, align_batch
from metrics_core.sodam.result import Alignment, AlignmentScore, DimensionF1, SegmentScore, SystemScore, TemporalScore
from metrics_core.sodam.score import (
    compute_coverage,
    compute_system_score,
    compute_temporal_score,
    count_covered_keypoints,
    score_alignment,
)
from metrics_core.sodam.spans import SodamWarning, compute_span_iou, merge_spans, merge_texts

__all__ = [
    "Alignment",
    "AlignmentScore",
    "DimensionF1",
    "SegmentScore",
    "SodamWarning",
    "SystemScore",
    "TemporalScore",
    "align",
    "align_batch",
    "compute_coverage",
    "compute_span_iou",
    "compute_system_score",
    "compute_temporal_score",
    "count_covered_keypoints",
    "merge_spans",
    "merge_texts",
    "score_alignment",
]
