"""Many-to-one merging: assigns predictions to anchored references, and merges their spans and texts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from metrics_core.arrays import FloatArray, IntArray
from metrics_core.sodam.result import Alignment
from metrics_core.sodam.spans import checked_spans


def owners_of(path: IntArray, iou: FloatArray, official: bool) -> IntArray:
    """Assign every prediction to a reference, or to none (-1): (clips, M) from paths (clips, N) and IoU (clips, N, M).

    These are Eqs 4 and 5 of arXiv 2602.08711; docs/metrics/ecs.md says what they leave open. A prediction joins the
    anchored reference before or after it, whichever overlaps it more. Of equal overlaps the earlier reference counts;
    where both overlaps are 0, it joins neither. Official: it always joins the reference before it, or the one after it
    where there is none before.
    """
    n_clips, n_references, n_predictions = iou.shape
    anchored = np.full((n_clips, n_predictions), -1, dtype=np.int64)
    clip, reference = np.nonzero(path >= 0)
    anchored[clip, path[clip, reference]] = reference
    before = np.maximum.accumulate(anchored, axis=1)
    following = np.where(anchored < 0, n_references, anchored)
    after = np.minimum.accumulate(following[:, ::-1], axis=1)[:, ::-1]
    if official:
        return np.where(before >= 0, before, np.where(after < n_references, after, -1))
    # Indices -1 and n_references, which stand for "no neighbour", both point at the added row without overlap.
    padded = np.concatenate([iou, np.zeros((n_clips, 1, n_predictions))], axis=1)
    overlap_before, overlap_after = (
        np.take_along_axis(padded, neighbour[:, None], axis=1)[:, 0] for neighbour in (before, after)
    )
    return np.where(overlap_after > overlap_before, after, np.where(overlap_before > 0, before, -1))


def merged_spans(predicted_spans: npt.ArrayLike, alignment: Alignment) -> FloatArray:
    """Merge the spans of every group, from its first start to its last end: (alignment.n_merged, 2) in seconds.

    Groups come in the order of the anchors, then the orphans with their own spans.

    >>> merged_spans([[0, 5], [5, 10], [50, 60]], Alignment(((0, 0),), {0: (0, 1)}, (2,), 0.5)).tolist()
    [[0.0, 10.0], [50.0, 60.0]]
    """
    spans, _ = checked_spans("predicted_spans", predicted_spans)
    members = [*map(list, alignment.groups.values()), *([orphan] for orphan in alignment.orphans)]
    merged = [(spans[rows, 0].min(), spans[rows, 1].max()) for rows in members]
    return np.array(merged, dtype=np.float64).reshape(-1, 2)


def merged_texts(texts: Sequence[str], alignment: Alignment) -> dict[int, str]:
    """Join the texts of every group in time order, one per line. The keys are the anchored references.

    >>> merged_texts(["He sits.", "A man."], Alignment(((0, 0),), {0: (1, 0)}, (), 0.5))
    {0: 'A man.\\nHe sits.'}
    """
    return {reference: "\n".join(texts[i] for i in members) for reference, members in alignment.groups.items()}
