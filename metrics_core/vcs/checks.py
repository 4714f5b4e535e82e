"""Check the input of VCS: what cannot be scored raises a ValueError, what probably misleads gives a VCSWarning."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from metrics_core.arrays import FloatArray

# Rounding carries cosines of unit vectors in float32 or bfloat16 beyond 1 by less than this.
ROUNDING = 0.01


class VCSWarning(UserWarning):
    """A warning that the scores are defined, but the caller probably means something else: similarities outside [-1,
    1], or a tolerance between 0 and 1. Given once per call, not per pair.
    """


@dataclass(frozen=True, slots=True)
class VCSParameters:
    """The parameters of VCS, which `vcs_from_similarity` explains. A pair gets one result for each local chronology
    tolerance in `lcts`. Making one raises ValueError for a number that is not finite, and for a negative tolerance or
    `context_window_control`.
    """

    lcts: tuple[float, ...]
    context_cutoff: float
    context_window_control: float
    short_text: bool

    def __post_init__(self) -> None:
        for lct in self.lcts:
            if not (math.isfinite(lct) and lct >= 0):
                raise ValueError(f"lct is {lct}: give a finite tolerance of 0 or more.")
        if not math.isfinite(self.context_cutoff):
            raise ValueError(f"context_cutoff is {self.context_cutoff}: give a finite similarity.")
        if not (math.isfinite(self.context_window_control) and self.context_window_control >= 0):
            raise ValueError(
                f"context_window_control is {self.context_window_control}: give a finite number of 0 or more."
            )


def require_finite_gas(gas: float, pair: str = "") -> float:
    """Return `gas`, the cosine similarity of two whole texts, as a Python float. Raises ValueError unless it is finite;
    `pair`, such as " of pair 3", names the pair in the message.
    """
    if not math.isfinite(gas):
        raise ValueError(f"gas{pair} is {gas}: give the finite cosine similarity of the two whole texts.")
    return float(gas)


def check_shape(name: str, array: npt.NDArray[Any], ndim: int) -> None:
    """Raise ValueError, naming the array by `name`, unless it is a vector (ndim=1) or matrix (ndim=2) with elements."""
    if array.size == 0:
        raise ValueError(
            f"{name} is empty (shape {array.shape}): both texts need at least one chunk, "
            "so record such a pair as not scored."
        )
    if array.ndim != ndim:
        raise ValueError(f"{name} has shape {array.shape}: give a {'vector' if ndim == 1 else 'matrix'}.")


def require_similarity_matrix(name: str, values: npt.ArrayLike) -> FloatArray:
    """Return `values` as a float64 matrix. Raises ValueError, naming it by `name`, unless it is a non-empty matrix of
    finite numbers.
    """
    matrix = np.asarray(values, dtype=np.float64)
    check_shape(name, matrix, ndim=2)
    if not math.isfinite(compute_largest_magnitude(matrix)):
        raise ValueError(f"{name} holds NaN or infinite values: check the encoder's output for this pair.")
    return matrix


def compute_largest_magnitude(array: FloatArray) -> float:
    """Return the largest absolute value of an array; NaN where it contains NaN. The array must not be empty."""
    return max(float(array.max()), -float(array.min()))


def warn_about_fractional_lct(lcts: Sequence[float]) -> None:
    """Give a VCSWarning if a tolerance lies between 0 and 1, because it changes more than its size suggests. The
    warning points to the caller's caller.
    """
    if any(0 < lct < 1 for lct in lcts):
        warnings.warn(
            "Any lct above 0, however small, makes NAS-L count backward steps as forward ones, so that a story in "
            "reverse order can score: use 0 where order matters.",
            VCSWarning,
            stacklevel=3,
        )


def warn_about_range(largest: float) -> None:
    """Give a VCSWarning if `largest`, the largest magnitude of similarities, is too large for cosines. The warning
    points to the caller's caller.
    """
    if largest > 1 + ROUNDING:
        warnings.warn(
            "There are similarities outside [-1, 1], so they are no cosines and VCS may leave [0, 1]: normalise the "
            "embeddings, or use vcs_from_embeddings, which does.",
            VCSWarning,
            stacklevel=3,
        )
