"""EVQAScore: do the keywords of a text, and the text as a whole, fit the frames of a video? No reference needed.

The uniform case equals the authors' public code, the weighted one EMScore; docs/metrics/evqa.md explains the numbers.
"""

from metrics_core.evqa.features import VideoFeatures, prepare_frames
from metrics_core.evqa.result import EVQAResult, Status, qa_score
from metrics_core.evqa.score import compute_keyword_frame_cosines, evqa_from_features, evqa_from_prepared_frames
from metrics_core.vectors import BadFeature

__all__ = [
    "BadFeature",
    "EVQAResult",
    "Status",
    "VideoFeatures",
    "compute_keyword_frame_cosines",
    "evqa_from_features",
    "evqa_from_prepared_frames",
    "prepare_frames",
    "qa_score",
]
