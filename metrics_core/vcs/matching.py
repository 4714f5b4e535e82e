"""The best match of every chunk: near its window among the candidates that are similar enough to its best."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from metrics_core.vcs.windows import IntArray

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Matches:
    """Per pair and walked chunk, (pairs, walked): its match's index, similarity and offset from the window."""

    index: IntArray
    similarity: FloatArray
    offset: IntArray


def best_matches(
    rows: FloatArray, window_cells: IntArray, context_cutoff: float, context_window_control: float
) -> Matches:
    """Match every row of `rows` (pairs, walked chunks, timeline), pairs of texts of one shape.

    Among a row's candidates the nearest to its window wins, then the most similar, then the lowest index.
    `window_cells` is (walked chunks, width): each row's window cells, the last repeated as padding.
    """
    threshold = candidate_threshold(rows.max(axis=2), context_cutoff, context_window_control)
    walk = np.arange(len(window_cells))
    inside = rows[:, walk[:, None], window_cells]
    index, similarity = window_cells[walk, inside.argmax(axis=2)], inside.max(axis=2)
    offset = np.zeros_like(index)
    pair, chunk = (similarity < threshold).nonzero()
    if pair.size:
        start, end = window_cells[chunk, 0], window_cells[chunk, -1] + 1
        nearest, distance = nearest_outside(rows[pair, chunk], threshold[pair, chunk], start, end)
        index[pair, chunk], offset[pair, chunk] = nearest, distance
        similarity[pair, chunk] = rows[pair, chunk, nearest]
    return Matches(index, similarity, offset)


def candidate_threshold(strongest: FloatArray, context_cutoff: float, context_window_control: float) -> FloatArray:
    """The least similarity of a candidate, given each row's maximum.

    The order of operations decides candidates at the last bit: keep it. A control of 0 opens the context
    window without limit.
    """
    room = (1.0 - context_cutoff) - (1.0 - strongest)
    applied = (strongest > 0.0) & (room > 0.0)
    context = np.divide(room, strongest, out=np.zeros_like(room), where=applied)
    if context_window_control == 0.0:
        return np.where(applied, -np.inf, strongest)
    return strongest - context / context_window_control


def nearest_outside(
    rows: FloatArray, threshold: FloatArray, start: IntArray, end: IntArray
) -> tuple[IntArray, IntArray]:
    """(index, offset) of the nearest candidate of rows that have candidates, but none inside their window.

    All candidates' positions in the flattened rows are sorted, so one binary search per row finds its
    neighbours before and after the window.
    """
    n, timeline = rows.shape
    candidates = (rows >= threshold[:, None]).ravel().nonzero()[0]
    walk = np.arange(n)
    first = walk * timeline
    following = candidates.searchsorted(first + start)
    fenced = np.concatenate([[-1], candidates, [n * timeline]])
    before, after = fenced[following] - first, fenced[following + 1] - first
    # A neighbour that lies in another row is farther away than any of this row's.
    gap_before = np.where(before >= 0, start - before, timeline)
    gap_after = np.where(after < timeline, after - end + 1, timeline)
    stronger_after = rows[walk, np.minimum(after, timeline - 1)] > rows[walk, np.maximum(before, 0)]
    take_after = (gap_after < gap_before) | ((gap_after == gap_before) & stronger_after)
    return np.where(take_after, after, before), np.where(take_after, gap_after, gap_before)
