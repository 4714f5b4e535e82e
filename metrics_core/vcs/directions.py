"""Score pairs of texts with equal numbers of chunks: precision and recall separately, then both combined into VCS."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from metrics_core.arithmetic import harmonic_mean
from metrics_core.arrays import FloatArray
from metrics_core.vcs.checks import VCSParameters
from metrics_core.vcs.geometry import ShapeGeometry, WalkDirection, build_geometry
from metrics_core.vcs.matches import Matches, find_best_matches
from metrics_core.vcs.order import compute_nas_d, compute_nas_l
from metrics_core.vcs.result import DistanceDetail, LineDetail, VCSResult


@dataclass(frozen=True, slots=True)
class DirectionScore:
    """The scores of one pair of texts in one direction, precision or recall. las: mean similarity of the matches. nas_d
    and nas_l: how well the matches keep the order of the story, by their distance to the windows and by the length of
    their line. match_indices: the match of every walked chunk.
    """

    las: float
    nas_d: float
    nas_l: float
    match_indices: tuple[int, ...]
    distance_detail: DistanceDetail
    line_detail: LineDetail


def score_stack(stack: FloatArray, gas: Sequence[float], parameters: VCSParameters) -> list[list[VCSResult]]:
    """Return the VCS of every pair of a stack of similarities (pairs, R, G): one list of all pairs, in order, per
    tolerance in `parameters.lcts`. gas: the similarity of the whole texts of every pair.

    Matches do not depend on the tolerance, so chunks are matched once for all tolerances.
    """
    geometry = build_geometry(*stack.shape[1:])
    context = parameters.context_cutoff, parameters.context_window_control
    precision = find_best_matches(stack.transpose(0, 2, 1), geometry.precision.window_cells, *context)
    recall = find_best_matches(stack, geometry.recall.window_cells, *context)
    return [
        [
            _combine_directions(*pair, geometry, parameters.short_text)
            for pair in zip(
                gas,
                _score_direction(precision, geometry.precision, lct, parameters.short_text),
                _score_direction(recall, geometry.recall, lct, parameters.short_text),
                strict=True,
            )
        ]
        for lct in parameters.lcts
    ]


def _score_direction(matches: Matches, direction: WalkDirection, lct: float, short_text: bool) -> list[DirectionScore]:
    """Return LAS, NAS-D and NAS-L of every pair in one direction, in the order of the pairs, at the tolerance `lct`.
    short_text: NAS-D is 1, not 0, where no match can miss its window.
    """
    # One memory layout means one order of addition: a pair's mean has the same last bit in every stack.
    similarity = np.ascontiguousarray(matches.similarity)
    distances, distance_details = compute_nas_d(matches.offset, direction, lct, short_text)
    lines, line_details = compute_nas_l(matches.index, direction, lct)
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


def _combine_directions(
    gas: float, precision: DirectionScore, recall: DirectionScore, geometry: ShapeGeometry, short_text: bool
) -> VCSResult:
    """Return the VCS of one pair from its scores in both directions. LAS, NAS-D and NAS-L are harmonic means of
    precision and recall, from which SAS, NAS and VCS are computed with `gas`. short_text: a window regulariser of 1
    counts as 0.
    """
    las = harmonic_mean(precision.las, recall.las)
    distance = harmonic_mean(precision.nas_d, recall.nas_d)
    line = harmonic_mean(precision.nas_l, recall.nas_l)
    nas_f1 = harmonic_mean(distance, line)
    # A regulariser of 1 would make NAS 0, whatever the order of the matches is.
    regularizer = 0.0 if short_text and geometry.window_regularizer == 1.0 else geometry.window_regularizer
    sas = _lower_and_rescale(gas, las)
    nas = _compute_nas(nas_f1, regularizer)
    return VCSResult(
        vcs=_lower_and_rescale(min(sas, nas), max(sas, nas)),
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
        match_precision=precision.match_indices,
        match_recall=recall.match_indices,
        nas_d_detail_precision=precision.distance_detail,
        nas_d_detail_recall=recall.distance_detail,
        nas_l_detail_precision=precision.line_detail,
        nas_l_detail_recall=recall.line_detail,
    )


def _lower_and_rescale(score: float, other: float) -> float:
    """Return (score - (1 - other)) / other; 0 where this is negative, or `other` is not above 0. SAS comes from GAS and
    LAS; VCS from the smaller of SAS and NAS, with the larger as `other`.
    """
    remainder = score - (1 - other)
    return remainder / other if other > 0 and remainder > 0 else 0.0


def _compute_nas(nas_f1: float, regularizer: float) -> float:
    """Return NAS: `nas_f1`, the harmonic mean of NAS-D and NAS-L, rescaled so that a value up to the window regulariser
    becomes 0, and 1 stays 1.
    """
    return (nas_f1 - regularizer) / (1 - regularizer) if nas_f1 > regularizer else 0.0
