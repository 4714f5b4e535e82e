"""SodaM against hand-computed cases, brute force in fractions, plain loops, and counts known of real annotations."""

from __future__ import annotations

import itertools
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import metrics_core.arrays
import metrics_core.sodam
from metrics_core.sodam import (
    Alignment,
    SodamWarning,
    align,
    align_batch,
    compute_coverage,
    compute_span_iou,
    compute_system_score,
    compute_temporal_score,
    count_covered_keypoints,
    merge_spans,
    merge_texts,
    score_alignment,
)
from metrics_core.sodam.best_totals import compute_best_totals, find_official_path, find_optimal_path
from tests.metrics_core.sodam_oracle import Span, best_matching, f1_by_hand, fraction_iou, merged_by_loops

REFERENCES_A = [[0, 10], [10, 20], [20, 30], [30, 40]]
PREDICTIONS_A = [[0, 5], [5, 10], [10, 22], [22, 30]]
COUNTS_A = [
    {"events": (2, 3), "camera": (1, 1)},
    {"events": (1, 4), "camera": (0, 1)},
    {"events": (1, 1)},
    {"events": (0, 2)},
]


def test_the_public_surface() -> None:
    assert metrics_core.sodam.__all__ == sorted(metrics_core.sodam.__all__)
    assert all(hasattr(metrics_core.sodam, name) for name in metrics_core.sodam.__all__)


# Hand-computed cases


def test_case_a_alignment() -> None:
    rows = [[1 / 2, 1 / 2, 0, 0], [0, 0, 5 / 6, 0], [0, 0, 1 / 10, 4 / 5], [0, 0, 0, 0]]
    np.testing.assert_allclose(compute_span_iou(REFERENCES_A, PREDICTIONS_A), rows, rtol=1e-15)
    found = align(REFERENCES_A, PREDICTIONS_A)
    assert found.total_iou == pytest.approx(32 / 15, abs=1e-12)
    assert found.anchors == ((0, 0), (1, 2), (2, 3))
    assert found.groups == {0: (0, 1), 1: (2,), 2: (3,)}
    assert found.orphans == ()
    assert merge_spans(PREDICTIONS_A, found).tolist() == [[0, 10], [10, 22], [22, 30]]
    assert merge_texts(["a", "b", "c", "d"], found) == {0: "a\nb", 1: "c", 2: "d"}


def test_case_a_score() -> None:
    score = score_alignment(align(REFERENCES_A, PREDICTIONS_A), COUNTS_A)
    assert [pair.coverage for pair in score.segment_scores] == [0.75, 0.2, 1.0]
    assert [(pair.reference, pair.predictions, pair.n_covered, pair.n_keypoints) for pair in score.segment_scores] == [
        (0, (0, 1), 3, 4),
        (1, (2,), 1, 5),
        (2, (3,), 1, 1),
    ]
    assert score.status == "ok"
    assert score.precision == pytest.approx(0.65)
    assert score.recall == pytest.approx(0.4875)
    assert score.f1 == pytest.approx(3.9 / 7)
    assert score.by_dimension["events"].f1 == pytest.approx(0.547619048, abs=1e-9)
    camera = score.by_dimension["camera"]
    assert (camera.precision, camera.recall, camera.f1) == (0.5, 0.5, 0.5)


def test_case_a_score_of_the_official_code() -> None:
    """It keeps the two segments without camera keypoints in both denominators."""
    alignment = align(REFERENCES_A, PREDICTIONS_A, compat="official")
    assert alignment.groups == {0: (0, 1), 1: (2,), 2: (3,)}
    score = score_alignment(alignment, COUNTS_A, compat="official")
    assert score.f1 == pytest.approx(3.9 / 7)
    assert score.by_dimension["events"].f1 == pytest.approx(0.547619048, abs=1e-9)
    assert score.by_dimension["camera"].f1 == pytest.approx(0.285714286, abs=1e-9)


