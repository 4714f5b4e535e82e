"""VCS, the Video Comprehension Score: does a generated description tell the reference's story, in the same order?

The numbers equal the output of the authors' code 1.0.0; docs/metrics/vcs.md explains them.
"""

from metrics_core.vcs.batch import vcs_batch, vcs_per_tolerance
from metrics_core.vcs.checks import VCSWarning
from metrics_core.vcs.embeddings import chunk_segments
from metrics_core.vcs.references import VCSCaptionResult, vcs_captions
from metrics_core.vcs.result import DistanceDetail, LineDetail, VCSResult, choose_best_reference
from metrics_core.vcs.score import vcs_from_embeddings, vcs_from_similarity
from metrics_core.vcs.short import split_content_words, vcs_short

__all__ = [
    "DistanceDetail",
    "LineDetail",
    "VCSCaptionResult",
    "VCSResult",
    "VCSWarning",
    "choose_best_reference",
    "chunk_segments",
    "split_content_words",
    "vcs_batch",
    "vcs_captions",
    "vcs_from_embeddings",
    "vcs_from_similarity",
    "vcs_per_tolerance",
    "vcs_short",
]
