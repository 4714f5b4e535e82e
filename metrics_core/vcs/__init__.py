"""VCS, the Video Comprehension Score: does a generated description tell the reference's story, in the same order?

The numbers equal the output of the authors' code 1.0.0; docs/metrics/vcs.md explains them.
"""

from metrics_core.vcs.batch import vcs_batch, vcs_sweep
from metrics_core.vcs.checks import VCSWarning
from metrics_core.vcs.embeddings import chunk_segments
from metrics_core.vcs.references import CaptionResult, vcs_captions
from metrics_core.vcs.result import DistanceDetail, LineDetail, VCSResult, best_reference
from metrics_core.vcs.score import vcs_from_embeddings, vcs_from_similarity
from metrics_core.vcs.short import vcs_short, words_of

__all__ = [
    "CaptionResult",
    "DistanceDetail",
    "LineDetail",
    "VCSResult",
    "VCSWarning",
    "best_reference",
    "chunk_segments",
    "vcs_batch",
    "vcs_captions",
    "vcs_from_embeddings",
    "vcs_from_similarity",
    "vcs_short",
    "vcs_sweep",
    "words_of",
]