def test_case_a_times() -> None:
    score = compute_temporal_score(REFERENCES_A, PREDICTIONS_A, align(REFERENCES_A, PREDICTIONS_A))
    assert score.precision == pytest.approx(0.833333, abs=1e-6)
    assert score.recall == pytest.approx(0.625)
    assert score.f1 == pytest.approx(0.714285714, abs=1e-9)
    assert score.mean_iou == pytest.approx(0.658333333, abs=1e-9)
    assert score.precision_by_threshold == {0.3: 1.0, 0.5: 1.0, 0.7: 1.0, 0.9: pytest.approx(1 / 3)}
    assert score.recall_by_threshold == {0.3: 0.75, 0.5: 0.75, 0.7: 0.75, 0.9: 0.25}


def test_case_b() -> None:
    references, predictions = [[0, 10], [10, 20]], [[0, 8], [9, 15], [15, 20]]
    found = align(references, predictions)
    assert (found.anchors, found.total_iou) == (((0, 0), (1, 2)), pytest.approx(1.3))
    assert found.groups == {0: (0,), 1: (1, 2)}
    official = align(references, predictions, compat="official")
    assert (official.anchors, official.total_iou) == (found.anchors, pytest.approx(1.3))
    assert official.groups == {0: (0, 1), 1: (2,)}


def test_case_c() -> None:
    references, predictions = [[1, 2], [1, 3]], [[0, 7], [1, 2]]
    np.testing.assert_allclose(compute_span_iou(references, predictions), [[1 / 7, 1], [2 / 7, 1 / 2]], rtol=1e-15)
    found = align(references, predictions)
    assert (found.anchors, found.groups, found.total_iou) == (((0, 1),), {0: (0, 1)}, 1.0)
    official = align(references, predictions, compat="official")
    assert (official.anchors, official.total_iou) == (((1, 0),), pytest.approx(2 / 7))


def test_case_d() -> None:
    references, predictions = [[0, 1], [1, 2]], [[2, 3], [3, 4]]
    found = align(references, predictions)
    assert found == Alignment((), {}, (0, 1), 0.0)
    counts = [{"events": (1, 1)}, {"events": (1, 1)}]
    score = score_alignment(found, counts)
    assert (score.status, score.f1, score.precision, score.recall, score.segment_scores) == ("ok", 0.0, 0.0, 0.0, ())
    official = align(references, predictions, compat="official")
    assert (official.anchors, official.groups, official.orphans) == (((0, 0),), {0: (0, 1)}, ())
    assert score_alignment(official, counts, compat="official").f1 == pytest.approx(2 / 3)


def test_case_g_micro_and_macro() -> None:
    counts = {"events": (2, 4), "camera": (1, 1), "speech": (0, 0)}
    assert compute_coverage(counts) == 0.6
    assert compute_coverage(counts, "macro") == 0.75
    alignment = align([[0, 1]], [[0, 1]])
    micro, macro = (score_alignment(alignment, [counts], segment_average=average) for average in ("micro", "macro"))
    assert (micro.f1, macro.f1) == (0.6, 0.75)
    assert micro.by_dimension == macro.by_dimension
    assert list(micro.by_dimension) == ["events", "camera", "speech"]
    assert micro.by_dimension["speech"].f1 is None
    assert score_alignment(alignment, [counts], compat="official").by_dimension["speech"].f1 == 0.0


# The recurrence against brute force


def anchors_of(path: np.ndarray) -> tuple[tuple[int, int], ...]:
    return tuple((i, j) for i, j in enumerate(path.tolist()) if j >= 0)


@st.composite
def grids(draw: st.DrawFn) -> np.ndarray:
    """IoU in eighths, so that sums are exact and ties are many; some are 0."""
    n, m = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    highest = draw(st.sampled_from([1, 2, 8]))
    eighths = st.lists(st.integers(0, highest), min_size=n * m, max_size=n * m)
    return np.array(draw(eighths), dtype=np.float64).reshape(n, m) / 8


@given(grids())
def test_path_is_the_best_one_and_the_tie_rule_decides(iou: np.ndarray) -> None:
    value, anchors = best_matching([[Fraction(x) for x in row] for row in iou.tolist()], iou.shape[1])
    total = compute_best_totals(iou[None])
    assert Fraction(total[0, -1, -1]) == value
    assert anchors_of(find_optimal_path(total)[0]) == anchors


