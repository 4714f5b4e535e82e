"""Score a video along its alignment: coverage of keypoints and fit of times; and a system by its videos."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from metrics_core.arithmetic import harmonic_mean
from metrics_core.arrays import FloatArray
from metrics_core.sodam.alignment import is_official_compat
from metrics_core.sodam.result import (
    Alignment,
    AlignmentScore,
    Compat,
    DimensionF1,
    SegmentScore,
    Status,
    SystemScore,
    TemporalScore,
)
from metrics_core.sodam.spans import compute_span_iou, convert_spans, merge_spans

CoverageCounts = Mapping[str, tuple[int, int]]
"""By dimension: (covered keypoints, all keypoints)."""

Average = Literal["micro", "macro"]
IOU_THRESHOLDS = (0.3, 0.5, 0.7, 0.9)


def count_covered_keypoints(dimensions: Iterable[str], covered: Iterable[bool]) -> dict[str, tuple[int, int]]:
    """Return the numbers of (covered, all) keypoints by dimension, in order of first appearance. dimensions, covered:
    the dimension of every keypoint, and whether it is covered. Raises ValueError unless there are as many of both.

    >>> count_covered_keypoints(["events", "camera", "events"], [True, False, False])
    {'events': (1, 2), 'camera': (0, 1)}
    """
    counts: dict[str, tuple[int, int]] = {}
    for dimension, is_covered in zip(dimensions, covered, strict=True):
        hits, total = counts.get(dimension, (0, 0))
        counts[dimension] = hits + bool(is_covered), total + 1
    return counts


def compute_coverage(counts: CoverageCounts, average: Average = "micro") -> float | None:
    """Return the covered share of the keypoints, in [0, 1]; None where there is no keypoint. counts: (covered, all)
    keypoints by dimension. "micro" counts every keypoint equally (Eq. 2 of arXiv 2602.08711); "macro" averages over the
    dimensions that have keypoints. Raises ValueError for another average and for impossible counts.

    The coverage of a reference segment is the score of a pair; the coverage of a whole video is its score without
    alignment (flat_micro, flat_macro).

    >>> counts = {"events": (2, 4), "camera": (1, 1), "speech": (0, 0)}
    >>> compute_coverage(counts), compute_coverage(counts, "macro"), compute_coverage({"speech": (0, 0)})
    (0.6, 0.75, None)
    """
    if average not in ("micro", "macro"):
        raise ValueError(f'average is {average!r}: give "micro" or "macro".')
    for dimension, (covered, total) in counts.items():
        if not 0 <= covered <= total:
            raise ValueError(f"{dimension!r} has {covered} of {total} keypoints covered: give 0 <= covered <= all.")
    filled = [(covered, total) for covered, total in counts.values() if total]
    if not filled:
        return None
    if average == "macro":
        return sum(covered / total for covered, total in filled) / len(filled)
    return sum(covered for covered, _ in filled) / sum(total for _, total in filled)


def score_alignment(
    alignment: Alignment,
    counts: Sequence[CoverageCounts],
    *,
    segment_average: Average = "micro",
    compat: Compat | None = None,
) -> AlignmentScore:
    """Return precision, recall and F1 of one video, in total and by dimension, from its alignment and its covered
    keypoints (arXiv 2602.08711). counts: (covered, all) keypoints by dimension, for every reference segment in the
    order given to `align`. segment_average: "micro" or "macro", see `compute_coverage`. compat="official" counts
    segments without keypoints as 0; else they are left out.

    A keypoint is covered if the predictions merged into its segment cover it; keypoints of segments without a group do
    not count as covered. With s the sum of the segments' coverage, N their number and M that of groups and orphans, P =
    s / M, R = s / N and F1 = 2s / (M + N).

    A segment without keypoints does not count, and neither does its group: in a dimension, a segment without keypoints
    of this dimension; in total, a segment without any. compat="official" counts such segments with score 0. Raises
    ValueError where counts and alignment do not fit together.

    >>> alignment = Alignment(((0, 0),), {0: (0,)}, (1,), 0.9)
    >>> score = score_alignment(alignment, [{"events": (1, 2), "camera": (1, 1)}, {"events": (0, 3)}])
    >>> round(score.precision, 4), round(score.recall, 4), round(score.f1, 4), score.by_dimension["camera"].f1
    (0.3333, 0.3333, 0.3333, 0.6666666666666666)
    """
    official = is_official_compat(compat)
    _check_reference_count(alignment, len(counts))
    values = [compute_coverage(segment, segment_average) for segment in counts]
    total = _compute_dimension_f1(alignment, values, official)
    dimensions = dict.fromkeys(dimension for segment in counts for dimension in segment)
    by_dimension = {}
    for dimension in dimensions:
        shares = [compute_coverage({dimension: segment.get(dimension, (0, 0))}) for segment in counts]
        by_dimension[dimension] = _compute_dimension_f1(alignment, shares, official)
    pairs = tuple(
        _build_segment_score(reference, members, counts[reference], values[reference])
        for reference, members in alignment.groups.items()
    )
    status: Status = "no_reference" if total.f1 is None else "ok" if alignment.n_merged_predictions else "no_prediction"
    return AlignmentScore(status, total.f1, total.precision, total.recall, by_dimension, pairs)


def _compute_dimension_f1(alignment: Alignment, values: Sequence[float | None], official: bool) -> DimensionF1:
    """Return precision, recall and F1 from the coverage of every reference segment. values: these coverages, None for a
    segment without keypoints, which is left out with its group. All three are None where no segment has keypoints,
    precision also where no prediction counts. official: take None as 0.
    """
    if official:
        values = [value or 0.0 for value in values]
    n_references = sum(value is not None for value in values)
    if n_references == 0:
        return DimensionF1(None, None, None)
    matched = [value for reference in alignment.groups if (value := values[reference]) is not None]
    n_predictions = len(matched) + len(alignment.orphans)
    credit = sum(matched)
    precision = credit / n_predictions if n_predictions else None
    return DimensionF1(precision, credit / n_references, 2 * credit / (n_predictions + n_references))


def _build_segment_score(
    reference: int, predictions: tuple[int, ...], counts: CoverageCounts, value: float | None
) -> SegmentScore:
    """Build the record of one reference segment, given the predictions merged into it, its (covered, all) keypoints by
    dimension, and `value`, the covered share.
    """
    covered, keypoints = (sum(count[i] for count in counts.values()) for i in (0, 1))
    return SegmentScore(reference, predictions, covered, keypoints, value, dict(counts))


def _check_reference_count(alignment: Alignment, n_references: int) -> None:
    """Raise ValueError where the alignment has a group for a reference segment beyond the first `n_references`."""
    missing = [reference for reference in alignment.groups if reference >= n_references]
    if missing:
        raise ValueError(
            f"The alignment matches reference segment {missing[0]}, but the number of segments with counts is "
            f"{n_references}: "
            "give counts for every reference segment, in the order given to align."
        )


def compute_system_score(scores: Sequence[AlignmentScore]) -> SystemScore:
    """Return the mean F1 of one system's videos, in total and by dimension; None where no video has one. Every video
    that has a score counts once, one without a prediction as 0. Videos without keypoints have no score and are left
    out; `n_undefined` counts them.

    >>> alignment, nothing = Alignment(((0, 0),), {0: (0,)}, (), 0.9), Alignment((), {}, (), 0.0)
    >>> scores = [score_alignment(aligned, [{"events": (1, 2)}]) for aligned in (alignment, nothing)]
    >>> system = compute_system_score(scores)
    >>> system.mean_f1, system.n_videos, system.n_without_prediction
    (0.25, 2, 1)
    """
    defined = [score for score in scores if score.f1 is not None]
    dimensions = dict.fromkeys(dimension for score in scores for dimension in score.by_dimension)
    by_dimension = {
        dimension: _compute_mean(
            [score.by_dimension[dimension].f1 for score in defined if dimension in score.by_dimension]
        )
        for dimension in dimensions
    }
    return SystemScore(
        mean_f1=_compute_mean([score.f1 for score in defined]),
        by_dimension=by_dimension,
        n_videos=len(defined),
        n_without_prediction=sum(score.status == "no_prediction" for score in defined),
        n_undefined=len(scores) - len(defined),
    )


def _compute_mean(values: Sequence[float | None]) -> float | None:
    """Return the mean of the values that are not None; None where all are."""
    numbers = [value for value in values if value is not None]
    return sum(numbers) / len(numbers) if numbers else None


def compute_temporal_score(
    reference_spans: npt.ArrayLike,
    predicted_spans: npt.ArrayLike,
    alignment: Alignment,
    thresholds: Sequence[float] = IOU_THRESHOLDS,
) -> TemporalScore:
    """Return temporal precision, recall, F1 and mean IoU of one video: how well merged predictions and orphans overlap
    the references. Give the spans that `align` was given, (N, 2) and (M, 2) in seconds, and its result. thresholds: IoU
    values in [0, 1), over which precision and recall are averaged.

    At a threshold, precision is the share of merged predictions whose IoU with some reference is above the threshold;
    recall is the share of references whose IoU with some merged prediction is. Raises ValueError without thresholds,
    for thresholds outside [0, 1), and for spans that `align` refuses.

    >>> score = compute_temporal_score([[0, 10], [10, 20]], [[0, 8]], Alignment(((0, 0),), {0: (0,)}, (), 0.8))
    >>> score.precision, score.recall, score.f1, score.mean_iou
    (0.75, 0.375, 0.5, 0.4)
    """
    levels = [float(threshold) for threshold in thresholds]
    if not levels or not all(0 <= level < 1 for level in levels):
        raise ValueError(f"thresholds are {levels}: give at least one IoU in [0, 1).")
    references, _ = convert_spans("reference_spans", reference_spans)
    predictions = merge_spans(predicted_spans, alignment)
    iou = compute_span_iou(references, predictions)
    status: Status = "no_reference" if len(references) == 0 else "ok" if len(predictions) else "no_prediction"
    best_prediction = iou.max(axis=1, initial=0.0)
    precision_at = _compute_shares_above_levels(iou.max(axis=0, initial=0.0), levels, defined=status == "ok")
    recall_at = _compute_shares_above_levels(best_prediction, levels, defined=status != "no_reference")
    precision, recall = _compute_mean_share(precision_at), _compute_mean_share(recall_at)
    return TemporalScore(
        status=status,
        precision=precision,
        recall=recall,
        f1=None if recall is None else harmonic_mean(precision or 0.0, recall),
        mean_iou=None if status == "no_reference" else float(best_prediction.mean()),
        precision_by_threshold=precision_at,
        recall_by_threshold=recall_at,
    )


def _compute_shares_above_levels(best: FloatArray, levels: Sequence[float], defined: bool) -> dict[float, float | None]:
    """Return by level the share of the values `best` that are strictly above it; None for all levels where `defined` is
    False.
    """
    return {level: float((best > level).mean()) if defined else None for level in levels}


def _compute_mean_share(shares: dict[float, float | None]) -> float | None:
    """Return the mean of the shares that are not None; None where all are. shares: by threshold."""
    numbers = [share for share in shares.values() if share is not None]
    return float(np.mean(numbers)) if numbers else None
