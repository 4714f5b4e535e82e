"""Align predicted with reference segments by their times, for one video or for many at once."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from metrics_core.arrays import FloatArray, IntArray, group_equal_shapes
from metrics_core.sodam.best_totals import compute_best_totals, find_official_path, find_optimal_path
from metrics_core.sodam.result import Alignment, Compat
from metrics_core.sodam.spans import (
    assign_owners,
    compute_span_iou,
    compute_time_order,
    convert_spans,
    warn_about_swapped_spans,
)


def align(reference_spans: npt.ArrayLike, predicted_spans: npt.ArrayLike, *, compat: Compat | None = None) -> Alignment:
    """Return the alignment of predicted with reference segments with the highest sum of IoU, the overlap of their times
    (arXiv 2602.08711). Spans are (N, 2) and (M, 2) in seconds, in any order; N and M may be 0. compat="official"
    repeats the official code, whose sum can be smaller. Raises ValueError for another shape or seconds that are not
    finite.

    The anchors pair a reference with a prediction: they keep the order of time on both sides and always overlap. Of
    equally good alignments the one with the earliest anchors counts. A prediction without an anchor joins the anchored
    reference before or after it, whichever it overlaps more; without an overlap it is an orphan.

    The official code takes spans in the order of the input, the last pair of every row instead of the optimal path, and
    every prediction in a group, even without overlap, if there is a reference; `total_iou` then adds up the IoU
    of these anchors. A reversed span is swapped and counted, with a SodamWarning.

    compat="official" repeats the official code: spans in the order of the input, the last pair of every row instead of
    the optimal path, and every prediction in a group, even without overlap; `total_iou` then adds up the IoU of these
    anchors. Raises ValueError for another shape or for seconds that are not finite. A reversed span is swapped and
    counted, with a SodamWarning.

    >>> references, predictions = [[0, 10], [10, 20]], [[0, 8], [9, 15], [15, 20]]
    >>> align(references, predictions)
    Alignment(anchors=((0, 0), (1, 2)), groups={0: (0,), 1: (1, 2)}, orphans=(), total_iou=1.3, n_swapped=0)
    >>> align(references, predictions, compat="official").groups
    {0: (0, 1), 1: (2,)}
    >>> align([[0, 10]], [[20, 30]]).orphans
    (0,)
    """
    references, reversed_references = convert_spans("reference_spans", reference_spans)
    predictions, reversed_predictions = convert_spans("predicted_spans", predicted_spans)
    n_swapped = reversed_references + reversed_predictions
    warn_about_swapped_spans(n_swapped)
    return _align_stack(references[None], predictions[None], [n_swapped], is_official_compat(compat))[0]


def align_batch(
    pairs: Iterable[tuple[npt.ArrayLike, npt.ArrayLike]], *, compat: Compat | None = None
) -> list[Alignment]:
    """Return the alignment of every pair (reference_spans, predicted_spans), in order, as `align` does, but faster.
    Errors name the pair by its position from 0. One SodamWarning counts the reversed spans of all pairs.

    Videos with equal numbers of segments are aligned together.

    >>> [alignment.total_iou for alignment in align_batch([([[0, 4]], [[0, 2]]), ([], [[0, 1]]), ([[0, 4]], [[3, 4]])])]
    [0.5, 0.0, 0.25]
    """
    official = is_official_compat(compat)
    references, predictions, n_swapped = [], [], []
    for i, (reference_spans, predicted_spans) in enumerate(pairs):
        reference, reversed_references = convert_spans(f"reference_spans of pair {i}", reference_spans)
        prediction, reversed_predictions = convert_spans(f"predicted_spans of pair {i}", predicted_spans)
        references.append(reference)
        predictions.append(prediction)
        n_swapped.append(reversed_references + reversed_predictions)
    warn_about_swapped_spans(sum(n_swapped))
    alignments: dict[int, Alignment] = {}
    # The shape of the table of best totals: it has one row and one column more than there are segments.
    shapes = [((len(left) + 1, len(right) + 1),) for left, right in zip(references, predictions, strict=True)]
    for members in group_equal_shapes(shapes):
        reference_stack, prediction_stack = (np.stack([side[i] for i in members]) for side in (references, predictions))
        aligned = _align_stack(reference_stack, prediction_stack, [n_swapped[i] for i in members], official)
        alignments.update(zip(members, aligned, strict=True))
    return [alignments[i] for i in range(len(references))]


def is_official_compat(compat: Compat | None) -> bool:
    """Whether `compat` asks for the official code's behaviour. Raises ValueError unless it is "official" or None."""
    if compat not in (None, "official"):
        raise ValueError(f'compat is {compat!r}: give "official", or None for the behaviour described in the docs.')
    return compat == "official"


def _align_stack(
    references: FloatArray, predictions: FloatArray, n_swapped: list[int], official: bool
) -> list[Alignment]:
    """Return the alignments of videos with equal numbers of segments, in order, given their spans (videos, N, 2) and
    (videos, M, 2) with start <= end. n_swapped: the number of spans of every video that were swapped before, copied
    into the result. official: align as the official code does.
    """
    sides = references, predictions
    if official:
        orders = [np.broadcast_to(np.arange(side.shape[1]), side.shape[:2]) for side in sides]
    else:
        orders = [compute_time_order(side) for side in sides]
    iou = compute_span_iou(
        *(np.take_along_axis(side, order[..., None], axis=1) for side, order in zip(sides, orders, strict=True))
    )
    total = compute_best_totals(iou)
    path = find_official_path(total) if official else find_optimal_path(total)
    owners = assign_owners(path, iou, official)
    values = _sum_path_iou(path, iou) if official else total[:, -1, -1]
    columns = (*(order.tolist() for order in orders), path.tolist(), owners.tolist(), values.tolist(), n_swapped)
    return [_build_alignment(*video) for video in zip(*columns, strict=True)]


def _sum_path_iou(path: IntArray, iou: FloatArray) -> FloatArray:
    """Return the sum of the IoU along the path of every video, (videos,). path (videos, N): the prediction paired with
    every reference, -1 for none. iou: (videos, N, M).
    """
    on_path = path[:, :, None] == np.arange(iou.shape[2])
    worth: FloatArray = np.where(on_path, iou, 0.0).sum(axis=(1, 2))
    return worth


def _build_alignment(
    references: list[int], predictions: list[int], path: list[int], owners: list[int], value: float, n_swapped: int
) -> Alignment:
    """Build one video's alignment, with segments named by their positions in the caller's input. references,
    predictions: these positions in the order in which the segments were aligned. path: for every reference the paired
    prediction, owners: for every prediction the reference whose group it joins; -1 for none. value: the sum of IoU.
    """
    anchors = tuple((references[i], predictions[j]) for i, j in enumerate(path) if j >= 0)
    groups: dict[int, list[int]] = {reference: [] for reference, _ in anchors}
    orphans: list[int] = []
    for j, i in enumerate(owners):
        (groups[references[i]] if i >= 0 else orphans).append(predictions[j])
    members = {reference: tuple(group) for reference, group in groups.items()}
    return Alignment(anchors, members, tuple(orphans), value, n_swapped)
