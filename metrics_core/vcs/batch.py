"""VCS of many pairs of texts at once, or of one pair at several tolerances: faster, with the same numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from metrics_core.arrays import group_equal_shapes
from metrics_core.vcs.checks import (
    VCSParameters,
    compute_largest_magnitude,
    require_finite_gas,
    require_similarity_matrix,
    warn_about_fractional_lct,
    warn_about_range,
)
from metrics_core.vcs.directions import score_stack
from metrics_core.vcs.result import VCSResult


def vcs_batch(
    pairs: Iterable[tuple[npt.ArrayLike, float]],
    *,
    lct: float = 0,
    context_cutoff: float = 0.6,
    context_window_control: float = 4.0,
    short_text: bool = False,
) -> list[VCSResult]:
    """Return the VCS of every pair, in order. A pair is (chunk similarities (R, G), `gas`): one row per reference
    chunk, one column per generated chunk, and the similarity of the whole texts. R and G may differ from pair to pair.
    Parameters and numbers are the same as in `vcs_from_similarity`, to the last bit.

    Pairs of one shape are scored together, which costs a fraction of scoring them one by one. Errors name the pair by
    its position from 0; each warning comes once per call. `compute_pair_similarities` makes pairs from embeddings.

    >>> pairs = [(np.eye(3), 1.0), (np.ones((4, 5)), 0.9), (np.eye(3), 0.8)]
    >>> [round(result.vcs, 3) for result in vcs_batch(pairs)]
    [1.0, 0.9, 0.8]
    """
    parameters = VCSParameters((lct,), context_cutoff, context_window_control, short_text)
    matrices, gas = [], []
    for i, (similarity, pair_gas) in enumerate(pairs):
        matrix = require_similarity_matrix(f"similarity of pair {i}", similarity)
        gas.append(require_finite_gas(pair_gas, f" of pair {i}"))
        matrices.append(matrix)
    results: dict[int, VCSResult] = {}
    largest = 0.0
    for members in group_equal_shapes([(matrix.shape,) for matrix in matrices]):
        stack = np.stack([matrices[i] for i in members])
        largest = max(largest, compute_largest_magnitude(stack))
        (scored,) = score_stack(stack, [gas[i] for i in members], parameters)
        results.update(zip(members, scored, strict=True))
    warn_about_fractional_lct((lct,))
    warn_about_range(largest)
    return [results[i] for i in range(len(matrices))]


def vcs_per_tolerance(
    similarity: npt.ArrayLike,
    gas: float,
    lcts: Sequence[float],
    *,
    context_cutoff: float = 0.6,
    context_window_control: float = 4.0,
    short_text: bool = False,
) -> list[VCSResult]:
    """Return the VCS of one pair of texts at every local chronology tolerance in `lcts`, in their order. The chunks are
    matched only once. Numbers, other parameters, errors and warnings are the same as in `vcs_from_similarity`.

    >>> [round(result.vcs, 3) for result in vcs_per_tolerance(np.eye(10)[::-1], 1.0, [0, 1, 2])]  # in reverse order
    [0.0, 0.478, 0.478]
    """
    parameters = VCSParameters(tuple(lcts), context_cutoff, context_window_control, short_text)
    gas = require_finite_gas(gas)
    matrix = require_similarity_matrix("similarity", similarity)
    warn_about_fractional_lct(parameters.lcts)
    warn_about_range(compute_largest_magnitude(matrix))
    return [result for (result,) in score_stack(matrix[None], [gas], parameters)]
