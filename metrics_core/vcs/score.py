"""VCS of one pair of texts, from similarities or embeddings."""

from __future__ import annotations

import numpy.typing as npt

from metrics_core.vcs.checks import (
    VCSParameters,
    compute_largest_magnitude,
    require_finite_gas,
    require_similarity_matrix,
    warn_about_fractional_lct,
    warn_about_range,
)
from metrics_core.vcs.directions import score_stack
from metrics_core.vcs.embeddings import compute_similarities
from metrics_core.vcs.result import VCSResult


def vcs_from_similarity(
    similarity: npt.ArrayLike,
    gas: float,
    *,
    lct: float = 0,
    context_cutoff: float = 0.6,
    context_window_control: float = 4.0,
    short_text: bool = False,
) -> VCSResult:
    """Return the VCS of two texts from chunk similarities (R, G), a row per reference chunk, and whole-text similarity
    `gas`. lct: window heights a match may lie off at no cost. context_cutoff: similarity above which a match nearer its
    window may replace the best. context_window_control: limits the similarity lost; 0: no limit. short_text: score
    shapes that otherwise always get 0.

    lct is the local chronology tolerance, 0 or more. The larger context_window_control (k) is, the less similarity a
    chunk whose best one exceeds context_cutoff (tau) may give up. docs/metrics/vcs.md says how short_text scores; other
    shapes keep their numbers.

    All arithmetic is in float64. Raises ValueError for a `similarity` that is empty or no matrix, for a value that is
    not finite, and for a negative `lct` or k. Warns (VCSWarning) of similarities outside [-1, 1] and of an `lct`
    between 0 and 1.

    >>> vcs_from_similarity([[0.9, 0.2, 0.1], [0.1, 0.8, 0.3], [0.2, 0.1, 0.9]], gas=0.95).match_precision
    (0, 1, 2)
    >>> vcs_from_similarity([[1.0]], gas=1.0).vcs, vcs_from_similarity([[1.0]], gas=1.0, short_text=True).vcs
    (0.0, 1.0)
    """
    parameters = VCSParameters((lct,), context_cutoff, context_window_control, short_text)
    gas = require_finite_gas(gas)
    matrix = require_similarity_matrix("similarity", similarity)
    warn_about_fractional_lct((lct,))
    warn_about_range(compute_largest_magnitude(matrix))
    return score_stack(matrix[None], [gas], parameters)[0][0]


def vcs_from_embeddings(
    reference_chunks: npt.ArrayLike,
    generated_chunks: npt.ArrayLike,
    reference_text: npt.ArrayLike,
    generated_text: npt.ArrayLike,
    *,
    lct: float = 0,
    context_cutoff: float = 0.6,
    context_window_control: float = 4.0,
    short_text: bool = False,
) -> VCSResult:
    """Return the VCS of two texts from embeddings of the reference's chunks (R, d), of the generated text's chunks (G,
    d), and of either whole text, uncut, (e,). Rows need not have unit length; a zero vector has cosine 0. Parameters,
    errors and warnings are the same as in `vcs_from_similarity`; unequal dimensions also raise ValueError.

    Cosines are computed in float32 where all embeddings are float32, as encoders give them and as in the authors' code,
    else in float64.

    >>> story = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    >>> vcs_from_embeddings(story, story, [3.0, 4.0], [3.0, 4.0]).vcs
    1.0
    """
    parameters = VCSParameters((lct,), context_cutoff, context_window_control, short_text)
    similarity, gas = compute_similarities(reference_chunks, generated_chunks, reference_text, generated_text)
    warn_about_fractional_lct((lct,))
    return score_stack(similarity[None], [gas], parameters)[0][0]
