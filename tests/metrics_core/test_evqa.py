"""EVQAScore against the authors' recorded results, a second implementation by loops, and what it must not copy."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from metrics_core.evqa import EVQAResult, evqa_from_features, evqa_from_prepared_frames, prepare_frames, qa_score
from metrics_core.frames import choose_frame_indices
from tests.metrics_core.evqa_oracle import by_loops

NAMES = {
    "P": "precision",
    "R": "recall",
    "F": "f1",
    "coarse": "coarse",
    "full_P": "full_precision",
    "full_R": "full_recall",
    "full_F": "score",
}


@pytest.fixture(scope="module")
def golden(shared_data: Path) -> dict[str, list[dict[str, Any]]]:
    """The recorded cases by family."""
    families: dict[str, list[dict[str, Any]]] = {}
    with (shared_data / "golden" / "evqa.jsonl").open(encoding="utf-8") as lines:
        for case in map(json.loads, lines):
            families.setdefault(case["family"], []).append(case)
    return families


def scored(case: dict[str, Any]) -> EVQAResult:
    text = case["units"][-1] if case.get("text", "last_unit") == "last_unit" else case["text"]
    return evqa_from_features(
        case["frames"], case["units"], text, keyword_weights=case["weights"], regions=case.get("regions")
    )


def deviation(result: EVQAResult, expected: dict[str, float]) -> float:
    """Largest difference from the recorded numbers; infinite where ours is None."""
    pairs = [(getattr(result, NAMES[name]), value) for name, value in expected.items()]
    return max(math.inf if mine is None else abs(mine - theirs) for mine, theirs in pairs)


@pytest.mark.parametrize(
    ("family", "n_cases"), [("evqa_core", 28), ("evqa_regions", 6), ("emscore_xv", 12), ("emscore_xv_idf", 12)]
)
def test_equals_the_authors_code(golden: dict[str, list[dict[str, Any]]], family: str, n_cases: int) -> None:
    cases = golden[family]
    assert len(cases) == n_cases
    for case in cases:
        result = scored(case)
        assert result.status == "ok", case["id"]
        assert deviation(result, case["expect"]) <= 1e-9, case["id"]
        assert result.raw_score == result.score
        assert result.n_keywords == case["K"]
        if "derived" in case:
            assert result.n_keywords == case["derived"]["n"]
            assert qa_score(result) == pytest.approx(case["derived"]["qa_score_paper_DERIVED"], abs=1e-9)


def test_float32_features_stay_within_the_tolerance(golden: dict[str, list[dict[str, Any]]]) -> None:
    for case in golden["evqa_core"]:
        frames, units, text = (np.asarray(case[name], dtype=np.float32) for name in ("frames", "units", "text"))
        assert deviation(evqa_from_features(frames, units, text), case["expect_f32"]) <= 2e-6, case["id"]


def test_the_video_part_of_emscore_with_references(golden: dict[str, list[dict[str, Any]]]) -> None:
    for case in golden["emscore_ref"]:
        assert deviation(scored(case), case["expect"]["EMScore(X,V)"]) <= 1e-9, case["id"]


def test_the_2024_code_is_made_of_the_same_parts(golden: dict[str, list[dict[str, Any]]]) -> None:
    for case in golden["evqa_2024"]:
        result, expected = scored(case), case["expect"]
        assert deviation(result, {name: expected[name] for name in ("P", "R", "coarse")}) <= 1e-9
        assert result.f1 is not None
        assert result.coarse is not None
        with_log = result.f1 * math.log(case["n_phrases"] + 1)
        assert with_log == pytest.approx(expected["F_times_log"], rel=1e-7)  # its logarithm is float32
        assert (result.coarse + with_log) / 2 == pytest.approx(expected["full_F"], rel=1e-7)


def test_sampled_frames(golden: dict[str, list[dict[str, Any]]]) -> None:
    for case in golden["sampling"]:
        assert choose_frame_indices(case["n_frames"], case["interval"]).tolist() == case["expect_indices"]


def test_padding_of_a_batch_moves_no_score(golden: dict[str, list[dict[str, Any]]]) -> None:
    """The official batch turns negative best cosines into 0; ours gives what each pair gives alone."""
    moved = 0
    for case in golden["padded_batch"]:
        for item in case["items"]:
            alone = item["expect_alone"]
            result = scored(item)
            assert deviation(result, {n: v for n, v in alone.items() if n not in ("F", "full_F")}) <= 1e-9
            assert result.raw_f1 == pytest.approx(alone["F"], abs=1e-9)
            assert result.raw_score == pytest.approx(alone["full_F"], abs=1e-9)
            moved += any(abs(item["expect_in_batch"][n] - alone[n]) > 1e-6 for n in alone)
    assert moved > 0


DEGENERATE = {
    "degenerate-000": ("ok", 0.0),  # all cosines 0: F = 0, as official
    "degenerate-001": ("bad_feature", None),  # a zero frame; official NaN
    "degenerate-004": ("negative_match", None),  # P > 0 > R; official F = -1.99
    "degenerate-005": ("ok", -1.0),  # all cosines -1: F = -1 lies between P and R, as official
}


def test_policy_for_degenerate_cases(golden: dict[str, list[dict[str, Any]]]) -> None:
    cases = {case["id"]: case for case in golden["degenerate"]}
    assert cases.keys() == DEGENERATE.keys()
    for name, (status, score) in DEGENERATE.items():
        result = scored(cases[name])
        assert (result.status, result.score) == (status, score)
        if status == "ok":
            assert deviation(result, cases[name]["expect"]) <= 1e-9
    opposite, expected = scored(cases["degenerate-004"]), cases["degenerate-004"]["expect"]
    assert deviation(opposite, {name: expected[name] for name in ("P", "R", "coarse")}) <= 1e-9
    assert opposite.f1 is None
    assert opposite.raw_f1 == pytest.approx(expected["F"], abs=1e-9)
    assert opposite.raw_score == pytest.approx(expected["full_F"], abs=1e-9)


@st.composite
def problems(draw: st.DrawFn) -> dict[str, Any]:
    """Few or many rows of any scale, crowded like CLIP's, spread out or opposed, with and without weights, regions."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    dim = draw(st.integers(2, 9))
    towards = rng.normal(size=dim) * draw(st.sampled_from([0.0, 1.0, 4.0]))
    side = draw(st.sampled_from([1.0, -1.0]))

    def rows(n: int, centre: np.ndarray) -> list[list[float]]:
        scale = 10.0 ** rng.integers(-3, 4, size=(n, 1))
        return ((rng.normal(size=(n, dim)) + centre) * scale).tolist()

    keywords = rows(draw(st.integers(1, 7)), side * towards)
    if draw(st.booleans()):
        keywords += keywords[:1]
    weights = [*rng.integers(0, 3, size=len(keywords) - 1).astype(float).tolist(), 0.5]
    return {
        "frames": rows(draw(st.integers(1, 8)), towards),
        "keywords": keywords,
        "text": rows(1, side * towards)[0],
        "weights": weights if draw(st.booleans()) else None,
        "regions": rows(draw(st.integers(0, 5)), towards) if draw(st.booleans()) else None,
    }


