"""VCS of many pairs of texts at once, and of one pair at several tolerances: faster, with the same numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from metrics_core.arrays import stacks_of
from metrics_core.vcs.alignment import score_stack
from metrics_core.vcs.checks import (
    Parameters,
    checked_gas,
    checked_matrix,
    largest_magnitude,
    warn_of_fractional_lct,
    warn_of_range,
)
from metrics_core.vcs.result import VCSResult


def vcs_batch(
    pairs: Iterable[tuple[npt.ArrayLike, float]],
    *,
    lct: float = 0,
    context_cutoff: float = 0.6,
    context_window_control: float = 4.0,
    short_text: bool = False,
) -> list[VCSResult]:
    """Score pairs, given as (chunk similarities (R, G), `gas`). R and G may differ from pair to pair.

    Settings and numbers are the same as in `vcs_from_similarity`, to the last bit. Pairs of one shape are scored
    together, which costs a fraction of scoring them one by one. Errors name the pair by its position from 0; each
    warning comes once per call. `similarities_of_pairs` makes pairs from embeddings.

    >>> pairs = [(np.eye(3), 1.0), (np.ones((4, 5)), 0.9), (np.eye(3), 0.8)]
    >>> [round(result.vcs, 3) for result in vcs_batch(pairs)]
    [1.0, 0.9, 0.8]
    """
    parameters = Parameters((lct,), context_cutoff, context_window_control, short_text)
    matrices, gas = [], []
    for i, (similarity, pair_gas) in enumerate(pairs):
        matrix = checked_matrix(f"similarity of pair {i}", similarity)
        gas.append(checked_gas(pair_gas, f" of pair {i}"))
        matrices.append(matrix)
    results: dict[int, VCSResult] = {}
    largest = 0.0
    for members in stacks_of([(matrix.shape,) for matrix in matrices]):
        stack = np.stack([matrices[i] for i in members])
        largest = max(largest, largest_magnitude(stack))
        (scored,) = score_stack(stack, [gas[i] for i in members], parameters)
        results.update(zip(members, scored, strict=True))
    warn_of_fractional_lct((lct,))
    warn_of_range(largest)
    return [results[i] for i in range(len(matrices))]


def vcs_sweep(
    similarity: npt.ArrayLike,
    gas: float,
    lcts: Sequence[float],
    *,
    context_cutoff: float = 0.6,
    context_window_control: float = 4.0,
    short_text: bool = False,
) -> list[VCSResult]:
    """Score one pair at every tolerance of `lcts`, in their order. The chunks are matched only once.

    Numbers, settings, errors and warnings are the same as in `vcs_from_similarity`.

    >>> [round(result.vcs, 3) for result in vcs_sweep(np.eye(10)[::-1], 1.0, [0, 1, 2])]  # told backwards
    [0.0, 0.478, 0.478]
    """
    parameters = Parameters(tuple(lcts), context_cutoff, context_window_control, short_text)
    gas = checked_gas(gas)
    matrix = checked_matrix("similarity", similarity)
    warn_of_fractional_lct(parameters.lcts)
    warn_of_range(largest_magnitude(matrix))
    return [result for (result,) in score_stack(matrix[None], [gas], parameters)]
