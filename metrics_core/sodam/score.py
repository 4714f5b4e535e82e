"""Scores a clip along its alignment, and a system by its clips."""

from __future__ import annotations

from collections.abc import Sequence

from metrics_core.sodam.alignment import is_official
from metrics_core.sodam.coverage import Average, Counts, coverage
from metrics_core.sodam.result import Alignment, ClipScore, Compat, DimensionScore, PairScore, Status, SystemScore


def score_clip(
    alignment: Alignment,
    counts: Sequence[Counts],
    *,
    pair_score: Average = "micro",
    compat: Compat | None = None,
) -> ClipScore:
    """Compute precision, recall and F1 of one clip, in total and by dimension (arXiv 2602.08711).

    counts: (covered, all) keypoints by dimension, for every reference segment in the order given to `align`. A keypoint
    is covered if the predictions merged into its segment cover it; keypoints of segments without a group do not count
    as covered. pair_score: "micro" or "macro", see `coverage`. With s the sum of the pair scores and N the number of
    segments, P = s / n_merged, R = s / N and F1 = 2s / (n_merged + N), where n_merged counts groups and orphans.

    A segment without keypoints does not count, and neither does its group: in a dimension, a segment without keypoints
    of this dimension; in total, a segment without any. compat="official" counts such segments with score 0. Raises
    ValueError where counts and alignment do not fit together.

    >>> alignment = Alignment(((0, 0),), {0: (0,)}, (1,), 0.9)
    >>> score = score_clip(alignment, [{"events": (1, 2), "camera": (1, 1)}, {"events": (0, 3)}])
    >>> round(score.precision, 4), round(score.recall, 4), round(score.total, 4), score.by_dimension["camera"].f1
    (0.3333, 0.3333, 0.3333, 0.6666666666666666)
    """
    official = is_official(compat)
    check_references(alignment, len(counts))
    values = [coverage(segment, pair_score) for segment in counts]
    total = f1_score(alignment, values, official)
    dimensions = dict.fromkeys(dimension for segment in counts for dimension in segment)
    by_dimension = {}
    for dimension in dimensions:
        shares = [coverage({dimension: segment.get(dimension, (0, 0))}) for segment in counts]
        by_dimension[dimension] = f1_score(alignment, shares, official)
    pairs = tuple(
        pair_of(reference, members, counts[reference], values[reference])
        for reference, members in alignment.groups.items()
    )
    status: Status = "no_reference" if total.f1 is None else "ok" if alignment.n_merged else "no_prediction"
    return ClipScore(status, total.f1, total.precision, total.recall, by_dimension, pairs)


def f1_score(alignment: Alignment, values: Sequence[float | None], official: bool) -> DimensionScore:
    """Compute precision, recall and F1 from the reference segments' values. None marks a segment without keypoints."""
    if official:
        values = [value or 0.0 for value in values]
    n_references = sum(value is not None for value in values)
    if n_references == 0:
        return DimensionScore(None, None, None)
    matched = [value for reference in alignment.groups if (value := values[reference]) is not None]
    n_predictions = len(matched) + len(alignment.orphans)
    credit = sum(matched)
    precision = credit / n_predictions if n_predictions else None
    return DimensionScore(precision, credit / n_references, 2 * credit / (n_predictions + n_references))


def pair_of(reference: int, predictions: tuple[int, ...], counts: Counts, value: float | None) -> PairScore:
    """Build the detail of one reference segment: its predictions, and how many of its keypoints they cover."""
    covered, keypoints = (sum(count[i] for count in counts.values()) for i in (0, 1))
    return PairScore(reference, predictions, covered, keypoints, value, dict(counts))


def check_references(alignment: Alignment, n_references: int) -> None:
    """Raise ValueError where the alignment names a reference segment without counts."""
    missing = [reference for reference in alignment.groups if reference >= n_references]
    if missing:
        raise ValueError(
            f"The alignment matches reference segment {missing[0]}, and there are counts of {n_references} segment(s): "
            "give counts for every reference segment, in the order given to align."
        )


def system_score(clips: Sequence[ClipScore]) -> SystemScore:
    """Average the clips of one system; every clip counts alike, and a clip without prediction counts as 0.

    >>> alignment, nothing = Alignment(((0, 0),), {0: (0,)}, (), 0.9), Alignment((), {}, (), 0.0)
    >>> clips = [score_clip(aligned, [{"events": (1, 2)}]) for aligned in (alignment, nothing)]
    >>> system = system_score(clips)
    >>> system.total, system.n_clips, system.n_missing
    (0.25, 2, 1)
    """
    defined = [clip for clip in clips if clip.total is not None]
    dimensions = dict.fromkeys(dimension for clip in clips for dimension in clip.by_dimension)
    by_dimension = {
        dimension: mean_of([clip.by_dimension[dimension].f1 for clip in defined if dimension in clip.by_dimension])
        for dimension in dimensions
    }
    return SystemScore(
        total=mean_of([clip.total for clip in defined]),
        by_dimension=by_dimension,
        n_clips=len(defined),
        n_missing=sum(clip.status == "no_prediction" for clip in defined),
        n_undefined=len(clips) - len(defined),
    )


def mean_of(values: Sequence[float | None]) -> float | None:
    """Average the values that are not None; None where all are."""
    numbers = [value for value in values if value is not None]
    return sum(numbers) / len(numbers) if numbers else None
