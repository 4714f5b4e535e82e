"""Questions written by rule."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrics_core.models.sentence_splitter import RuleSplitter
from metrics_core.qeva.offline.rules import (
    CATEGORIES,
    RuleSummaryExaminer,
    RuleVideoExaminer,
    draw_by_category,
    draw_spread,
    list_categories,
    split_clauses,
    split_statements,
)
from metrics_core.qeva.records import VideoAsFrames, VideoNotes

SPLITTER = RuleSplitter()


def notes(n_facts: int, n_events: int = 4) -> VideoNotes:
    facts = tuple(f"Fact number {i} holds." for i in range(n_facts))
    return VideoNotes(tuple(f"event {i} happens" for i in range(n_events)), facts, "keypoints")


def test_a_coverage_question_asks_for_its_fact() -> None:
    (made,) = RuleVideoExaminer().compose_coverage_questions([VideoNotes((), ("A dog runs.",), "keypoints")])
    (question,) = made.questions
    assert (question.dimension, question.kind, question.answer) == ("coverage", "yes_no", "yes")
    assert question.statements == ("A dog runs.",)
    assert "A dog runs." in question.text
    assert (made.status, made.n_requested) == ("ok", 10)


def test_coverage_questions_are_one_from_each_stretch_of_the_facts() -> None:
    (made,) = RuleVideoExaminer(n=5).compose_coverage_questions([notes(20)])
    drawn = [int(question.statements[0].split()[2]) for question in made.questions]
    assert [number // 4 for number in drawn] == [0, 1, 2, 3, 4]


def test_the_same_notes_give_the_same_questions_and_another_seed_others() -> None:
    first, again, other = (
        RuleVideoExaminer(n=5, seed=seed).compose_coverage_questions([notes(60)]) for seed in (1, 1, 2)
    )
    assert first == again != other


def test_facts_that_repeat_or_say_too_little_are_not_asked_for() -> None:
    (made,) = RuleVideoExaminer().compose_coverage_questions(
        [VideoNotes((), ("A dog runs.", "Wow.", "a dog runs"), "keypoints")]
    )
    assert [question.statements for question in made.questions] == [("A dog runs.",)]
    assert made.n_malformed == 2


def test_a_video_without_usable_facts_gives_an_empty_set_with_a_reason() -> None:
    (made,) = RuleVideoExaminer().compose_coverage_questions([VideoNotes((), ("Wow.",), "keypoints")])
    assert (made.questions, made.status) == ((), "ok")
    assert made.reason is not None


def test_frames_are_no_ground_for_rules() -> None:
    examiner = RuleVideoExaminer()
    for made in (
        *examiner.compose_coverage_questions([VideoAsFrames((), {})]),
        *examiner.compose_chronology_questions([VideoAsFrames((), {})]),
    ):
        assert (made.status, made.questions) == ("refused", ())
        assert "video model" in (made.reason or "")


def test_chronology_questions_name_events_of_the_notes() -> None:
    (made,) = RuleVideoExaminer(n=10).compose_chronology_questions([notes(0, 5)])
    assert len(made.questions) == 10
    assert {question.dimension for question in made.questions} == {"chronology"}
    assert {text for question in made.questions for text in question.statements} <= set(notes(0, 5).events)


def test_a_summary_is_asked_for_its_statements_with_their_categories() -> None:
    (made,) = RuleSummaryExaminer(SPLITTER).compose_factuality_questions(["Two red cars stop. He is happy."])
    assert [question.statements[0] for question in made.questions] == ["Two red cars stop.", "He is happy."]
    assert made.questions[1].category == "emotion"
    assert {question.answer for question in made.questions} == {"yes"}


def test_an_empty_summary_gives_no_factuality_question() -> None:
    for summary in ("", " ... ", "Wow!"):
        (made,) = RuleSummaryExaminer(SPLITTER).compose_factuality_questions([summary])
        assert made.questions == ()
        assert made.reason is not None


def test_sentences_that_say_several_things_are_split_at_clauses() -> None:
    text = "A man enters a room and the dog barks at him. Rock and roll is played while she is cooking dinner."
    assert split_statements(text, SPLITTER) == [
        "A man enters a room.",
        "The dog barks at him.",
        "Rock and roll is played.",
        "She is cooking dinner.",
    ]


@pytest.mark.parametrize(
    "sentence",
    [
        "The tall man with a hat and the old woman are dancing.",
        "He takes the ball and leaves the field.",
        "They sing and the end comes.",
        "A man and a dog.",
    ],
)
def test_lists_and_shared_subjects_are_not_split(sentence: str) -> None:
    assert split_clauses(sentence) == [sentence]


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("The ring turns red.", "colours"),
        ("It bounces 3 times.", "counting"),
        ("It bounces twice.", "counting"),
        ("A cup is in the top left corner.", "spatial"),
        ("She smiles at him.", "emotion"),
        ("Finally it stops.", "temporal"),
        ("The setting is a kitchen.", "scene"),
        ("The tower is tall.", "attributes"),
        ("We are in Bangkok now.", "entities"),
        ("He is jumping.", "actions"),
    ],
)
def test_words_tell_the_category(statement: str, expected: str) -> None:
    assert expected in list_categories(statement)


def test_a_statement_of_no_category_is_factual() -> None:
    assert list_categories("This might be it.") == ("factual",)


@given(st.integers(0, 60), st.integers(1, 12), st.integers(0, 5))
def test_spread_draws_different_items_in_order(n_items: int, n: int, seed: int) -> None:
    drawn = draw_spread(n_items, n, Random(seed))
    assert len(drawn) == min(n_items, n)
    assert drawn == sorted(set(drawn))
    assert all(0 <= place < n_items for place in drawn)


@given(st.lists(st.lists(st.sampled_from(CATEGORIES), min_size=1, unique=True), max_size=20), st.integers(1, 12))
def test_every_category_is_asked_before_one_is_asked_twice(of_statement: list[list[str]], n: int) -> None:
    drawn = draw_by_category(of_statement, n, Random(0))
    assert len(drawn) == min(n, len(of_statement))
    assert all(name in of_statement[place] for place, name in drawn.items())


def test_the_rarest_category_chooses_first() -> None:
    """Only the second statement speaks of colours, so it must not be spent on actions."""
    for seed in range(20):
        drawn = draw_by_category([("actions",), ("actions", "colours"), ("actions",)], 2, Random(seed))
        assert drawn[1] == "colours"
        assert sorted(drawn.values()) == ["actions", "colours"]
