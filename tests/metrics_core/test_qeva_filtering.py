"""Filtering: the decision for every outcome, who is asked in which order, and what guessing does to a set."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrics_core.protocols import ModelIdentity
from metrics_core.qeva.chronology import build_chronology_questions
from metrics_core.qeva.filtering import AnswerOutcome, FilterMark, choose_outcome, decide_question, filter_questions
from metrics_core.qeva.records import AnswerJudgement, ContextQuestion, Question, Reply

OUTCOMES: tuple[AnswerOutcome, ...] = ("correct", "wrong", "abstain", "error")
REPLIES: dict[AnswerOutcome, Reply] = {
    "correct": Reply("ok", "Yes.", "yes"),
    "wrong": Reply("ok", "No.", "no"),
    "abstain": Reply("abstain", "cannot tell", reason="the answerer cannot tell"),
    "error": Reply("error", reason="the server is gone"),
}


def yes_no(text: str) -> Question:
    return Question("factuality", "yes_no", text, "yes", ("yes", "no"))


class RuleAnswerer:
    """An Answerer that answers by a rule and keeps each batch."""

    def __init__(self, rule: Callable[[ContextQuestion], Reply]) -> None:
        self.rule = rule
        self.batches: list[list[ContextQuestion]] = []

    @property
    def identity(self) -> ModelIdentity:
        return ModelIdentity("rule", "1")

    def answer(self, asked: Sequence[ContextQuestion]) -> list[Reply]:
        self.batches.append(list(asked))
        return [self.rule(one) for one in asked]


class SameWords:
    """A Matcher for which an answer is right if it has the words of the reference; it refuses "?"."""

    @property
    def identity(self) -> ModelIdentity:
        return ModelIdentity("same words", "1")

    def judge_answers(self, answered: Sequence[tuple[Question, Reply]]) -> list[AnswerJudgement]:
        assert all(question.kind == "open" and reply.status == "ok" for question, reply in answered)
        return [
            AnswerJudgement(None, "refused", "I judge no questions.")
            if reply.normalised == "?"
            else AnswerJudgement(reply.normalised == question.answer)
            for question, reply in answered
        ]


@pytest.mark.parametrize(
    ("closed_book", "open_book", "decision"),
    [
        (("correct",), None, "trivial"),
        (("correct", "correct", "correct"), None, "trivial"),
        (("correct", "error"), None, "error"),
        (("error",), None, "error"),
        (("wrong",), "correct", "keep"),
        (("abstain",), "correct", "keep"),
        (("correct", "correct", "wrong"), "correct", "keep"),
        (("error", "wrong"), "correct", "keep"),
        (("wrong",), "wrong", "low_quality"),
        (("abstain",), "abstain", "low_quality"),
        (("wrong",), "error", "error"),
    ],
)
def test_decisions(closed_book: tuple[AnswerOutcome, ...], open_book: AnswerOutcome | None, decision: str) -> None:
    assert decide_question(closed_book, open_book) == decision


def test_undecidable_outcomes_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        decide_question([])
    with pytest.raises(ValueError, match="open-book outcome"):
        decide_question(["wrong"])


@pytest.mark.parametrize(
    ("reply", "correct", "outcome"),
    [
        ("ok", True, "correct"),
        ("ok", False, "wrong"),
        ("ok", None, "error"),
        ("abstain", False, "abstain"),
        ("malformed", None, "error"),
        ("refused", None, "error"),
        ("error", None, "error"),
    ],
)
def test_outcomes_of_stored_answers(reply: str, correct: bool | None, outcome: AnswerOutcome) -> None:
    assert choose_outcome(reply, correct) == outcome  # type: ignore[arg-type]


@given(st.lists(st.tuples(st.lists(st.sampled_from(OUTCOMES), min_size=3, max_size=3), st.sampled_from(OUTCOMES))))
def test_stages_ask_survivors_only_and_marks_are_in_order(
    plan: list[tuple[list[AnswerOutcome], AnswerOutcome]],
) -> None:
    questions = [yes_no(f"{number}?") for number in range(len(plan))]
    number_of = {question: number for number, question in enumerate(questions)}
    closed = RuleAnswerer(lambda one: REPLIES[plan[number_of[one.question]][0][one.seed]])
    opened = RuleAnswerer(lambda one: REPLIES[plan[number_of[one.question]][1]])
    marks = filter_questions(
        [(question, f"source of {question.text}") for question in questions], closed, opened, votes=3
    )
    for (votes, open_book), mark in zip(plan, marks, strict=True):
        stop = next((place + 1 for place, vote in enumerate(votes) if vote in ("wrong", "abstain")), 3)
        assert mark.closed_book == tuple(votes[:stop])
        survived = set(votes) & {"wrong", "abstain"}
        assert mark.open_book == (open_book if survived else None)
        assert mark.decision == decide_question(mark.closed_book, mark.open_book)
        assert mark.reason
    assert all(one.context is None for batch in closed.batches for one in batch)
    assert [{one.seed for one in batch} for batch in closed.batches] == [{vote} for vote in range(len(closed.batches))]
    assert len(closed.batches) <= 3
    assert len(opened.batches) <= 1
    asked_open = [one.question for batch in opened.batches for one in batch]
    assert asked_open == [question for question, mark in zip(questions, marks, strict=True) if mark.open_book]
    assert all(one.context == f"source of {one.question.text}" for batch in opened.batches for one in batch)


def test_open_questions_are_judged_by_the_matcher() -> None:
    said = {"a?": ("x", ""), "b?": ("-", "b"), "c?": ("-", "x"), "d?": ("?", ""), "e?": ("-", "?")}
    questions = [Question("coverage", "open", text, text[0]) for text in said]
    said["a?"] = ("a", "")
    closed = RuleAnswerer(lambda one: Reply("ok", *[said[one.question.text][0]] * 2))
    opened = RuleAnswerer(lambda one: Reply("ok", *[said[one.question.text][1]] * 2))
    marks = filter_questions([(question, "video") for question in questions], closed, opened, SameWords())
    assert [mark.decision for mark in marks] == ["trivial", "keep", "low_quality", "error", "error"]
    assert marks[2] == FilterMark(("wrong",), "wrong", "low_quality", "x")
    assert marks[3] == FilterMark(("error",), None, "error", "I judge no questions.", "refused")
    assert marks[4] == FilterMark(("wrong",), "error", "error", "I judge no questions.", "refused")
    with pytest.raises(ValueError, match="matcher"):
        filter_questions([(questions[0], "video")], closed, opened)


def test_the_reason_of_an_error_is_the_error_even_when_a_later_vote_is_right() -> None:
    closed = RuleAnswerer(lambda one: REPLIES["correct" if one.seed else "error"])
    mark = filter_questions([(yes_no("?"), "text")], closed, closed, votes=2)[0]
    assert mark == FilterMark(("error", "correct"), None, "error", "the server is gone", "error")


def test_no_question_asks_nobody() -> None:
    answerer = RuleAnswerer(lambda one: REPLIES["correct"])
    assert filter_questions([], answerer, answerer, votes=2) == []
    assert answerer.batches == []
    with pytest.raises(ValueError, match="not 0"):
        filter_questions([], answerer, answerer, votes=0)


def kept_by_guessing(questions: Sequence[Question]) -> float:
    """How many questions a single vote of a uniform guesser keeps on average, by asking for every possible guess."""
    kept = 0.0
    for question in questions:
        guesses = [
            filter_questions([(question, "text")], guesser(choice), reader, votes=1) for choice in question.choices
        ]
        kept += sum(marks[0].decision == "keep" for marks in guesses) / len(guesses)
    return kept


def guesser(choice: str) -> RuleAnswerer:
    return RuleAnswerer(lambda one: Reply("ok", choice, choice))


reader = RuleAnswerer(lambda one: Reply("ok", one.question.answer, one.question.answer))


def test_a_guesser_removes_as_many_questions_as_computed_by_hand() -> None:
    mix = build_chronology_questions([f"event {number}" for number in range(8)], 10).questions
    four_way = [replace(yes_no(f"{i}?"), kind="choice", answer="b", choices=("a", "b", "c", "d")) for i in range(10)]
    assert kept_by_guessing(mix) == pytest.approx(6.0)
    assert kept_by_guessing(four_way) == pytest.approx(7.5)
    assert kept_by_guessing([yes_no(f"{i}?") for i in range(10)]) == pytest.approx(5.0)


def test_two_votes_of_a_guesser_remove_a_quarter_of_two_way_questions() -> None:
    decisions = []
    for votes in product(("yes", "no"), repeat=2):
        closed = RuleAnswerer(lambda one, votes=votes: Reply("ok", votes[one.seed], votes[one.seed]))
        decisions.append(filter_questions([(yes_no("?"), "text")], closed, reader, votes=2)[0].decision)
    assert sorted(decisions) == ["keep", "keep", "keep", "trivial"]
