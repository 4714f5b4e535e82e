"""VCS of one pair of texts, from similarities or embeddings."""

from __future__ import annotations

import numpy.typing as npt

from metrics_core.vcs.alignment import score_stack
from metrics_core.vcs.checks import (
    Parameters,
    checked_gas,
    checked_matrix,
    largest_magnitude,
    warn_of_fractional_lct,
    warn_of_range,
)
from metrics_core.vcs.embeddings import similarities_of
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
    """VCS from chunk similarities (R, G), one row per reference chunk, and the whole texts' similarity `gas`.

    lct: local chronology tolerance, in window heights, 0 or more. context_cutoff (tau): above this
    similarity a chunk may prefer a nearer match to its most similar one. context_window_control (k): the
    larger, the less similarity it may give up for that; 0 sets no limit. short_text: score the shapes on
    which the authors' code always gives 0 (docs/metrics/vcs.md says how); other shapes keep their numbers.
    All arithmetic is in float64. Raises ValueError for a `similarity` that is empty or no matrix, a value
    that is not finite, a negative `lct` or k; warns (VCSWarning) of similarities beyond [-1, 1] and of an
    `lct` between 0 and 1.

    >>> vcs_from_similarity([[0.9, 0.2, 0.1], [0.1, 0.8, 0.3], [0.2, 0.1, 0.9]], gas=0.95).match_precision
    (0, 1, 2)
    >>> vcs_from_similarity([[1.0]], gas=1.0).vcs, vcs_from_similarity([[1.0]], gas=1.0, short_text=True).vcs
    (0.0, 1.0)
    """
    parameters = Parameters((lct,), context_cutoff, context_window_control, short_text)
    gas = checked_gas(gas)
    matrix = checked_matrix("similarity", similarity)
    warn_of_fractional_lct((lct,))
    warn_of_range(largest_magnitude(matrix))
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
    """VCS from embeddings of the chunks, (R, d) and (G, d), and of the two whole raw texts, (e,) each.

    Rows need not have unit length: similarities are cosines, and a zero vector has cosine 0. They are computed
    in float32 where all embeddings are float32, as encoders give them and the authors' code does, else in float64.
    The settings, errors and warnings are those of `vcs_from_similarity`; unequal dimensions also raise ValueError.

    >>> story = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    >>> vcs_from_embeddings(story, story, [3.0, 4.0], [3.0, 4.0]).vcs
    1.0
    """
    parameters = Parameters((lct,), context_cutoff, context_window_control, short_text)
    similarity, gas = similarities_of(reference_chunks, generated_chunks, reference_text, generated_text)
    warn_of_fractional_lct((lct,))
    return score_stack(similarity[None], [gas], parameters)[0][0]