def official_by_loops(iou: list[list[float]], m: int) -> tuple[tuple[int, int], ...]:
    """Section 4 of the spec word by word: the move that made each cell, then the last diagonal cell of each row."""
    n = len(iou)
    totals = [[0.0] * (m + 1) for _ in range(n + 1)]
    moves: dict[tuple[int, int], str] = {}
    for i, j in itertools.product(range(n), range(m)):
        options = {"up": totals[i][j + 1], "left": totals[i + 1][j], "diagonal": totals[i][j] + iou[i][j]}
        totals[i + 1][j + 1] = max(options.values())
        moves[i, j] = max(options, key=lambda move: options[move])  # the first of equal ones
    moves[0, 0] = "diagonal"
    anchors = []
    j_end = m
    for i in range(n - 1, -1, -1):
        for j in range(j_end - 1, -1, -1):
            if moves[i, j] == "diagonal":
                anchors.append((i, j))
                j_end = j
                break
    return tuple(reversed(anchors))


@given(grids())
def test_official_path_equals_the_loops(iou: np.ndarray) -> None:
    path = find_official_path(compute_best_totals(iou[None]))
    assert anchors_of(path[0]) == official_by_loops(iou.tolist(), iou.shape[1])


spans = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 6)).map(lambda s: (s[0], s[0] + s[1])), max_size=5)


@given(spans, spans, st.booleans())
def test_alignment_is_optimal_and_merges_by_the_rules(
    references: list[Span], predictions: list[Span], official: bool
) -> None:
    """Any order of input, zero lengths, repeated spans, empty sides; times in whole seconds, IoU in fractions."""
    found = align(references, predictions, compat="official" if official else None)
    ranked = [list(range(len(side))) for side in (references, predictions)]
    if not official:
        sides = zip(ranked, (references, predictions), strict=True)
        ranked = [sorted(order, key=side.__getitem__) for order, side in sides]
        best, _ = best_matching(
            [[fraction_iou(references[i], predictions[j]) for j in ranked[1]] for i in ranked[0]], len(predictions)
        )
        assert found.total_iou == pytest.approx(float(best), abs=1e-12)
    rank = [{index: place for place, index in enumerate(order)} for order in ranked]
    places = [(rank[0][i], rank[1][j]) for i, j in found.anchors]
    assert all(a[0] < b[0] and a[1] < b[1] for a, b in itertools.pairwise(places))
    overlaps = [fraction_iou(references[i], predictions[j]) for i, j in found.anchors]
    assert found.total_iou == pytest.approx(float(sum(overlaps)), abs=1e-12)
    assert official or all(overlaps)
    members, orphans = merged_by_loops(
        [references[i] for i in ranked[0]], [predictions[j] for j in ranked[1]], {j: i for i, j in places}, official
    )
    assert found.orphans == tuple(ranked[1][j] for j in orphans)
    assert dict(found.groups) == {ranked[0][i]: tuple(ranked[1][j] for j in group) for i, group in members.items()}
    assert sorted([*itertools.chain(*found.groups.values()), *found.orphans]) == list(range(len(predictions)))


@given(spans, spans, st.randoms(use_true_random=False))
def test_order_of_the_input_does_not_matter(references: list[Span], predictions: list[Span], shuffle: Any) -> None:
    """But for spans that are equal, of which the first in the input counts as the earlier one."""
    references, predictions = list(dict.fromkeys(references)), list(dict.fromkeys(predictions))
    r_order, p_order = list(range(len(references))), list(range(len(predictions)))
    shuffle.shuffle(r_order)
    shuffle.shuffle(p_order)
    straight = align(references, predictions)
    shuffled = align([references[i] for i in r_order], [predictions[j] for j in p_order])
    assert shuffled.total_iou == straight.total_iou
    assert [(r_order[i], p_order[j]) for i, j in shuffled.anchors] == list(straight.anchors)
    assert [p_order[j] for j in shuffled.orphans] == list(straight.orphans)
    groups = {r_order[i]: tuple(p_order[j] for j in group) for i, group in shuffled.groups.items()}
    assert groups == dict(straight.groups)