def score_problem(problem: dict[str, Any]) -> EVQAResult:
    return evqa_from_features(
        problem["frames"],
        problem["keywords"],
        problem["text"],
        keyword_weights=problem["weights"],
        regions=problem["regions"],
    )


@given(problems())
def test_equals_the_loops(problem: dict[str, Any]) -> None:
    expected = by_loops(problem)
    precision, recall, coarse = expected.values()
    assume(min(abs(precision), abs(recall)) > 1e-9)  # there the last bit decides the sign
    result = score_problem(problem)
    assert [result.precision, result.recall, result.coarse] == pytest.approx([precision, recall, coarse], abs=1e-12)
    if precision * recall < 0:
        assert (result.status, result.f1, result.score, qa_score(result)) == ("negative_match", None, None, None)
        return
    f1 = 2 / (1 / precision + 1 / recall)
    assert result.status == "ok"
    assert result.f1 == pytest.approx(f1, abs=1e-12)
    assert result.score == pytest.approx((coarse + f1) / 2, abs=1e-12)
    assert min(precision, recall) - 1e-12 <= f1 <= max(precision, recall) + 1e-12
    assert qa_score(result) == pytest.approx((coarse + f1) / 2 * math.log1p(len(problem["keywords"])), abs=1e-12)


@given(st.lists(problems(), min_size=1, max_size=4))
def test_many_texts_of_one_video_score_as_each_alone(texts: list[dict[str, Any]]) -> None:
    """Bit for bit, in whatever company and order: there is no padding and no state."""
    first = texts[0]
    dim = len(first["text"])
    batch = [text for text in texts if len(text["text"]) == dim]
    video = prepare_frames(first["frames"], first["regions"])

    def together(text: dict[str, Any]) -> EVQAResult:
        return evqa_from_prepared_frames(video, text["keywords"], text["text"], keyword_weights=text["weights"])

    forwards, backwards = [together(t) for t in batch], [together(t) for t in reversed(batch)]
    alone = [score_problem({**t, "frames": first["frames"], "regions": first["regions"]}) for t in batch]
    assert forwards == alone == backwards[::-1]


