"""Scores pairs of one shape: precision and recall apart, then both joined into VCS."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from metrics_core.arithmetic import harmonic_mean
from metrics_core.arrays import FloatArray, IntArray
from metrics_core.vcs.checks import Parameters
from metrics_core.vcs.geometry import Band, Direction, Geometry, geometry_of, line_length, step_lengths
from metrics_core.vcs.result import DistanceDetail, LineDetail, VCSResult

# Finds the best match of every chunk: among its most similar candidates, the one nearest to its window.


@dataclass(frozen=True, slots=True, eq=False)
class Matches:
    """The matches of all walked chunks, (pairs, walked): their index, similarity and offset from the window."""

    index: IntArray
    similarity: FloatArray
    offset: IntArray


def best_matches(
    rows: FloatArray, window_cells: IntArray, context_cutoff: float, context_window_control: float
) -> Matches:
    """Match every row of `rows` (pairs, walked chunks, timeline); all pairs have one shape.

    Among a row's candidates the nearest to its window wins, then the most similar, then the lowest index.
    `window_cells` (walked chunks, width) lists the cells of every row's window; the last cell is repeated as padding.
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
    """Compute the least similarity that makes a cell a candidate, from the maximum of every row.

    A control of 0 makes every cell of a row a candidate if the row's maximum exceeds the cutoff. Keep the order of
    operations: it decides at the last bit.
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
    """Find (index, offset) of the candidate nearest to the window, for rows that have no candidate inside it.

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


# Narrative order in one direction: NAS-D (distance to the windows) and NAS-L (length of the line).

# How a step counts: not at all (-), with the length of the floor line's step (c), or with its own length (s).
STEP_LETTERS = np.frombuffer(b"-cs", dtype=np.uint8)


def nas_d(
    offset: IntArray, direction: Direction, lct: float, short_text: bool
) -> tuple[list[float], list[DistanceDetail]]:
    """Compute NAS-D, 1 - P_total / P_max in [0, 1], of every pair; `offset` is (pairs, walked chunks).

    A match within the tolerance costs nothing; a match beyond it costs its whole offset from the window. Where every
    window spans the whole timeline, no match can miss it and P_max is 0: the authors' code then gives 0, `short_text`
    gives 1.
    """
    height, largest = direction.lct_height, direction.max_penalty
    penalised = np.where(offset > lct * height, offset, 0).sum(axis=1)
    totals = [penalty / direction.windows.timeline for penalty in penalised.tolist()]
    details = [DistanceDetail(height, largest, total) for total in totals]
    if largest == 0.0:
        return [float(short_text)] * len(totals), details
    return [1.0 - total / largest for total in totals], details


def nas_l(match: IntArray, direction: Direction, lct: float) -> tuple[list[float], list[LineDetail]]:
    """Compute NAS-L of every pair: how well the line through its matches fits between floor and ceil line, in [0, 1].

    `match` is (pairs, walked chunks). Without tolerance a step backwards adds nothing. With any tolerance, however
    small, it counts like a step forwards of the same size.
    """
    n_pairs, n_walked = match.shape
    if n_walked == 1:
        return [1.0] * n_pairs, [LineDetail(0.0, 0.0, 0.0, None, None, (), (), "")] * n_pairs
    band, omega0 = direction.band, direction.omega0
    omega_lct = omega0 + direction.kappa * lct
    rise = match[:, 1:] - match[:, :-1]
    size = np.abs(rise) if lct > 0 else np.where(rise < 0, np.inf, rise)
    standard, counted = size <= omega0, size <= omega_lct
    steps = np.where(standard, step_lengths(rise), np.where(counted, band.floor_steps, 0.0))
    letters = STEP_LETTERS[np.add(standard, counted, dtype=np.intp)].tobytes().decode("ascii")
    lengths = line_length(steps).tolist()
    details = [
        LineDetail(
            length,
            band.floor_length,
            band.ceil_length,
            omega0,
            omega_lct,
            band.floor_path,
            band.ceil_path,
            letters[i * (n_walked - 1) : (i + 1) * (n_walked - 1)],
        )
        for i, length in enumerate(lengths)
    ]
    return [fit_in_band(length, band) for length in lengths], details


def fit_in_band(length: float, band: Band) -> float:
    """1 for a length inside the band. Below it length / floor length, above it ceil length / length."""
    if length < band.floor_length:
        return length / band.floor_length
    return band.ceil_length / length if length > band.ceil_length else 1.0


