"""Thresholds against brute force over every cut in fractions, resamples written out, and known hash positions."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import metrics_core.calibration
import metrics_core.calibration.search
from metrics_core.calibration import (
    Confusion,
    compute_split_position,
    find_best_threshold,
    find_dimension_thresholds,
    mark_calibration_keys,
)
from metrics_core.calibration.search import draw_resamples

SCORES_H = [0.95, 0.90, 0.80, 0.60, 0.55, 0.30, 0.20, 0.05]
LABELS_H = [1, 1, 0, 1, 0, 0, 1, 0]
OBJECTIVES: list[Any] = ["f1", "youden", "mcc", "coverage"]
CONSTANT = "All 4 scores are 0.5: no threshold can tell these labels apart."


def test_the_public_surface() -> None:
    assert metrics_core.calibration.__all__ == sorted(metrics_core.calibration.__all__)
    assert all(hasattr(metrics_core.calibration, name) for name in metrics_core.calibration.__all__)


# Brute force


def confusion(scores: list[float], labels: list[int], tau: float) -> tuple[int, int, int, int]:
    """True and false positives, false and true negatives, one label at a time."""
    cells = [(score >= tau, label == 1) for score, label in zip(scores, labels, strict=True)]
    return (
        cells.count((True, True)),
        cells.count((True, False)),
        cells.count((False, True)),
        cells.count((False, False)),
    )


def f1_of(tp: int, fp: int, fn: int, tn: int) -> Fraction:
    return Fraction(2 * tp, 2 * tp + fp + fn)


def youden_of(tp: int, fp: int, fn: int, tn: int) -> Fraction:
    return Fraction(tp, tp + fn) - Fraction(fp, fp + tn)


def signed_square_of_mcc(tp: int, fp: int, fn: int, tn: int) -> Fraction:
    margins = (tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)
    association = tp * tn - fp * fn
    return Fraction(association * abs(association), margins) if margins else Fraction(0)


def coverage_of(tp: int, fp: int, fn: int, tn: int) -> Fraction:
    return -abs(Fraction(tp + fp, tp + fp + fn + tn) - Fraction(tp + fn, tp + fp + fn + tn))


MEASURES: dict[str, Callable[[int, int, int, int], Fraction]] = {
    "f1": f1_of,
    "youden": youden_of,
    "mcc": signed_square_of_mcc,
    "coverage": coverage_of,
}


def by_brute_force(scores: list[float], labels: list[int], objective: str, candidates: list[float]) -> float | None:
    """The largest of the best candidates; None where the objective has no value."""
    needs_negative = objective in ("youden", "mcc")
    if not scores or (objective != "coverage" and 1 not in labels) or (needs_negative and 0 not in labels):
        return None
    return max(candidates, key=lambda tau: (MEASURES[objective](*confusion(scores, labels, tau)), tau))


def all_cuts(scores: list[float]) -> list[float]:
    return [*set(scores), math.nextafter(max(scores), math.inf)] if scores else []


def test_case_h() -> None:
    by_tau = {
        0.95: Fraction(2, 5),
        0.90: Fraction(2, 3),
        0.80: Fraction(4, 7),
        0.60: Fraction(3, 4),
        0.55: Fraction(2, 3),
        0.30: Fraction(3, 5),
        0.20: Fraction(8, 11),
        0.05: Fraction(2, 3),
    }
    assert {tau: f1_of(*confusion(SCORES_H, LABELS_H, tau)) for tau in SCORES_H} == by_tau
    found = find_best_threshold(SCORES_H, LABELS_H)
    assert (found.at_least, found.objective, found.n, found.n_good, found.status) == (0.60, "f1", 8, 4, "ok")
    assert found.counts == Confusion(3, 1, 1, 3)
    assert found.counts.f1 == 0.75
    assert (found.warnings, found.pooled, found.low, found.high) == ((), False, None, None)


labelled = st.lists(
    st.tuples(st.sampled_from([-1.5, -0.0, 0.0, 0.1, 0.3, 0.95, 1.0]) | st.floats(-2, 2), st.integers(0, 1)),
    max_size=14,
)


@given(labelled, st.sampled_from(OBJECTIVES))
def test_the_best_of_all_cuts(pairs: list[tuple[float, int]], objective: Any) -> None:
    """Few distinct scores make ties of scores, few labels ties of the objective."""
    scores, labels = [score for score, _ in pairs], [label for _, label in pairs]
    found = find_best_threshold(scores, labels, objective)
    expected = by_brute_force(scores, labels, objective, all_cuts(scores))
    assert found.at_least == expected
    assert (found.n, found.n_good) == (len(labels), sum(labels))
    assert (found.status == "ok") == (expected is not None) == (found.counts is not None) == (found.reason is None)
    if found.counts and expected is not None:
        assert found.counts == Confusion(*confusion(scores, labels, expected))


@given(labelled, st.sampled_from(OBJECTIVES), st.randoms(use_true_random=False))
def test_order_and_copies_of_the_labels_do_not_matter(pairs: list[Any], objective: Any, shuffle: Any) -> None:
    def value(of: list[Any]) -> float | None:
        return find_best_threshold([score for score, _ in of], [label for _, label in of], objective).at_least

    shuffled = list(pairs)
    shuffle.shuffle(shuffled)
    assert value(pairs) == value(shuffled) == value(pairs * 3)


@given(labelled)
def test_never_worse_than_saying_yes_to_all(pairs: list[Any]) -> None:
    counts = find_best_threshold([score for score, _ in pairs], [label for _, label in pairs]).counts
    assert counts is None or (counts.f1 or 0) >= (counts.all_positive_f1 or 0)


@given(*[st.integers(0, 6)] * 4)
def test_numbers_of_a_confusion(tp: int, fp: int, fn: int, tn: int) -> None:
    """Each is its textbook formula, and None where that divides by 0."""
    counts, n, p = Confusion(tp, fp, fn, tn), tp + fp + fn + tn, tp + fn

    def over(part: float, whole: float) -> Any:
        return pytest.approx(part / whole) if whole else None

    assert (counts.n, counts.n_positive, counts.n_predicted) == (n, p, tp + fp)
    assert (counts.prevalence, counts.predicted_rate) == (over(p, n), over(tp + fp, n))
    assert (counts.accuracy, counts.recall) == (over(tp + tn, n), over(tp, p))
    assert counts.f1 == over(tp, tp + (fp + fn) / 2)
    assert counts.all_positive_f1 == (over(2 * p / n, 1 + p / n) if p else None)
    assert counts.youden == (pytest.approx(tp / p + tn / (n - p) - 1) if p and n - p else None)
    margins = (tp + fp) * p * (fp + tn) * (fn + tn)
    assert counts.mcc == (pytest.approx((tp * tn - fp * fn) / math.sqrt(margins)) if margins else None)


def test_the_value_above_all_scores_predicts_nothing() -> None:
    """Where high scores mean no, the best correlation and coverage of one yes in four come from elsewhere."""
    scores, labels = [0.9, 0.8, 0.2, 0.1], [False, False, True, True]
    above = math.nextafter(0.9, 1.0)
    for objective in ("youden", "mcc"):
        found = find_best_threshold(scores, labels, objective)
        assert found.at_least == above
        assert found.counts == Confusion(0, 0, 2, 2)
    assert find_best_threshold(scores, [False] * 4, "coverage").at_least == above
    assert find_best_threshold(scores, [True] * 4, "coverage").at_least == 0.1


# What has no threshold, and what to be warned of


@pytest.mark.parametrize(
    ("labels", "objective", "status"),
    [
        ([], "f1", "no_labels"),
        ([], "coverage", "no_labels"),
        ([False, False], "f1", "no_positive"),
        ([False, False], "youden", "no_positive"),
        ([False, False], "mcc", "no_positive"),
        ([True, True], "youden", "no_negative"),
        ([True, True], "mcc", "no_negative"),
    ],
)
def test_what_has_no_threshold_has_a_status(labels: list[bool], objective: Any, status: str) -> None:
    found = find_best_threshold([0.4, 0.6][: len(labels)], labels, objective, n_resamples=20)
    assert (found.at_least, found.counts, found.status, found.warnings) == (None, None, status, ())
    assert found.reason
    assert (found.low, found.high) == (None, None)
    assert found.n_undefined == (20 if labels else 0)


def test_doubtful_thresholds_are_warned_of() -> None:
    always = (
        "The threshold predicts yes for 100.0% of the labels, while 25.0% of them are yes: "
        "F1 is 0.400, and 0.400 for always predicting yes."
    )
    assert find_best_threshold([0.5] * 4, [True, False, False, False]).warnings == (CONSTANT, always)
    (warning,) = find_best_threshold(np.arange(25) / 25, [False] * 24 + [True]).warnings
    assert "predicts yes for 4.0% of the labels" in warning


@pytest.mark.parametrize(("n_positive", "warned"), [(19, False), (20, True), (1, False), (0, True)])
def test_where_nearly_all_and_nearly_nothing_begin(n_positive: int, warned: bool) -> None:
    """Of 20 labels 19 are 95 % and 1 is 5 %: neither is beyond the limits."""
    labels = [False] * (20 - n_positive) + [True] * n_positive
    found = find_best_threshold(np.arange(20) / 20, labels, "coverage")
    assert found.counts is not None
    assert found.counts.n_predicted == n_positive
    assert bool(found.warnings) == warned


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"scores": [0.1], "labels": [1, 0]}, r"scores have shape \(1,\), labels \(2,\)"),
        ({"scores": [[0.1]], "labels": [[1]]}, r"scores have shape \(1, 1\)"),
        ({"scores": [0.1, float("nan")], "labels": [1, 0]}, "score 1 is nan: give finite scores"),
        ({"scores": [float("inf"), 0.1], "labels": [1, 0]}, "score 0 is inf"),
        ({"scores": [0.1, 0.2], "labels": [1, 2]}, "label 1 is 2: give True or False"),
        ({"scores": [0.1, 0.2], "labels": [None, True]}, "label 0 is None"),
        ({"scores": [0.1, 0.2], "labels": ["no", "yes"]}, "label 0 is no"),
        ({"objective": "accuracy"}, "objective is 'accuracy': give one of f1, youden, mcc, coverage"),
        ({"groups": ["a"]}, "There are 1 groups for 8 labels"),
    ],
)
def test_bad_input_is_refused(arguments: dict[str, Any], message: str) -> None:
    arguments = {"scores": SCORES_H, "labels": LABELS_H, **arguments}
    with pytest.raises(ValueError, match=message):
        find_best_threshold(**arguments)
    with pytest.raises(ValueError, match=message):
        find_dimension_thresholds(**arguments, dimensions=["events"] * len(arguments["scores"]))


def test_every_label_has_a_dimension() -> None:
    with pytest.raises(ValueError, match="There are 7 dimensions for 8 labels"):
        find_dimension_thresholds(SCORES_H, LABELS_H, ["events"] * 7)


# Intervals


@given(
    st.lists(
        st.tuples(st.sampled_from([0.1, 0.3, 0.5, 0.9]), st.integers(0, 1), st.sampled_from("abcd")),
        min_size=1,
        max_size=9,
    ),
    st.sampled_from(OBJECTIVES),
)
def test_an_interval_equals_thresholds_of_resamples_written_out(
    rows: list[tuple[float, int, str]], objective: Any
) -> None:
    rows = sorted(rows, key=lambda row: -row[0])
    scores, labels, videos = (list(column) for column in zip(*rows, strict=True))
    found = find_best_threshold(scores, labels, objective, videos, n_resamples=25, seed=3)
    numbers = {video: i for i, video in enumerate(dict.fromkeys(videos))}
    assert found.n_videos == len(numbers)
    if len(numbers) < 2:
        assert (found.low, found.high, found.n_undefined) == (None, None, 0)
        return
    group_of = np.array([numbers[video] for video in videos])
    values = []
    for weights in np.concatenate(list(draw_resamples(group_of, len(numbers), 25, 3))):
        assert all(len(set(weights[group_of == group])) == 1 for group in numbers.values())  # a video is drawn whole
        assert sum(weights[group_of == group][0] for group in numbers.values()) == len(numbers)
        drawn, drawn_labels = np.repeat(scores, weights).tolist(), np.repeat(labels, weights).tolist()
        above = math.nextafter(max(scores), math.inf)  # above all scores, drawn or not
        values.append(by_brute_force(drawn, drawn_labels, objective, [*set(drawn), above]))
    defined = sorted(value for value in values if value is not None)
    assert found.n_undefined == 25 - len(defined)
    if not defined:
        assert (found.low, found.high) == (None, None)
        return
    low, high = (defined[max(math.ceil(len(defined) * Fraction(share, 1000)), 1) - 1] for share in (25, 975))
    assert (found.low, found.high) == (low, high)


def noisy(n: int) -> tuple[list[float], list[int]]:
    rng = np.random.default_rng(8)
    labels = rng.integers(0, 2, n)
    return (0.3 * labels + rng.uniform(0, 0.7, n)).tolist(), labels.tolist()


def test_copies_of_a_label_in_its_video_are_no_evidence() -> None:
    scores, labels = noisy(40)
    videos = list(range(40))
    once = find_best_threshold(scores, labels, groups=videos, n_resamples=1000)
    assert once == find_best_threshold(scores, labels, n_resamples=1000)
    copied = find_best_threshold(scores * 5, labels * 5, groups=videos * 5, n_resamples=1000)
    assert (copied.low, copied.high, copied.n_videos) == (once.low, once.high, once.n_videos)
    one_by_one = find_best_threshold(scores * 5, labels * 5, n_resamples=1000)
    assert once.low is not None
    assert once.high is not None
    assert one_by_one.low is not None
    assert one_by_one.high is not None
    assert one_by_one.high - one_by_one.low < once.high - once.low
    assert once.at_least is not None
    assert once.low <= once.at_least <= once.high


def test_intervals_repeat_themselves_and_do_not_depend_on_the_size_of_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    scores, labels = noisy(30)
    whole = find_best_threshold(scores, labels, "mcc", n_resamples=50)
    assert find_best_threshold(scores, labels, "mcc", n_resamples=50) == whole
    assert len({find_best_threshold(scores, labels, "mcc", n_resamples=50, seed=i) for i in range(5)}) > 1
    for cells in (1, 95):
        monkeypatch.setattr(metrics_core.calibration.search, "CELLS", cells)
        assert find_best_threshold(scores, labels, "mcc", n_resamples=50) == whole


# By dimension


def checklist() -> tuple[list[float], list[int], list[str], list[str]]:
    """Three dimensions, mixed: 40 labels of events, 30 of speech without a yes, 19 of camera."""
    rng = np.random.default_rng(2)
    dimensions = rng.permutation(["events"] * 40 + ["speech"] * 30 + ["camera"] * 19).tolist()
    labels = [0 if dimension == "speech" else int(rng.integers(2)) for dimension in dimensions]
    scores = [0.4 * label + rng.uniform(0, 0.6) for label in labels]
    return scores, labels, dimensions, [f"video {rng.integers(12)}" for _ in dimensions]


def test_thresholds_by_dimension() -> None:
    scores, labels, dimensions, videos = checklist()
    pooled, by_dimension = find_dimension_thresholds(scores, labels, dimensions, groups=videos, n_resamples=30)
    assert list(by_dimension) == list(dict.fromkeys(dimensions))
    assert pooled == find_best_threshold(scores, labels, groups=videos, n_resamples=30)

    rows = [i for i, dimension in enumerate(dimensions) if dimension == "events"]
    own_scores, own_labels, own_videos = ([column[i] for i in rows] for column in (scores, labels, videos))
    alone = find_best_threshold(own_scores, own_labels, groups=own_videos, n_resamples=30)
    assert by_dimension["events"] == replace(alone, aspect="events")

    applies = "The threshold of all dimensions together applies, because"
    reasons = {
        "camera": f"{applies} the dimension has 19 labels, fewer than 20.",
        "speech": f"{applies} no label says yes.",
    }
    for name, reason in reasons.items():
        fallen_back = by_dimension[name]
        assert (fallen_back.at_least, fallen_back.pooled, fallen_back.status) == (pooled.at_least, True, "ok")
        assert (fallen_back.warnings, fallen_back.low, fallen_back.high) == ((reason,), pooled.low, pooled.high)
        own = [(score, label) for score, label, of in zip(scores, labels, dimensions, strict=True) if of == name]
        assert pooled.at_least is not None
        assert (fallen_back.n, fallen_back.n_good) == (len(own), sum(label for _, label in own))
        assert fallen_back.counts == Confusion(
            *confusion([score for score, _ in own], [label for _, label in own], pooled.at_least)
        )


def test_a_dimension_without_a_no_falls_back_where_the_objective_needs_one() -> None:
    scores, labels = [0.8, 0.6, 0.4, 0.2] * 10, [1, 1, 0, 0] * 5 + [1] * 20
    dimensions = ["events"] * 20 + ["camera"] * 20
    youden = find_dimension_thresholds(scores, labels, dimensions, "youden", n_resamples=5)[1]["camera"]
    assert (youden.pooled, "no label says no" in youden.warnings[0]) == (True, True)
    f1 = find_dimension_thresholds(scores, labels, dimensions, "f1", n_resamples=5)[1]["camera"]
    assert (f1.pooled, f1.at_least) == (False, 0.2)


def test_a_dimension_without_a_yes_falls_back_even_where_the_objective_is_defined() -> None:
    scores, labels = [0.8, 0.6, 0.4, 0.2] * 10, [1, 1, 0, 0] * 5 + [0] * 20
    dimensions = ["events"] * 20 + ["camera"] * 20
    found = find_dimension_thresholds(scores, labels, dimensions, "coverage", n_resamples=5)[1]
    assert (found["events"].pooled, found["camera"].pooled) == (False, True)


def test_without_a_pooled_threshold_nothing_is_made_up() -> None:
    pooled, found = find_dimension_thresholds([0.2, 0.3], [0, 0], ["events", "camera"])
    assert {name: (each.at_least, each.status, each.n, each.counts) for name, each in found.items()} == {
        "events": (None, "no_positive", 1, None),
        "camera": (None, "no_positive", 1, None),
    }
    assert (pooled.status, pooled.n) == ("no_positive", 2)
    empty, of_none = find_dimension_thresholds([], [], [])
    assert (empty.status, of_none) == ("no_labels", {})


# The split


def test_case_j() -> None:
    expected = {
        "v_uqiMw7tQ1Cc": (0.067378, True),
        "v_bXdq2zI1Ms0": (0.121204, True),
        "v_FsS_NCZEfaI": (0.492179, False),
        "v_a1WhnMcTbrY": (0.881932, False),
        "v_HWV_ccmZVPA": (0.664957, False),
    }
    assert {key: round(compute_split_position(key), 6) for key in expected} == {
        key: u for key, (u, _) in expected.items()
    }
    assert mark_calibration_keys(expected).tolist() == [calibrates for _, calibrates in expected.values()]


def test_the_share_of_activitynet(shared_data: Path) -> None:
    keys = json.loads((shared_data / "anet_captions" / "val_1.json").read_text(encoding="utf-8")).keys()
    mask = mark_calibration_keys(keys)
    assert (mask.sum(), mask.size) == (1001, 4917)


@given(st.lists(st.text(min_size=1), max_size=20), st.floats(0, 1), st.floats(0, 1))
def test_a_key_stays_where_it_is(keys: list[str], share: float, other: float) -> None:
    """Whatever its company; a larger share only adds keys. The position is 16 hex digits of the hash over 16^16."""
    mask = mark_calibration_keys(keys, share)
    assert mask.dtype == np.bool_
    for key, chosen in zip(keys, mask.tolist(), strict=True):
        position = int(hashlib.sha256(key.encode()).hexdigest()[:16], 16) / 16**16
        assert compute_split_position(key) == position
        assert chosen == (position < share)
        assert not mark_calibration_keys([key], position).any()
    smaller, larger = sorted([share, other])
    assert (mark_calibration_keys(keys, smaller) <= mark_calibration_keys(keys, larger)).all()


def test_bad_keys_and_shares_are_refused() -> None:
    with pytest.raises(ValueError, match="The key is empty"):
        mark_calibration_keys(["a", ""])
    for share in (-0.1, 1.1, float("nan")):
        with pytest.raises(ValueError, match="share is"):
            mark_calibration_keys(["a"], share)