@given(problems(), st.randoms(use_true_random=False))
def test_order_of_frames_and_keywords_does_not_matter(problem: dict[str, Any], shuffle: Any) -> None:
    keywords = list(zip(problem["keywords"], problem["weights"] or [1.0] * len(problem["keywords"]), strict=True))
    frames = list(problem["frames"])
    shuffle.shuffle(keywords)
    shuffle.shuffle(frames)
    shuffled = evqa_from_features(
        frames,
        [row for row, _ in keywords],
        problem["text"],
        keyword_weights=[weight for _, weight in keywords],
        regions=problem["regions"],
    )
    result = score_problem(problem)
    for name in ("precision", "recall", "coarse"):
        assert getattr(shuffled, name) == pytest.approx(getattr(result, name), abs=1e-12)


def test_a_repeated_keyword_moves_precision_and_the_count_only() -> None:
    frames, text = [[1.0, 0.0], [0.6, 0.8]], [1.0, 1.0]
    once = evqa_from_features(frames, [[0.0, 1.0], [1.0, 0.0]], text)
    twice = evqa_from_features(frames, [[0.0, 1.0], [1.0, 0.0], [1.0, 0.0]], text)
    assert (once.recall, once.coarse) == (twice.recall, twice.coarse)
    assert once.precision == pytest.approx((0.8 + 1.0) / 2)
    assert twice.precision == pytest.approx((0.8 + 1.0 + 1.0) / 3)
    assert (once.n_keywords, twice.n_keywords) == (2, 3)


def test_frames_are_normalised_before_pooling() -> None:
    """(1, 0) and (0, 1) pool to 45 degrees, however long the second one is."""
    assert evqa_from_features([[1, 0], [0, 1000]], [[1, 0]], [1, 1]).coarse == pytest.approx(1.0)


def test_regions_replace_the_frames_in_the_fine_part_only() -> None:
    result = evqa_from_features([[1, 0]], [[0, 1]], [1, 0], regions=[[0, 1], [1, 0]])
    assert (result.precision, result.recall, result.coarse) == (1.0, 0.5, 1.0)
    without = evqa_from_features([[1, 0]], [[0, 1]], [1, 0], regions=[])
    assert without == evqa_from_features([[1, 0]], [[0, 1]], [1, 0])


@pytest.mark.parametrize("scale", [1e-300, 1e-30, 1e30, 1e300])
def test_scale_of_raw_features_does_not_matter(scale: float) -> None:
    rng = np.random.default_rng(5)
    frames, keywords, text = rng.normal(1, 1, (4, 8)), rng.normal(1, 1, (3, 8)), rng.normal(1, 1, 8)
    expected = evqa_from_features(frames, keywords, text).score
    assert evqa_from_features(frames * scale, keywords, text * scale).score == pytest.approx(expected, abs=1e-12)


HEPTAGON = [[math.cos(i * math.tau / 7), math.sin(i * math.tau / 7)] for i in range(7)]  # sums to 0 but for rounding
GOOD = {"frames": [[1.0, 0.0], [0.0, 1.0]], "keywords": [[1.0, 1.0]], "text": [1.0, 0.0]}


