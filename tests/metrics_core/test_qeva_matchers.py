"""Matchers of open answers against hand-computed cases."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrics_core.ecs.verifier import make_offline_verifier
from metrics_core.qeva.offline.answerers import (
    REFERENCE_TOO_LONG,
    CosineMatcher,
    EntailmentMatcher,
    TokenF1Matcher,
    token_f1,
)
from metrics_core.qeva.records import AnswerJudgement, AnswerMatcher, Question, Reply
from tests.metrics_core.qeva_small_models import KnownPairs, KnownVectors, ShortPairs

TEXTS = st.text(alphabet="ab .Ä", max_size=12)


def answered(*answers: str, key: str = "a red car") -> list[tuple[Question, Reply]]:
    question = Question("coverage", "open", "What passes?", key)
    return [(question, Reply("ok", answer, answer)) for answer in answers]


def verdicts(matcher: AnswerMatcher, pairs: list[tuple[Question, Reply]]) -> list[bool | None]:
    judgements = matcher.judge_answers(pairs)
    assert all(judgement == AnswerJudgement(judgement.correct) for judgement in judgements)
    return [judgement.correct for judgement in judgements]


@pytest.mark.parametrize(
    ("given", "reference", "expected"),
    [
        ("a red car", "A red car!", 1.0),
        ("red", "a red car", 2 / 4),
        ("red red red", "red car", 2 * 1 / 5),  # a word counts as often as both have it
        ("a blue bus", "it was green", 0.0),
        ("", "", 0.0),
        ("...", "9", 0.0),
    ],
)
def test_token_f1_by_hand(given: str, reference: str, expected: float) -> None:
    assert token_f1(given, reference) == pytest.approx(expected)


@given(TEXTS, TEXTS)
def test_token_f1_is_a_symmetric_share(one: str, other: str) -> None:
    assert 0 <= token_f1(one, other) == token_f1(other, one) <= 1


def test_words_in_common_decide_from_the_threshold_on() -> None:
    pairs = answered("a red car", "red", "a bus")
    assert verdicts(TokenF1Matcher(0.5), pairs) == [True, True, False]
    assert verdicts(TokenF1Matcher(0.6), pairs) == [True, False, False]


def test_the_answer_is_the_premise_and_the_reference_the_hypothesis() -> None:
    model = KnownPairs({("a crimson car", "a red car"): 0.5, ("a red car", "a vehicle"): 1.0})
    assert verdicts(EntailmentMatcher(model, 0.5), answered("a crimson car", "a vehicle")) == [True, False]
    assert model.batches == [[("a crimson car", "a red car"), ("a vehicle", "a red car")]]


def test_the_reference_s_own_words_are_right_without_the_model() -> None:
    model = KnownPairs({})
    matcher = EntailmentMatcher(model, 0.5)
    assert matcher.compute_probabilities(answered("A red  car.")) == [1.0]
    assert matcher.judge_answers([]) == []
    assert model.batches == []


def test_a_reference_too_long_for_the_model_is_refused_and_the_others_are_judged() -> None:
    model = ShortPairs({("a crimson car", "a red car"): 0.5}, most_words=3)
    long = ["a red car on the road", "a red car on the hill"]
    pairs = answered("a crimson car") + [pair for key in long for pair in answered("a car", key, key=key)]
    refused, right = AnswerJudgement(None, "refused", REFERENCE_TOO_LONG), AnswerJudgement(True)
    assert EntailmentMatcher(model, 0.5).judge_answers(pairs) == [right, refused, right, refused, right]
    assert model.batches == [[("a crimson car", "a red car")]]


def test_the_default_verifier_refuses_a_reference_of_a_thousand_words() -> None:
    key = " ".join(f"word{i}" for i in range(1000))
    matcher = EntailmentMatcher(make_offline_verifier(), 0.5)
    assert matcher.judge_answers(answered("a car", key=key)) == [AnswerJudgement(None, "refused", REFERENCE_TOO_LONG)]


def test_cosines_decide_from_the_threshold_on() -> None:
    encoder = KnownVectors({"a red car": 0.0, "a crimson car": 30.0, "a bus": 90.0})
    matcher = CosineMatcher(encoder, 0.8)
    assert matcher.compute_cosines(answered("a crimson car", "a bus")) == pytest.approx(
        [np.cos(np.pi / 6), 0.0], abs=1e-6
    )
    assert verdicts(matcher, answered("a crimson car", "a bus")) == [True, False]


def test_a_reply_without_an_answer_cannot_be_matched() -> None:
    question = Question("coverage", "open", "What passes?", "a red car")
    with pytest.raises(ValueError, match="abstain"):
        TokenF1Matcher().judge_answers([(question, Reply("abstain"))])


def test_the_threshold_is_part_of_every_identity() -> None:
    for low, high in (
        (TokenF1Matcher(0.4), TokenF1Matcher(0.6)),
        (CosineMatcher(KnownVectors({}), 0.4), CosineMatcher(KnownVectors({}), 0.6)),
        (EntailmentMatcher(KnownPairs({}), 0.4), EntailmentMatcher(KnownPairs({}), 0.6)),
    ):
        assert low.identity.as_dict() != high.identity.as_dict()
