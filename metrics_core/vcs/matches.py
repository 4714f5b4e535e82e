"""Find the best match of every chunk: among its most similar candidates, the one nearest to its window."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from metrics_core.arrays import FloatArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Matches:
    """The matches of all walked chunks of all pairs, as arrays (pairs, walked chunks). index: the match's position on
    the timeline, the other text's chunks. similarity: of both chunks. offset: the match's distance from the chunk's
    window in chunks, 0 inside.
    """

    index: IntArray
    similarity: FloatArray
    offset: IntArray


def find_best_matches(
    rows: FloatArray, window_cells: IntArray, context_cutoff: float, context_window_control: float
) -> Matches:
    """Return the match of every walked chunk of every pair, given the similarities `rows` (pairs, walked chunks,
    timeline). Candidates are the cells that are similar enough, by the highest similarity of their row,
    `context_cutoff` and `context_window_control`. Among the candidates of a row the nearest to its window wins, then
    the most similar, then the lowest index.

    All pairs have one shape. `window_cells` (walked chunks, width) lists the cells of every row's window; the last cell
    is repeated as padding.
    """
    threshold = _compute_candidate_threshold(rows.max(axis=2), context_cutoff, context_window_control)
    walk = np.arange(len(window_cells))
    inside = rows[:, walk[:, None], window_cells]
    index, similarity = window_cells[walk, inside.argmax(axis=2)], inside.max(axis=2)
    offset = np.zeros_like(index)
    pair, chunk = (similarity < threshold).nonzero()
    if pair.size:
        start, end = window_cells[chunk, 0], window_cells[chunk, -1] + 1
        nearest, distance = _find_nearest_outside_window(rows[pair, chunk], threshold[pair, chunk], start, end)
        index[pair, chunk], offset[pair, chunk] = nearest, distance
        similarity[pair, chunk] = rows[pair, chunk, nearest]
    return Matches(index, similarity, offset)


def _compute_candidate_threshold(
    strongest: FloatArray, context_cutoff: float, context_window_control: float
) -> FloatArray:
    """Return the lowest similarity at which a cell of a row is a candidate for the match, given the maximum of every
    row in `strongest`. It is the maximum itself unless this is positive and exceeds `context_cutoff`. Then it is lower:
    the smaller `context_window_control`, the lower.

    A control of 0 makes every cell of a row a candidate if the row's maximum exceeds the cutoff. Keep the order of
    operations: it decides at the last bit.
    """
    room = (1.0 - context_cutoff) - (1.0 - strongest)
    applied = (strongest > 0.0) & (room > 0.0)
    context = np.divide(room, strongest, out=np.zeros_like(room), where=applied)
    if context_window_control == 0.0:
        return np.where(applied, -np.inf, strongest)
    return strongest - context / context_window_control


def _find_nearest_outside_window(
    rows: FloatArray, threshold: FloatArray, start: IntArray, end: IntArray
) -> tuple[IntArray, IntArray]:
    """Return (index, offset) of the candidate nearest to the window, for rows (n, timeline) that have no candidate
    inside it. A candidate is a cell whose similarity reaches the row's `threshold`; a row's window is [start, end).
    offset: the distance from the window in chunks.

    The candidates' positions in the flattened rows are sorted, so one binary search per row finds the candidates
    before and after its window.
    """
    n, timeline = rows.shape
    candidates = (rows >= threshold[:, None]).ravel().nonzero()[0]
    walk = np.arange(n)
    first = walk * timeline
    following = candidates.searchsorted(first + start)
    fenced = np.concatenate([[-1], candidates, [n * timeline]])
    before, after = fenced[following] - first, fenced[following + 1] - first
    # A candidate of another row counts as farther away than any candidate of this row.
    gap_before = np.where(before >= 0, start - before, timeline)
    gap_after = np.where(after < timeline, after - end + 1, timeline)
    stronger_after = rows[walk, np.minimum(after, timeline - 1)] > rows[walk, np.maximum(before, 0)]
    take_after = (gap_after < gap_before) | ((gap_after == gap_before) & stronger_after)
    return np.where(take_after, after, before), np.where(take_after, gap_after, gap_before)