@pytest.mark.parametrize(
    ("changed", "status", "given_numbers"),
    [
        ({"frames": []}, "no_frames", set()),
        ({"frames": np.empty((0, 2))}, "no_frames", set()),
        ({"frames": [], "keywords": []}, "no_frames", set()),
        ({"keywords": []}, "no_keywords", {"coarse"}),
        ({"frames": [[1.0, 0.0], [0.0, 0.0]]}, "bad_feature", set()),
        ({"frames": [[1.0, float("nan")]]}, "bad_feature", set()),
        ({"frames": [[1.0, 2.0], [-2.0, -4.0]]}, "bad_feature", set()),
        ({"frames": HEPTAGON}, "bad_feature", set()),
        ({"regions": [[0.0, 0.0]]}, "bad_feature", set()),
        ({"keywords": [[1.0, 0.0], [float("inf"), 0.0]]}, "bad_feature", set()),
        ({"text": [0.0, 0.0]}, "bad_feature", set()),
        ({"text": [float("nan"), 1.0]}, "bad_feature", set()),
        ({"keyword_weights": [0.0]}, "zero_weights", {"recall", "coarse"}),
        (
            {"keywords": [[1.0, -0.1]], "frames": [[1.0, 0.0], [-1.0, 0.1], [-1.0, 0.0]]},
            "negative_match",
            {"precision", "recall", "coarse"},
        ),
    ],
)
def test_what_cannot_be_scored_has_a_status_and_no_number(
    changed: dict[str, Any], status: str, given_numbers: set[str]
) -> None:
    result = evqa_from_features(**{**GOOD, **changed})
    numbers = {name for name in ("precision", "recall", "f1", "coarse", "score") if getattr(result, name) is not None}
    assert (result.status, numbers) == (status, given_numbers)
    assert result.reason
    assert qa_score(result) is None
    if status != "negative_match":
        assert result.raw_score is None


def test_the_reason_names_the_bad_row() -> None:
    result = evqa_from_features([[1.0, 0.0]], [[1.0, 0.0], [0.0, 0.0]], [1.0, 0.0])
    assert result.reason == "row 1 of the keyword features is zero or not finite: check the encoder's output"


def test_zero_precision_or_recall_is_a_score() -> None:
    """Keyword and one frame agree, keyword and the other are opposed: P = 1, R = (1 - 1) / 2 = 0, F = 0."""
    result = evqa_from_features([[1, 0], [-1, 0], [0, 1]], [[1, 0]], [0, 1])
    assert (result.status, result.precision, result.recall, result.f1, result.score) == ("ok", 1.0, 0.0, 0.0, 0.5)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"frames": [1.0, 0.0]}, "frames have shape"),
        ({"frames": np.empty((3, 0))}, "frames have shape"),
        ({"keywords": [1.0, 0.0]}, "keywords have shape"),
        ({"keywords": [[1.0, 0.0, 0.0]]}, "keywords features have 3 dimensions, the frames 2"),
        ({"text": [1.0]}, "text features have 1 dimensions, the frames 2"),
        ({"text": [[1.0, 0.0]]}, "text has shape"),
        ({"text": []}, "text has shape"),
        ({"regions": [[1.0]]}, "frames have 2 dimensions, regions 1"),
        ({"keyword_weights": [1.0, 1.0]}, "one weight per keyword, 1 in all"),
        ({"keyword_weights": [-1.0]}, "negative, NaN or infinite"),
        ({"keyword_weights": [float("nan")]}, "negative, NaN or infinite"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        evqa_from_features(**{**GOOD, **changed})


def test_scale_of_the_weights_does_not_matter() -> None:
    rng = np.random.default_rng(2)
    frames, keywords, weights = rng.normal(1, 1, (4, 8)), rng.normal(1, 1, (3, 8)), np.array([1.0, 2.0, 0.0])
    plain = evqa_from_features(frames, keywords, frames[0], keyword_weights=weights)
    for scale in (5e-324, 8e307):  # their products underflow, their sum overflows
        scaled = evqa_from_features(frames, keywords, frames[0], keyword_weights=weights * scale)
        assert scaled.score == pytest.approx(plain.score, abs=1e-12)


def test_identical_features_never_score_above_one() -> None:
    for seed in range(30):
        vector = np.random.default_rng(seed).normal(size=(1, 33)).astype(np.float32)
        result = evqa_from_features(vector, vector, vector[0])
        assert result.score == pytest.approx(1.0)
        assert max(result.precision or 0, result.recall or 0, result.coarse or 0) <= 1.0


def test_input_is_left_as_it_was() -> None:
    arrays = [np.random.default_rng(3).normal(size=shape) for shape in ((4, 5), (3, 5), (5,), (2, 5))]
    before = [array.copy() for array in arrays]
    evqa_from_features(arrays[0], arrays[1], arrays[2], keyword_weights=np.ones(3), regions=arrays[3])
    assert all(np.array_equal(array, copy) for array, copy in zip(arrays, before, strict=True))


def test_result_holds_plain_python_values() -> None:
    result = evqa_from_features(np.eye(3, dtype=np.float32), np.eye(3, dtype=np.float32)[:2], np.ones(3))
    assert all(type(value) in (float, int, str, type(None)) for value in asdict(result).values())
    assert all(type(getattr(result, f.name)) is float for f in fields(result) if f.type == "float | None")
