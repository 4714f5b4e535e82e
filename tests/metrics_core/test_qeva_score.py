"""The score: the oracles of the specification, failed answers, empty summaries, and that nothing undefined is 0."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrics_core.arithmetic import wilson_interval
from metrics_core.qeva.by_chat.model_calls import (
    ModelCalls,
    count_answer_calls,
    count_factuality_calls,
    count_video_calls,
    sum_calls,
)
from metrics_core.qeva.filtering import AnswerOutcome, FilterMark
from metrics_core.qeva.records import Decision, Dimension, Question, QuestionSet
from metrics_core.qeva.score import (
    DimensionScore,
    QevaScore,
    compute_dimension_score,
    compute_empty_summary_score,
    compute_summary_score,
    is_empty_summary,
)

Z = 1.959963984540054


def questions_of(dimension: Dimension, n: int) -> QuestionSet:
    return QuestionSet(dimension, tuple(Question(dimension, "open", f"{i}?", "x") for i in range(n)), n_requested=10)


def marked(**counts: int) -> list[FilterMark]:
    decisions: list[Decision] = [decision for decision, n in counts.items() for _ in range(n)]  # type: ignore[misc]
    return [FilterMark(("wrong",), None, decision) for decision in decisions]


def scored(
    dimension: Dimension,
    marks: Sequence[FilterMark],
    correct: int = 0,
    wrong: int = 0,
    abstain: int = 0,
    error: int = 0,
    on_error: Literal["exclude", "wrong"] = "exclude",
) -> DimensionScore:
    outcomes: list[AnswerOutcome] = ["correct"] * correct
    outcomes += ["wrong"] * wrong
    outcomes += ["abstain"] * abstain
    outcomes += ["error"] * error
    return compute_dimension_score(questions_of(dimension, len(marks)), marks, outcomes, on_error)


COVERAGE = scored("coverage", marked(trivial=4, low_quality=1, keep=5), correct=3, wrong=1, abstain=1)
FACTUALITY = scored("factuality", marked(keep=8, trivial=2), correct=6, wrong=2)


def test_the_three_dimensions_and_their_mean() -> None:
    chronology = scored("chronology", marked(keep=4, low_quality=6), correct=1, wrong=3)
    score = QevaScore(COVERAGE, FACTUALITY, chronology)
    assert [one.value for one in score.dimensions] == [0.6, 0.75, 0.25]
    assert score.value == pytest.approx(0.533333, abs=1e-6)
    assert (score.partial_mean, score.reason) == (score.value, None)
    assert (COVERAGE.n_generated, COVERAGE.n_trivial, COVERAGE.n_low_quality, COVERAGE.n_kept) == (10, 4, 1, 5)
    assert (COVERAGE.n_scored, COVERAGE.n_correct, COVERAGE.n_abstain) == (5, 3, 1)


def test_a_dimension_without_questions_leaves_qeva_undefined() -> None:
    chronology = scored("chronology", marked(trivial=9, error=1))
    score = QevaScore(COVERAGE, FACTUALITY, chronology)
    assert (chronology.value, chronology.low, chronology.high, chronology.status) == (None, None, None, "no_question")
    assert score.value is None
    assert score.partial_mean == pytest.approx(0.675)
    assert score.reason == (
        "chronology: filtering kept none of 10 questions: 9 trivial, 0 of low quality, 1 set aside by errors"
    )


def test_a_set_that_is_empty_or_failed_says_why() -> None:
    empty = QuestionSet("chronology", reason="the video has fewer than two events that differ")
    assert compute_dimension_score(empty, [], []).status == "no_question"
    assert compute_dimension_score(empty, [], []).reason == "the video has fewer than two events that differ"
    refused = QuestionSet("coverage", status="refused", reason="the model declined")
    score = compute_dimension_score(refused, [], [])
    assert (score.value, score.status, score.reason) == (None, "generation_failed", "the model declined")


def test_failed_answers_are_left_out_or_wrong() -> None:
    marks = marked(keep=10)
    left_out = scored("coverage", marks, correct=4, wrong=4, error=2)
    counted_wrong = scored("coverage", marks, correct=4, wrong=4, error=2, on_error="wrong")
    assert (left_out.value, left_out.n_scored, left_out.n_answer_error) == (0.5, 8, 2)
    assert (counted_wrong.value, counted_wrong.n_scored, counted_wrong.n_answer_error) == (0.4, 10, 2)


@pytest.mark.parametrize("on_error", ["exclude", "wrong"])
@pytest.mark.parametrize(("correct", "error"), [(7, 3), (0, 10), (9, 3)])
def test_too_many_failed_answers_are_no_score(correct: int, error: int, on_error: Literal["exclude", "wrong"]) -> None:
    score = scored("coverage", marked(keep=correct + error), correct=correct, error=error, on_error=on_error)
    assert (score.value, score.status, score.n_correct) == (None, "too_many_errors", correct)
    assert score.reason == f"{error} of {correct + error} answers failed, more than 20%"


@pytest.mark.parametrize(("n_correct", "n"), [(0, 1), (1, 1), (5, 5), (3, 8), (0, 10), (7, 10)])
def test_intervals_are_wilsons(n_correct: int, n: int) -> None:
    share = n_correct / n
    centre = (share + Z**2 / (2 * n)) / (1 + Z**2 / n)
    half = Z / (1 + Z**2 / n) * math.sqrt(share * (1 - share) / n + Z**2 / (4 * n**2))
    assert wilson_interval(n_correct, n) == pytest.approx((centre - half, centre + half), abs=1e-9)


@given(
    st.lists(st.sampled_from(["keep", "trivial", "low_quality", "error"]), max_size=10),
    st.lists(st.sampled_from(["correct", "wrong", "abstain", "error"]), min_size=10, max_size=10),
    st.sampled_from(["exclude", "wrong"]),
)
def test_a_score_is_a_share_or_none_with_a_reason(
    decisions: list[Decision], outcomes: list[AnswerOutcome], on_error: Literal["exclude", "wrong"]
) -> None:
    marks = [FilterMark(("wrong",), None, decision) for decision in decisions]
    given_outcomes = outcomes[: decisions.count("keep")]
    score = compute_dimension_score(questions_of("coverage", len(marks)), marks, given_outcomes, on_error)
    assert score.n_generated == score.n_trivial + score.n_low_quality + score.n_filter_error + score.n_kept
    if score.value is None:
        assert score.reason
        assert score.status != "ok"
        assert (score.low, score.high, score.n_scored) == (None, None, 0)
    else:
        assert score.low is not None
        assert score.high is not None
        assert 0 <= score.low <= score.value <= score.high <= 1
        assert score.value * score.n_scored == pytest.approx(given_outcomes.count("correct"))
        assert (score.status, score.reason) == ("ok", None)


@pytest.mark.parametrize("n_kept", [1, 2])
def test_one_unanswered_question_is_no_0(n_kept: int) -> None:
    score = scored("factuality", marked(keep=n_kept, trivial=1), abstain=n_kept)
    assert (score.value, score.status, score.low) == (None, "few_questions", None)
    assert (
        score.reason
        == f"filtering kept {n_kept} of {n_kept + 1} questions, and a score needs 3: write a summary that states more"
    )
    assert scored("factuality", marked(keep=3), abstain=3).value == 0.0


def scored_as(chronology: DimensionScore) -> dict[Dimension, DimensionScore]:
    return {"coverage": COVERAGE, "factuality": FACTUALITY, "chronology": chronology}


def test_the_order_of_one_event_is_undefined_and_so_is_the_total() -> None:
    untold = scored("chronology", marked(keep=9), abstain=9)
    score = compute_summary_score(scored_as(untold), n_sentences=1)
    assert (score.chronology.value, score.chronology.status, score.value) == (None, "one_event", None)
    assert score.partial_mean == pytest.approx((0.6 + 0.75) / 2)
    assert score.reason == (
        "chronology: the summary is a single sentence that gives no order: write two sentences or more"
    )
    # Two sentences could have told an order, and one sentence that gives an order has told it.
    assert compute_summary_score(scored_as(untold), n_sentences=2).chronology.value == 0.0
    told = scored("chronology", marked(keep=9), abstain=8, wrong=1)
    assert compute_summary_score(scored_as(told), n_sentences=1).chronology.value == 0.0
    few = scored("chronology", marked(keep=2), abstain=2)
    assert compute_summary_score(scored_as(few), n_sentences=1).chronology.status == "few_questions"


def test_an_empty_summary_answers_nothing_and_states_nothing() -> None:
    coverage = (questions_of("coverage", 4), marked(keep=3, trivial=1))
    chronology = (questions_of("chronology", 1), marked(trivial=1))
    both_kept = compute_empty_summary_score(coverage, (questions_of("chronology", 3), marked(keep=3)))
    assert [one.value for one in both_kept.dimensions] == [0.0, None, 0.0]
    assert (both_kept.value, both_kept.partial_mean) == (None, 0.0)
    assert both_kept.coverage.n_abstain == 3
    assert both_kept.reason == "factuality: the summary is empty"
    assert [one.value for one in compute_empty_summary_score(coverage, chronology).dimensions] == [0.0, None, None]
    assert compute_empty_summary_score((coverage[0], marked(trivial=4)), chronology).partial_mean is None


@pytest.mark.parametrize(
    ("summary", "empty"), [("", True), (" \n-…", True), ("A.", False), ("7", False), ("犬", False)]
)
def test_empty_summaries(summary: str, empty: bool) -> None:
    assert is_empty_summary(summary) == empty


def test_marks_and_outcomes_must_fit() -> None:
    with pytest.raises(ValueError, match="The number of marks is 1, that of questions 2"):
        compute_dimension_score(questions_of("coverage", 2), marked(keep=1), [])
    with pytest.raises(ValueError, match="The number of outcomes is 0, that of kept questions 1"):
        compute_dimension_score(questions_of("coverage", 1), marked(keep=1), [])
    with pytest.raises(ValueError, match="on_error"):
        compute_dimension_score(questions_of("coverage", 0), [], [], "ignore")  # type: ignore[arg-type]


def test_the_calls_of_the_papers_benchmark() -> None:
    def count(n: int, votes: int) -> tuple[ModelCalls, ModelCalls]:
        """The calls for a video and for a summary."""
        of_summary = sum_calls(count_factuality_calls(n, votes)) + sum_calls(count_answer_calls(n, n, is_open=True))
        return sum_calls(count_video_calls(n, votes, is_open=True)), of_summary

    video, summary = count(10, votes=1)
    assert (video, summary) == (ModelCalls(32, 40), ModelCalls(10, 51))
    assert video.multiply(200) + summary.multiply(200 * 4) == ModelCalls(14_400, 48_800)
    assert count(5, votes=3)[0] == ModelCalls(3 * 5 + 2, 2 * 5 * 3 + 5 * 3 + 5)
    assert count(10, votes=3)[1] == ModelCalls(10, 1 + 10 * 3 + 10 + 10 + 10 + 10)
