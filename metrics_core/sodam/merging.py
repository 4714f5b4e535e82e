"""Many-to-one merging: which anchored reference every prediction belongs to, and what the merged predictions are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from metrics_core.sodam.result import Alignment
from metrics_core.sodam.spans import FloatArray, IntArray, checked_spans


def owners_of(path: IntArray, iou: FloatArray, official: bool) -> IntArray:
    """The reference each prediction is merged into (pairs, M), or -1, from a path (pairs, N) and its IoU (pairs, N, M).

    Eqs 4 and 5 of arXiv 2602.08711; docs/metrics/ecs.md says what they leave open.

    A prediction may join the anchored reference before it or the one after it: the one that overlaps it more, the
    earlier one of two that do so equally, and neither where both overlaps are 0. Official: always the one before it,
    or the one after it where there is none before.
    """
    n_pairs, n_references, n_predictions = iou.shape
    anchored = np.full((n_pairs, n_predictions), -1, dtype=np.int64)
    pair, reference = np.nonzero(path >= 0)
    anchored[pair, path[pair, reference]] = reference
    before = np.maximum.accumulate(anchored, axis=1)
    following = np.where(anchored < 0, n_references, anchored)
    after = np.minimum.accumulate(following[:, ::-1], axis=1)[:, ::-1]
    if official:
        return np.where(before >= 0, before, np.where(after < n_references, after, -1))
    # Both -1 and n_references point at this row: where there is no neighbour, there is no overlap.
    padded = np.concatenate([iou, np.zeros((n_pairs, 1, n_predictions))], axis=1)
    overlap_before, overlap_after = (
        np.take_along_axis(padded, neighbour[:, None], axis=1)[:, 0] for neighbour in (before, after)
    )
    return np.where(overlap_after > overlap_before, after, np.where(overlap_before > 0, before, -1))


def merged_spans(predicted_spans: npt.ArrayLike, alignment: Alignment) -> FloatArray:
    """Spans (alignment.n_merged, 2) from first start to last end: groups in the order of the anchors, then orphans.

    >>> merged_spans([[0, 5], [5, 10], [50, 60]], Alignment(((0, 0),), {0: (0, 1)}, (2,), 0.5)).tolist()
    [[0.0, 10.0], [50.0, 60.0]]
    """
    spans, _ = checked_spans("predicted_spans", predicted_spans)
    members = [*map(list, alignment.groups.values()), *([orphan] for orphan in alignment.orphans)]
    merged = [(spans[rows, 0].min(), spans[rows, 1].max()) for rows in members]
    return np.array(merged, dtype=np.float64).reshape(-1, 2)


def merged_texts(texts: Sequence[str], alignment: Alignment) -> dict[int, str]:
    """For each anchored reference the texts merged into it, in time order, one a line.

    >>> merged_texts(["He sits.", "A man."], Alignment(((0, 0),), {0: (1, 0)}, (), 0.5))
    {0: 'A man.\\nHe sits.'}
    """
    return {reference: "\n".join(texts[i] for i in members) for reference, members in alignment.groups.items()}
