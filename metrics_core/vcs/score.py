"""VCS from similarities or embeddings: both directions, and how their parts are joined."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from metrics_core.vcs.geometry import Direction, Geometry, geometry_of
from metrics_core.vcs.matching import FloatArray, best_matches
from metrics_core.vcs.narrative import nas_d, nas_l
from metrics_core.vcs.result import DistanceDetail, LineDetail, VCSResult


@dataclass(frozen=True, slots=True)
class Parameters:
    """The three settings of the metric, checked."""

    lct: float
    context_cutoff: float
    context_window_control: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.lct) and self.lct >= 0):
            raise ValueError(f"lct is {self.lct}: give a finite tolerance of 0 or more.")
        if not math.isfinite(self.context_cutoff):
            raise ValueError(f"context_cutoff is {self.context_cutoff}: give a finite similarity.")
        if not (math.isfinite(self.context_window_control) and self.context_window_control >= 0):
            raise ValueError(
                f"context_window_control is {self.context_window_control}: give a finite number of 0 or more."
            )


@dataclass(frozen=True, slots=True)
class DirectionScore:
    """What one direction contributes."""

    las: float
    nas_d: float
    nas_l: float
    match: tuple[int, ...]
    distance: DistanceDetail
    line: LineDetail


def vcs_from_similarity(
    similarity: npt.ArrayLike,
    gas: float,
    *,
    lct: float = 0,
    context_cutoff: float = 0.6,
    context_window_control: float = 4.0,
) -> VCSResult:
    """VCS from chunk similarities (R, G), one row per reference chunk, and the whole texts' similarity `gas`.

    lct: local chronology tolerance, in window heights, 0 or more. context_cutoff (tau): above this
    similarity a chunk may prefer a nearer match to its most similar one. context_window_control (k): the
    larger, the less similarity it may give up for that; 0 sets no limit. All arithmetic is in float64.
    Raises ValueError for a `similarity` that is empty or no matrix, a value that is not finite, a negative
    `lct` or k.

    >>> vcs_from_similarity([[0.9, 0.2, 0.1], [0.1, 0.8, 0.3], [0.2, 0.1, 0.9]], gas=0.95).match_precision
    (0, 1, 2)
    """
    parameters = Parameters(lct, context_cutoff, context_window_control)
    if not math.isfinite(gas):
        raise ValueError(f"gas is {gas}: give the finite cosine similarity of the two whole texts.")
    matrix = checked_array("similarity", similarity, ndim=2)
    geometry = geometry_of(*matrix.shape)
    precision = score_direction(matrix.T, geometry.precision, parameters)
    recall = score_direction(matrix, geometry.recall, parameters)
    return join_directions(float(gas), precision, recall, geometry)


def vcs_from_embeddings(
    reference_chunks: npt.ArrayLike,
    generated_chunks: npt.ArrayLike,
    reference_text: npt.ArrayLike,
    generated_text: npt.ArrayLike,
    *,
    lct: float = 0,
    context_cutoff: float = 0.6,
    context_window_control: float = 4.0,
) -> VCSResult:
    """VCS from embeddings of the chunks, (R, d) and (G, d), and of the two whole raw texts, (e,) each.

    Rows need not have unit length: similarities are cosines, computed in float64; a zero vector has cosine 0.
    The settings and errors are those of `vcs_from_similarity`; unequal dimensions also raise ValueError.

    >>> story = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    >>> vcs_from_embeddings(story, story, [3.0, 4.0], [3.0, 4.0]).vcs
    1.0
    """
    texts = [
        unit_vectors(checked_array("reference_text", reference_text, ndim=1)),
        unit_vectors(checked_array("generated_text", generated_text, ndim=1)),
    ]
    chunks = [
        unit_vectors(checked_array("reference_chunks", reference_chunks, ndim=2)),
        unit_vectors(checked_array("generated_chunks", generated_chunks, ndim=2)),
    ]
    for what, (reference, generated) in (("texts", texts), ("chunks", chunks)):
        if reference.shape[-1] != generated.shape[-1]:
            raise ValueError(
                f"The embeddings of the {what} have {reference.shape[-1]} and {generated.shape[-1]} "
                "dimensions: embed both sides with one encoder."
            )
    return vcs_from_similarity(
        cosines(*chunks),
        float(cosines(*texts)),
        lct=lct,
        context_cutoff=context_cutoff,
        context_window_control=context_window_control,
    )


def score_direction(rows: FloatArray, direction: Direction, parameters: Parameters) -> DirectionScore:
    """LAS, NAS-D and NAS-L of one direction; `rows` is (walked chunks, timeline)."""
    matches = best_matches(rows, direction.window_cells, parameters.context_cutoff, parameters.context_window_control)
    distance_score, distance = nas_d(matches.offset, direction, parameters.lct)
    line_score, line = nas_l(matches.index, direction, parameters.lct)
    las = float(matches.similarity.mean())
    return DirectionScore(las, distance_score, line_score, tuple(matches.index.tolist()), distance, line)


def join_directions(gas: float, precision: DirectionScore, recall: DirectionScore, geometry: Geometry) -> VCSResult:
    """The harmonic means of both directions, SAS, NAS and VCS."""
    las = harmonic_mean(precision.las, recall.las)
    distance = harmonic_mean(precision.nas_d, recall.nas_d)
    line = harmonic_mean(precision.nas_l, recall.nas_l)
    nas_f1 = harmonic_mean(distance, line)
    sas = modulated(gas, las)
    nas = narrative_alignment(nas_f1, geometry.window_regularizer)
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
        window_regularizer=geometry.window_regularizer,
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


def harmonic_mean(precision: float, recall: float) -> float:
    """F1 as the authors' code computes it, also for negative values; 0 where the sum is 0."""
    total = precision + recall
    return 2 * precision * recall / total if total else 0.0


def modulated(score: float, by: float) -> float:
    """`score` less what `by` lacks to 1, rescaled: (score - (1 - by)) / by, or 0 where that is negative.

    SAS = modulated(GAS, LAS); VCS = modulated(the smaller of SAS and NAS, the larger).
    """
    remainder = score - (1 - by)
    return remainder / by if by > 0 and remainder > 0 else 0.0


def narrative_alignment(nas_f1: float, regularizer: float) -> float:
    """NAS: NAS-F1 rescaled so that the window regulariser becomes 0."""
    return (nas_f1 - regularizer) / (1 - regularizer) if nas_f1 > regularizer else 0.0


def checked_array(name: str, values: npt.ArrayLike, *, ndim: int) -> FloatArray:
    """`values` in float64, or a ValueError that says what is wrong with it."""
    array = np.asarray(values, dtype=np.float64)
    if array.size == 0:
        raise ValueError(
            f"{name} is empty (shape {array.shape}): both texts need at least one chunk, "
            "so record such a pair as not scored."
        )
    if array.ndim != ndim:
        raise ValueError(f"{name} has shape {array.shape}: give an array with {ndim} dimension(s).")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} holds NaN or infinite values: check the encoder's output for this pair.")
    return array


def unit_vectors(vectors: FloatArray) -> FloatArray:
    """Vectors along the last axis scaled to length 1; zero vectors stay zero."""
    length = np.linalg.norm(vectors, axis=-1, keepdims=True)
    unit: FloatArray = np.divide(vectors, length, out=np.zeros_like(vectors), where=length > 0)
    return unit


def cosines(reference: FloatArray, generated: FloatArray) -> FloatArray:
    """Cosines of unit vectors; rounding beyond 1 is cut off, it would push perfect scores above 1."""
    cosine: FloatArray = np.clip(reference @ generated.T, -1.0, 1.0)
    return cosine
