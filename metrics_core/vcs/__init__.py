"""VCS, the Video Comprehension Score: does a generated description tell the reference's story, in its order?

The numbers equal those of the authors' code 1.0.0; docs/metrics/vcs.md explains them.
"""

from metrics_core.vcs.chunking import chunk_segments
from metrics_core.vcs.result import DistanceDetail, LineDetail, VCSResult, best_reference
from metrics_core.vcs.score import vcs_from_embeddings, vcs_from_similarity

__all__ = [
    "DistanceDetail",
    "LineDetail",
    "VCSResult",
    "best_reference",
    "chunk_segments",
    "vcs_from_embeddings",
    "vcs_from_similarity",
]