@given(st.lists(st.tuples(spans, spans), max_size=12), st.sampled_from([None, "official"]))
def test_a_batch_equals_single_clips(pairs: list[Any], compat: Any) -> None:
    assert align_batch(iter(pairs), compat=compat) == [align(*pair, compat=compat) for pair in pairs]


def test_stacks_are_cut_without_a_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(4)
    pairs = [tuple(np.sort(rng.uniform(0, 60, (n, 2)), axis=1) for n in shape) for shape in [(5, 4)] * 9 + [(3, 7)] * 5]
    whole = align_batch(pairs)
    for cells in (1, 65):
        monkeypatch.setattr(metrics_core.arrays, "STACK_CELLS", cells)
        assert align_batch(pairs) == whole


# Real annotations


@pytest.fixture(scope="module")
def activitynet(shared_data: Path) -> list[tuple[list[list[float]], list[list[float]]]]:
    """Spans of two annotators of each video."""
    first, second = (
        json.loads((shared_data / "anet_captions" / f"val_{i}.json").read_text(encoding="utf-8")) for i in (1, 2)
    )
    return [(first[key]["timestamps"], second[key]["timestamps"]) for key in first if key in second]


def test_two_annotators_of_activitynet(activitynet: list[Any]) -> None:
    found = align_batch(activitynet)
    assert len(found) == 4885
    sizes = [(len(references), len(predictions)) for references, predictions in activitynet]
    rows = [
        (a.total_iou / m, a.total_iou / n, 2 * a.total_iou / (n + m)) for a, (n, m) in zip(found, sizes, strict=True)
    ]
    np.testing.assert_allclose(np.mean(rows, axis=0), [0.438593, 0.456881, 0.432539], atol=5e-7)
    assert sum(len(alignment.anchors) for alignment in found) == 13_285


def test_how_often_the_official_code_differs_on_activitynet(activitynet: list[Any]) -> None:
    """The counts found with the official code: 56 clips not optimal, 29 with an anchor and 559 with a member that do
    not overlap their reference; and one clip worth .927 where 1.526 is possible."""
    ordered = [(sorted(references), sorted(predictions)) for references, predictions in activitynet]
    optimal, official = align_batch(ordered), align_batch(ordered, compat="official")
    gains = [ours.total_iou - theirs.total_iou for ours, theirs in zip(optimal, official, strict=True)]
    assert min(gains) > -1e-12
    assert sum(gain > 1e-9 for gain in gains) == 56
    assert (0.927, 1.526) in {
        (round(b.total_iou, 3), round(a.total_iou, 3)) for a, b in zip(optimal, official, strict=True)
    }
    apart = [compute_span_iou(*pair) == 0 for pair in ordered]
    anchors = sum(any(zero[anchor] for anchor in each.anchors) for zero, each in zip(apart, official, strict=True))
    members = sum(
        any(zero[i, j] for i, group in each.groups.items() for j in group)
        for zero, each in zip(apart, official, strict=True)
    )
    assert (anchors, members) == (29, 559)
    assert not any(zero[anchor] for zero, each in zip(apart, optimal, strict=True) for anchor in each.anchors)


# Scores


@st.composite
def clips(draw: st.DrawFn) -> tuple[Alignment, list[dict[str, tuple[int, int]]]]:
    """An alignment and counts in which segments lack a dimension, or all of them."""
    references, predictions = draw(spans), draw(spans)
    count = st.tuples(st.integers(0, 3), st.integers(0, 3)).map(lambda pair: (min(pair), max(pair)))
    segment = st.dictionaries(st.sampled_from(["events", "camera", "speech"]), count)
    counts = draw(st.lists(segment, min_size=len(references), max_size=len(references)))
    return align(references, predictions), counts


def as_floats(values: tuple[Any, Any, Any]) -> list[Any]:
    return [None if value is None else pytest.approx(float(value), abs=1e-12) for value in values]


