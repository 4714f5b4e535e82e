"""SodaM: aligns timed predictions with reference segments and scores the coverage of keypoints along the alignment.

The code follows the published recurrence; docs/metrics/ecs.md explains the numbers.
"""

from metrics_core.sodam.alignment import align, align_batch
from metrics_core.sodam.result import Alignment, ClipScore, DimensionScore, PairScore, SystemScore, TemporalScore
from metrics_core.sodam.score import count_covered, coverage, score_clip, system_score, temporal_score, verifier_passes
from metrics_core.sodam.spans import SodamWarning, iou_of_spans, merged_spans, merged_texts

__all__ = [
    "Alignment",
    "ClipScore",
    "DimensionScore",
    "PairScore",
    "SodamWarning",
    "SystemScore",
    "TemporalScore",
    "align",
    "align_batch",
    "count_covered",
    "coverage",
    "iou_of_spans",
    "merged_spans",
    "merged_texts",
    "score_clip",
    "system_score",
    "temporal_score",
    "verifier_passes",
]
