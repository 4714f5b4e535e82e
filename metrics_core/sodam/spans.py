"""Time spans: checks, order and overlap."""

from __future__ import annotations

import warnings

import numpy as np
import numpy.typing as npt

from metrics_core.arrays import FloatArray, IntArray


class SodamWarning(UserWarning):
    """The scores are defined, but the input is probably not what the caller means. Given once per call."""


def checked_spans(name: str, values: npt.ArrayLike) -> tuple[FloatArray, int]:
    """Return spans (n, 2) in float64 with start <= end, and the number of spans that had to be swapped; n may be 0.

    Raises ValueError, naming the array and the row, for another shape and for seconds that are not finite.
    """
    spans = np.asarray(values, dtype=np.float64)
    if spans.shape == (0,):
        spans = spans.reshape(0, 2)
    if spans.ndim != 2 or spans.shape[1] != 2:
        raise ValueError(f"{name} have shape {spans.shape}: give (n, 2), the start and end of each segment in seconds.")
    with np.errstate(invalid="ignore", over="ignore"):
        length = spans[:, 1] - spans[:, 0]
    bad = np.flatnonzero(~np.isfinite(length))
    if bad.size:
        raise ValueError(
            f"row {bad[0]} of {name} is {spans[bad[0]].tolist()}: give a finite start and end in seconds, "
            "and leave out a segment that has none."
        )
    return np.sort(spans, axis=1), int((length < 0).sum())


def warn_of_swapped(n_swapped: int) -> None:
    """Warn the caller's caller of segments that end before they start."""
    if n_swapped:
        warnings.warn(
            f"{n_swapped} segment(s) end before they start; start and end were swapped: check their timestamps.",
            SodamWarning,
            stacklevel=3,
        )


def time_order(spans: FloatArray) -> IntArray:
    """Return the indices (..., n) that sort spans (..., n, 2) by start, then end, then index."""
    return np.lexsort((spans[..., 1], spans[..., 0]), axis=-1)


def iou_of_spans(left: npt.ArrayLike, right: npt.ArrayLike) -> FloatArray:
    """Compute the intersection over union of every span of `left` (..., n, 2) with every span of `right` (..., m, 2).

    The result (..., n, m) lies in [0, 1]. Spans must not be reversed. A span of length 0 overlaps nothing, not even
    itself.

    >>> iou_of_spans([[0, 10], [10, 20]], [[5, 20], [10, 10]]).round(4).tolist()
    [[0.25, 0.0], [0.6667, 0.0]]
    """
    a, b = np.asarray(left, dtype=np.float64)[..., :, None, :], np.asarray(right, dtype=np.float64)[..., None, :, :]
    overlap = np.minimum(a[..., 1], b[..., 1]) - np.maximum(a[..., 0], b[..., 0])
    # The union of two overlapping spans runs from the first start to the last end.
    union = np.maximum(a[..., 1], b[..., 1]) - np.minimum(a[..., 0], b[..., 0])
    iou: FloatArray = np.divide(overlap, union, out=np.zeros_like(overlap), where=overlap > 0)
    return iou