@given(clips(), st.booleans())
def test_clip_score_equals_the_definition(clip: tuple[Alignment, list[dict[str, Any]]], official: bool) -> None:
    alignment, counts = clip
    score = score_alignment(alignment, counts, compat="official" if official else None)
    whole = [tuple(map(sum, zip(*segment.values(), strict=True))) or (0, 0) for segment in counts]
    expected = as_floats(f1_by_hand(alignment.groups, len(alignment.orphans), whole, official))
    assert [score.precision, score.recall, score.f1] == expected
    assert score.by_dimension.keys() == {dimension for segment in counts for dimension in segment}
    for dimension, each in score.by_dimension.items():
        parts = [segment.get(dimension, (0, 0)) for segment in counts]
        assert [each.precision, each.recall, each.f1] == as_floats(
            f1_by_hand(alignment.groups, len(alignment.orphans), parts, official)
        )
    assert (score.status == "no_reference") == (score.f1 is None)
    assert (score.status == "no_prediction") == (score.f1 is not None and alignment.n_merged_predictions == 0)


def test_no_prediction_scores_zero_and_no_reference_scores_nothing() -> None:
    missing = score_alignment(align([[0, 5]], []), [{"events": (0, 2), "camera": (0, 0)}])
    assert (missing.status, missing.f1, missing.precision, missing.recall) == ("no_prediction", 0.0, None, 0.0)
    assert (missing.by_dimension["events"].f1, missing.by_dimension["camera"].f1) == (0.0, None)
    for references, counts in (([], []), ([[0, 5]], [{}]), ([[0, 5]], [{"events": (0, 0)}])):
        undefined = score_alignment(align(references, [[0, 5]]), counts)
        assert (undefined.status, undefined.f1, undefined.precision, undefined.recall) == (
            "no_reference",
            *[None] * 3,
        )


def test_a_prediction_of_a_segment_without_keypoints_counts_neither_way() -> None:
    alignment = align([[0, 5], [5, 10]], [[0, 5]])
    score = score_alignment(alignment, [{}, {"events": (0, 1)}])
    assert (score.status, score.f1, score.precision, score.recall) == ("ok", 0.0, None, 0.0)
    assert score.segment_scores[0].coverage is None
    official = score_alignment(alignment, [{}, {"events": (0, 1)}], compat="official")
    assert (official.f1, official.precision, official.recall) == (0.0, 0.0, 0.0)


def test_what_an_unmatched_segment_covers_does_not_count() -> None:
    alignment = align([[0, 5], [5, 10]], [[0, 5]])
    scores = [score_alignment(alignment, [{"events": (1, 1)}, {"events": (n, 2)}]) for n in (0, 2)]
    assert scores[0] == scores[1]
    assert scores[0].f1 == pytest.approx(2 / 3)


def test_counts_come_from_verdicts() -> None:
    counts = count_covered_keypoints(["speech", "camera", "speech"], np.array([True, False, False]))
    assert counts == {"speech": (1, 2), "camera": (0, 1)}
    assert list(counts) == ["speech", "camera"]
    with pytest.raises(ValueError, match="zip"):
        count_covered_keypoints(["speech"], [True, False])


def test_system_score() -> None:
    alignment = align([[0, 5]], [[0, 5]])
    scored = score_alignment(alignment, [{"events": (1, 2), "camera": (1, 1)}])
    missing = score_alignment(align([[0, 5]], []), [{"events": (0, 2)}])
    undefined = score_alignment(alignment, [{"camera": (0, 0)}])
    system = compute_system_score([scored, missing, undefined])
    assert system.mean_f1 == pytest.approx((2 / 3 + 0) / 2)
    assert system.by_dimension == {"events": 0.25, "camera": 1.0}
    assert (system.n_videos, system.n_without_prediction, system.n_undefined) == (2, 1, 1)
    assert (compute_system_score([undefined]).mean_f1, compute_system_score([]).mean_f1) == (None, None)