@dataclass(frozen=True, slots=True)
class DirectionScore:
    """The scores of one pair in one direction, precision or recall."""

    las: float
    nas_d: float
    nas_l: float
    match: tuple[int, ...]
    distance: DistanceDetail
    line: LineDetail


def score_stack(stack: FloatArray, gas: Sequence[float], parameters: Parameters) -> list[list[VCSResult]]:
    """Score every pair of a stack (pairs, R, G). The result has one list of all pairs for each of `parameters.lcts`.

    Matches do not depend on the tolerance, so chunks are matched once for all tolerances.
    """
    geometry = geometry_of(*stack.shape[1:])
    context = parameters.context_cutoff, parameters.context_window_control
    precision = best_matches(stack.transpose(0, 2, 1), geometry.precision.window_cells, *context)
    recall = best_matches(stack, geometry.recall.window_cells, *context)
    return [
        [
            join_directions(*pair, geometry, parameters.short_text)
            for pair in zip(
                gas,
                score_direction(precision, geometry.precision, lct, parameters.short_text),
                score_direction(recall, geometry.recall, lct, parameters.short_text),
                strict=True,
            )
        ]
        for lct in parameters.lcts
    ]


def score_direction(matches: Matches, direction: Direction, lct: float, short_text: bool) -> list[DirectionScore]:
    """Compute LAS, NAS-D and NAS-L of every pair in one direction."""
    # One memory layout means one order of addition: a pair's mean has the same last bit in every stack.
    similarity = np.ascontiguousarray(matches.similarity)
    distances, distance_details = nas_d(matches.offset, direction, lct, short_text)
    lines, line_details = nas_l(matches.index, direction, lct)
    return [
        DirectionScore(*columns)
        for columns in zip(
            (similarity.sum(axis=1) / similarity.shape[1]).tolist(),
            distances,
            lines,
            map(tuple, matches.index.tolist()),
            distance_details,
            line_details,
            strict=True,
        )
    ]


def join_directions(
    gas: float, precision: DirectionScore, recall: DirectionScore, geometry: Geometry, short_text: bool
) -> VCSResult:
    """Take the harmonic means of both directions, and compute SAS, NAS and VCS from them."""
    las = harmonic_mean(precision.las, recall.las)
    distance = harmonic_mean(precision.nas_d, recall.nas_d)
    line = harmonic_mean(precision.nas_l, recall.nas_l)
    nas_f1 = harmonic_mean(distance, line)
    # A regulariser of 1 means that the windows allow every match, so there is nothing to regularise.
    regularizer = 0.0 if short_text and geometry.window_regularizer == 1.0 else geometry.window_regularizer
    sas = modulated(gas, las)
    nas = narrative_alignment(nas_f1, regularizer)
    return VCSResult(
        vcs=modulated(min(sas, nas), max(sas, nas)),
        gas=gas,
        sas=sas,
        las=las,
        las_precision=precision.las,
        las_recall=recall.las,
        nas=nas,
        nas_f1=nas_f1,
        nas_d=distance,
        nas_d_precision=precision.nas_d,
        nas_d_recall=recall.nas_d,
        nas_l=line,
        nas_l_precision=precision.nas_l,
        nas_l_recall=recall.nas_l,
        window_regularizer=regularizer,
        window_area=geometry.window_area,
        windows_precision=geometry.precision.window_pairs,
        windows_recall=geometry.recall.window_pairs,
        match_precision=precision.match,
        match_recall=recall.match,
        nas_d_detail_precision=precision.distance,
        nas_d_detail_recall=recall.distance,
        nas_l_detail_precision=precision.line,
        nas_l_detail_recall=recall.line,
    )


def modulated(score: float, by: float) -> float:
    """Lower `score` by 1 - `by` and rescale it: (score - (1 - by)) / by, or 0 where this is negative.

    SAS = modulated(GAS, LAS); VCS = modulated(the smaller of SAS and NAS, the larger).
    """
    remainder = score - (1 - by)
    return remainder / by if by > 0 and remainder > 0 else 0.0


def narrative_alignment(nas_f1: float, regularizer: float) -> float:
    """Compute NAS: NAS-F1 rescaled so that a NAS-F1 equal to the window regulariser becomes 0."""
    return (nas_f1 - regularizer) / (1 - regularizer) if nas_f1 > regularizer else 0.0
