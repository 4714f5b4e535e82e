"""Compute ECS of a caption from the verdicts on keypoints: over the whole video (flat), or along a SodaM alignment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from metrics_core.ecs.result import ECSResult, Mode
from metrics_core.ecs.verdict import KeypointVerdict
from metrics_core.sodam import Alignment, compute_coverage, count_covered_keypoints, score_alignment
from metrics_core.sodam.result import Compat, Status
from metrics_core.sodam.score import Average

FlatMode = Literal["flat_micro", "flat_macro"]
AVERAGES: dict[str, Average] = {"flat_micro": "micro", "flat_macro": "macro"}
EMPTY_ALIGNMENT = Alignment((), {}, (), 0.0)


def choose_mode(mode: Mode | Literal["auto"], *, timed_reference: bool, timed_prediction: bool) -> Mode:
    """Return the scoring mode of a caption: "auto" becomes "sodam" where both sides have times, else "flat_micro";
    another mode stays. timed_reference, timed_prediction: whether the reference segments and the caption have times.
    Raises ValueError for an unknown mode, and for "sodam" where a side has no times.

    >>> choose_mode("auto", timed_reference=True, timed_prediction=False)
    'flat_micro'
    """
    timed = timed_reference and timed_prediction
    if mode == "auto":
        return "sodam" if timed else "flat_micro"
    if mode not in ("flat_micro", "flat_macro", "sodam"):
        raise ValueError(f'mode is {mode!r}: give "auto", "flat_micro", "flat_macro" or "sodam".')
    if mode == "sodam" and not timed:
        side = "prediction" if timed_reference else "reference"
        raise ValueError(f'The {side} has no times, which mode "sodam" needs: use "auto" or a flat mode.')
    return mode


def compute_flat_score(
    dimensions: Sequence[str],
    verdicts: Sequence[KeypointVerdict],
    *,
    mode: FlatMode = "flat_micro",
    names: Sequence[str] = (),
) -> ECSResult:
    """Return ECS of a caption as the covered share of the video's keypoints, whatever their times; the score is None
    without keypoints. dimensions, verdicts: one per keypoint. mode: "flat_micro" weighs all keypoints equally;
    "flat_macro" averages over the dimensions that have keypoints. names: dimensions to list first in the result, even
    those without a keypoint.

    All keypoints must have been verified on the same text. Raises ValueError for another mode and for a verdict without
    a decision.

    >>> verdicts = [KeypointVerdict(0.9, 0, covered=True), KeypointVerdict(0.1, 3, covered=False)]
    >>> result = compute_flat_score(["events", "camera"], verdicts, names=["camera", "events", "speech"])
    >>> result.score, result.by_dimension
    (0.5, {'camera': 0.0, 'events': 1.0, 'speech': None})
    """
    if mode not in AVERAGES:
        raise ValueError(f'mode is {mode!r}: give "flat_micro" or "flat_macro".')
    counts = _count_covered_by_dimension(dimensions, verdicts, names)
    score = compute_coverage(counts, AVERAGES[mode])
    by_dimension = {name: compute_coverage({name: count}) for name, count in counts.items()}
    has_sentence = any(verdict.probability is not None for verdict in verdicts)
    status: Status = "no_reference" if score is None else "ok" if has_sentence else "no_prediction"
    return ECSResult(mode, status, score, by_dimension, counts)


def compute_sodam_score(
    alignment: Alignment,
    dimensions: Sequence[Sequence[str]],
    verdicts: Sequence[Sequence[KeypointVerdict]],
    *,
    n_sentences: int,
    segment_average: Average = "micro",
    compat: Compat | None = None,
    names: Sequence[str] = (),
) -> ECSResult:
    """Return ECS of a caption as SodaM's F1, along the alignment of its segments with the reference segments.
    dimensions, verdicts: one list per reference segment, with one entry per keypoint of the segment. n_sentences: the
    number of sentences in all predicted segments; with 0 nothing was predicted, whatever the alignment is.

    Verify a segment's keypoints on the text merged into the segment (`merge_texts`). Without such a text a keypoint has
    no sentence to be verified on, and `decide_keypoint` gives the verdict for that case. For segment_average and compat
    see `score_alignment`, for names see `compute_flat_score`.

    >>> alignment = Alignment(((0, 0),), {0: (0,)}, (), 0.9)
    >>> verdicts = [[KeypointVerdict(0.9, 0, covered=True)], [KeypointVerdict(None, None, covered=False)]]
    >>> result = compute_sodam_score(alignment, [["events"], ["events"]], verdicts, n_sentences=3)
    >>> result.score, result.covered_counts
    (0.6666666666666666, {'events': (1, 2)})
    """
    by_segment = [_count_covered_by_dimension(*segment, names) for segment in zip(dimensions, verdicts, strict=True)]
    aligned = score_alignment(
        alignment if n_sentences else EMPTY_ALIGNMENT, by_segment, segment_average=segment_average, compat=compat
    )
    counts = _count_covered_by_dimension(
        [dimension for segment in dimensions for dimension in segment],
        [verdict for segment in verdicts for verdict in segment],
        names,
    )
    f1_of = {name: dimension.f1 for name, dimension in aligned.by_dimension.items()}
    by_dimension = {name: f1_of.get(name) for name in counts}
    return ECSResult("sodam", aligned.status, aligned.f1, by_dimension, counts, aligned)


def _count_covered_by_dimension(
    dimensions: Sequence[str], verdicts: Sequence[KeypointVerdict], names: Sequence[str]
) -> dict[str, tuple[int, int]]:
    """Return the numbers of (covered, all) keypoints by dimension: first the dimensions in `names`, (0, 0) for one
    without a keypoint, then the others. dimensions, verdicts: one per keypoint. Raises ValueError for a verdict without
    a decision, and unless there are as many dimensions as verdicts.
    """
    undecided = next((i for i, verdict in enumerate(verdicts) if verdict.covered is None), None)
    if undecided is not None:
        raise ValueError(f"The verdict on keypoint {undecided} is open: decide it at a threshold first.")
    if len(dimensions) != len(verdicts):
        raise ValueError(
            f"The number of dimensions is {len(dimensions)}, that of verdicts {len(verdicts)}: give one per verdict."
        )
    covered = [bool(verdict.covered) for verdict in verdicts]
    return dict.fromkeys(names, (0, 0)) | count_covered_keypoints(dimensions, covered)