@given(spans, spans)
def test_temporal_score_equals_the_loops(references: list[Span], predictions: list[Span]) -> None:
    alignment = align(references, predictions)
    score = compute_temporal_score(references, predictions, alignment)
    merged = [
        (min(predictions[j][0] for j in group), max(predictions[j][1] for j in group))
        for group in [*alignment.groups.values(), *((j,) for j in alignment.orphans)]
    ]
    assert merge_spans(predictions, alignment).tolist() == [list(span) for span in merged]
    if not references:
        assert (score.status, score.precision, score.recall, score.f1, score.mean_iou) == ("no_reference", *[None] * 4)
        return
    best = [max([fraction_iou(a, b) for b in merged], default=Fraction(0)) for a in references]
    assert score.mean_iou == pytest.approx(float(sum(best) / len(best)))
    levels = [Fraction(k, 10) for k in (3, 5, 7, 9)]
    recall = sum(sum(x > level for x in best) for level in levels) / (4 * len(best))
    assert score.recall == pytest.approx(recall)
    if not merged:
        assert (score.status, score.precision, score.f1) == ("no_prediction", None, 0.0)
        return
    closest = [max(fraction_iou(a, b) for a in references) for b in merged]
    precision = sum(sum(x > level for x in closest) for level in levels) / (4 * len(closest))
    assert score.status == "ok"
    assert score.precision == pytest.approx(precision)
    assert score.f1 == pytest.approx(2 * precision * recall / (precision + recall) if precision + recall else 0)


# Bad input


def test_reversed_spans_are_swapped_counted_and_warned_of_once() -> None:
    with pytest.warns(SodamWarning, match="^Segments that end before they start: 2") as caught:
        found = align([[10, 0]], [[0, 5], [10, 5]])
    assert len(caught) == 1
    assert found.n_swapped == 2
    straight = align([[0, 10]], [[0, 5], [5, 10]])
    assert (found.anchors, found.groups, found.total_iou) == (straight.anchors, straight.groups, straight.total_iou)
    with pytest.warns(SodamWarning, match="^Segments that end before they start: 2") as caught:
        batch = align_batch([([[10, 0]], [[0, 5]]), ([[0, 10]], [[0, 5]]), ([[0, 10]], [[5, 0]])])
    assert len(caught) == 1
    assert [each.n_swapped for each in batch] == [1, 0, 1]


def test_a_segment_without_length_matches_nothing() -> None:
    found = align([[5, 5], [0, 10]], [[5, 5], [0, 10]])
    assert (found.anchors, found.orphans) == (((1, 1),), (0,))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ([[0, 1, 2]], r"reference_spans have shape \(1, 3\): give \(n, 2\)"),
        ([0, 1], r"reference_spans have shape \(2,\)"),
        (5.0, r"reference_spans have shape \(\)"),
        ([[0, 1], [1, float("nan")]], r"row 1 of reference_spans is \[1.0, nan\]: give a finite start"),
        ([[0, float("inf")]], "row 0 of reference_spans"),
        ([[-1.7e308, 1.7e308]], "row 0 of reference_spans"),
    ],
)
def test_bad_spans_are_refused(wrong: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        align(wrong, [[0, 1]])
    with pytest.raises(ValueError, match=message.replace("reference_spans", "predicted_spans of pair 1")):
        align_batch([([[0, 1]], [[0, 1]]), ([[0, 1]], wrong)])


def test_other_bad_input_is_refused() -> None:
    alignment = align([[0, 1]], [[0, 1]])
    wrong: Any = "soda"
    with pytest.raises(ValueError, match="compat is 'soda': give \"official\""):
        align([[0, 1]], [[0, 1]], compat=wrong)
    with pytest.raises(ValueError, match="compat"):
        score_alignment(alignment, [{"events": (1, 1)}], compat=wrong)
    with pytest.raises(ValueError, match="average is 'soda'"):
        score_alignment(alignment, [{"events": (1, 1)}], segment_average=wrong)
    with pytest.raises(ValueError, match="matches reference segment 0, but the number of segments with counts is 0"):
        score_alignment(alignment, [])
    with pytest.raises(ValueError, match="'events' has 3 of 2 keypoints covered"):
        score_alignment(alignment, [{"events": (3, 2)}])
    for thresholds in ([], [1.0], [-0.1], [float("nan")]):
        with pytest.raises(ValueError, match="give at least one IoU"):
            compute_temporal_score([[0, 1]], [[0, 1]], alignment, thresholds)
