"""Time spans: check, sort and compare them, and merge predictions into the references they overlap."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from metrics_core.arrays import FloatArray, IntArray
from metrics_core.sodam.result import Alignment


class SodamWarning(UserWarning):
    """A warning that the scores are defined, but the input is probably not what the caller means. `align` and
    `align_batch` give it once per call for segments that end before they start.
    """


def convert_spans(name: str, values: npt.ArrayLike) -> tuple[FloatArray, int]:
    """Return spans (n, 2) in float64 with start <= end, and the number of spans that had to be swapped; n may be 0.
    Raises ValueError, with the array's `name` and the row, for another shape and for seconds that are not finite.
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


def warn_about_swapped_spans(n_swapped: int) -> None:
    """Give a SodamWarning if segments end before they start, with their number. The warning points to the caller's
    caller.
    """
    if n_swapped:
        warnings.warn(
            f"Segments that end before they start: {n_swapped}. Start and end were swapped: check their timestamps.",
            SodamWarning,
            stacklevel=3,
        )


def compute_time_order(spans: FloatArray) -> IntArray:
    """Return the indices (..., n) that sort spans (..., n, 2) by start, then end, then index."""
    return np.lexsort((spans[..., 1], spans[..., 0]), axis=-1)


def compute_span_iou(left: npt.ArrayLike, right: npt.ArrayLike) -> FloatArray:
    """Return the intersection over union (..., n, m), in [0, 1], of every span of `left` (..., n, 2) with every span of
    `right` (..., m, 2). Spans must not be reversed. A span of length 0 overlaps nothing, not even itself.

    >>> compute_span_iou([[0, 10], [10, 20]], [[5, 20], [10, 10]]).round(4).tolist()
    [[0.25, 0.0], [0.6667, 0.0]]
    """
    a, b = np.asarray(left, dtype=np.float64)[..., :, None, :], np.asarray(right, dtype=np.float64)[..., None, :, :]
    overlap = np.minimum(a[..., 1], b[..., 1]) - np.maximum(a[..., 0], b[..., 0])
    # The union of two overlapping spans runs from the first start to the last end.
    union = np.maximum(a[..., 1], b[..., 1]) - np.minimum(a[..., 0], b[..., 0])
    iou: FloatArray = np.divide(overlap, union, out=np.zeros_like(overlap), where=overlap > 0)
    return iou


def assign_owners(path: IntArray, iou: FloatArray, official: bool) -> IntArray:
    """Return for every prediction the reference whose group it joins, or -1 for none: (videos, M). path (videos, N):
    the prediction paired with every reference, -1 for none. iou: (videos, N, M). official: join groups as in the
    official code, even without overlap.

    These are Eqs 4 and 5 of arXiv 2602.08711; docs/metrics/ecs.md describes what they leave open. A prediction joins
    the anchored reference before or after it, whichever overlaps it more. Of equal overlaps the earlier reference
    counts; where both overlaps are 0, it joins neither. Official: it always joins the reference before it, or the one
    after it where there is none before.
    """
    n_videos, n_references, n_predictions = iou.shape
    anchored = np.full((n_videos, n_predictions), -1, dtype=np.int64)
    video, reference = np.nonzero(path >= 0)
    anchored[video, path[video, reference]] = reference
    before = np.maximum.accumulate(anchored, axis=1)
    following = np.where(anchored < 0, n_references, anchored)
    after = np.minimum.accumulate(following[:, ::-1], axis=1)[:, ::-1]
    if official:
        return np.where(before >= 0, before, np.where(after < n_references, after, -1))
    # Indices -1 and n_references, which stand for "no neighbour", both point at the added row without overlap.
    padded = np.concatenate([iou, np.zeros((n_videos, 1, n_predictions))], axis=1)
    overlap_before, overlap_after = (
        np.take_along_axis(padded, neighbour[:, None], axis=1)[:, 0] for neighbour in (before, after)
    )
    return np.where(overlap_after > overlap_before, after, np.where(overlap_before > 0, before, -1))


def merge_spans(predicted_spans: npt.ArrayLike, alignment: Alignment) -> FloatArray:
    """Return one span for every group of the alignment, from its first start to its last end, then one for every
    orphan: (n_merged_predictions, 2) in seconds. Groups come in the order of the anchors. predicted_spans: (M, 2), as
    given to `align`; reversed spans are swapped.

    >>> merge_spans([[0, 5], [5, 10], [50, 60]], Alignment(((0, 0),), {0: (0, 1)}, (2,), 0.5)).tolist()
    [[0.0, 10.0], [50.0, 60.0]]
    """
    spans, _ = convert_spans("predicted_spans", predicted_spans)
    members = [*map(list, alignment.groups.values()), *([orphan] for orphan in alignment.orphans)]
    merged = [(spans[rows, 0].min(), spans[rows, 1].max()) for rows in members]
    return np.array(merged, dtype=np.float64).reshape(-1, 2)


def merge_texts(texts: Sequence[str], alignment: Alignment) -> dict[int, str]:
    """Return the texts of every group, joined in time order, one per line, by the index of its anchored reference.
    texts: one for every prediction, in the order given to `align`.

    >>> merge_texts(["He sits.", "A man."], Alignment(((0, 0),), {0: (1, 0)}, (), 0.5))
    {0: 'A man.\\nHe sits.'}
    """
    return {reference: "\n".join(texts[i] for i in members) for reference, members in alignment.groups.items()}
