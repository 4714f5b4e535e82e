"""Chronology questions: keys checked against the events by reading the questions, mix, balance and pair sets."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrics_core.qeva.chronology import (
    build_chronology_questions,
    list_adjacent_pairs,
    list_distant_pairs,
    list_distinct_events,
    list_templates,
    rank_event_pairs,
)
from metrics_core.qeva.records import Question

WORDS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
EVENTS = [f"event number {word}" for word in WORDS]
event_lists = st.lists(st.sampled_from([*EVENTS, "", "Event number one.", "  "]), max_size=14)
seeds = st.integers(0, 10_000)


def true_answer(question: Question, events: list[str]) -> str:
    """The key as a reader finds it: from the words of the question and the places of its events alone."""
    place = {text: number for number, text in enumerate(events)}
    if question.kind == "choice":
        return min(question.choices, key=place.__getitem__)
    if question.kind == "order":
        listed = dict(re.findall(r"([ABC]): (event number \w+)\.", question.text))
        return "".join(sorted(listed, key=lambda letter: place[listed[letter]]))
    one, other = (place[text] for text in re.findall("“(.+?)”", question.text))
    holds = other - one == 1 if "followed at once" in question.text else one < other
    return "yes" if holds else "no"


def identity_of(question: Question) -> tuple[str, frozenset[str], frozenset[int]]:
    """What makes two questions the same, whichever event each names first."""
    return re.sub("“.+?”|[ABC]: .+", "", question.text), frozenset(question.choices), frozenset(question.events)


@given(st.integers(2, 12), st.integers(1, 14), seeds)
def test_keys_are_true_and_events_are_named_as_stated(n_events: int, n: int, seed: int) -> None:
    events = EVENTS[:n_events]
    for question in build_chronology_questions(events, n, seed).questions:
        assert question.answer == true_answer(question, events)
        assert question.answer in question.choices
        assert question.statements == tuple(events[number] for number in question.events)
        shown = " ".join((question.text, *question.choices))
        places = [re.search(rf"{text}\b", shown) for text in question.statements]
        assert all(places)
        assert [found.start() for found in places if found] == sorted(found.start() for found in places if found)


@given(event_lists, st.integers(1, 14), seeds)
def test_any_list_of_events_gives_at_most_n_different_questions_of_distinct_events(
    events: list[str], n: int, seed: int
) -> None:
    made = build_chronology_questions(events, n, seed)
    numbers = list_distinct_events(events)
    assert len(made.questions) <= n
    assert len({identity_of(question) for question in made.questions}) == len(made.questions)
    assert {number for question in made.questions for number in question.events} <= set(numbers)
    assert made.n_malformed == len(events) - len(numbers)
    assert (made.reason is None) == (len(numbers) >= 2) == bool(made.questions)


@given(st.integers(2, 12), st.integers(1, 14), seeds)
def test_keys_are_balanced(n_events: int, n: int, seed: int) -> None:
    questions = build_chronology_questions(EVENTS[:n_events], n, seed).questions
    answers = Counter((q.kind, q.answer if q.kind != "choice" else str(q.choices.index(q.answer))) for q in questions)
    assert abs(answers["yes_no", "yes"] - answers["yes_no", "no"]) <= 1
    assert abs(answers["choice", "0"] - answers["choice", "1"]) <= 1
    orders = [q.answer for q in questions if q.kind == "order"]
    assert not orders or set(orders) != {"ABC"}
    assert max(Counter(orders).values(), default=0) <= -(-len(orders) // 6)


@given(st.integers(5, 12), seeds)
def test_ten_questions_have_the_mix(n_events: int, seed: int) -> None:
    questions = build_chronology_questions(EVENTS[:n_events], 10, seed).questions
    assert Counter(question.kind for question in questions) == {"yes_no": 3, "choice": 4, "order": 3}


@given(st.lists(st.sampled_from(EVENTS), max_size=12), seeds)
def test_directly_after_is_asked_of_neighbours_in_the_full_list_only(events: list[str], seed: int) -> None:
    for question in build_chronology_questions(events, 12, seed).questions:
        if "followed at once" in question.text:
            assert abs(question.events[0] - question.events[1]) == 1


@given(st.integers(7, 12), seeds)
def test_pairs_are_adjacent_and_distant_and_none_is_asked_twice_while_others_are_left(n_events: int, seed: int) -> None:
    questions = build_chronology_questions(EVENTS[:n_events], 10, seed).questions
    pairs = [tuple(sorted(question.events)) for question in questions if question.kind != "order"]
    assert len(set(pairs)) == 7
    assert 0 < sum(j - i == 1 for i, j in pairs) < 7
    for question in questions:
        if question.kind == "order":
            assert all(j - i >= 2 for i, j in pairwise(sorted(question.events)))


@pytest.mark.parametrize(("n_events", "adjacent", "distant"), [(0, 0, 0), (1, 0, 0), (2, 1, 0), (5, 4, 6), (9, 8, 28)])
def test_the_pair_sets_have_their_sizes(n_events: int, adjacent: int, distant: int) -> None:
    assert len(list_adjacent_pairs(range(n_events))) == adjacent
    assert len(list_distant_pairs(range(n_events))) == distant


@pytest.mark.parametrize(
    ("n_events", "kinds"), [(2, {"yes_no": 2, "choice": 1}), (3, {"yes_no": 5, "choice": 3, "order": 1})]
)
def test_few_events_give_each_question_they_can(n_events: int, kinds: dict[str, int]) -> None:
    made = build_chronology_questions(EVENTS[:n_events])
    assert Counter(question.kind for question in made.questions) == kinds
    assert made.n_requested == 10


def test_pairs_come_by_thirds_those_worded_less_alike_first_and_adjacent_ones_by_turns() -> None:
    events = ["a man cuts bread", "snow falls", "a man cuts bread rolls", "a girl sings", "rain falls", "a dog barks"]
    third = [0, 0, 1, 1, 2, 2]
    for seed in range(20):
        pairs = rank_event_pairs(dict(enumerate(events)), Random(seed))
        assert sorted(pairs) == sorted([*list_adjacent_pairs(range(6)), *list_distant_pairs(range(6))])
        distant = [pair for pair in pairs if pair[1] - pair[0] > 1]
        assert [(third[i], third[j]) for i, j in distant[:3]] == [(0, 1), (1, 2), (0, 2)]
        assert [j - i == 1 for i, j in pairs[:10]] == [False, True] * 5
        beginning_to_middle = [pair for pair in distant if pair[0] < 2 and third[pair[1]] == 1]
        assert beginning_to_middle[-1] == (0, 2)


def test_an_event_that_recurs_has_no_place_in_time() -> None:
    made = build_chronology_questions(["a", "b", "A.", "c", "c", "d"])
    assert made.n_malformed == 3
    assert {number for question in made.questions for number in question.events} == {1, 3, 5}


def test_the_seed_and_the_events_decide() -> None:
    assert build_chronology_questions(EVENTS, 10, 3) == build_chronology_questions(EVENTS, 10, 3)
    assert build_chronology_questions(EVENTS, 10, 3) != build_chronology_questions(EVENTS, 10, 4)


@given(st.integers(1, 60))
def test_the_schedule_has_n_entries(n: int) -> None:
    assert len(list_templates(n)) == n


def test_less_than_one_question_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        build_chronology_questions(EVENTS, 0)
