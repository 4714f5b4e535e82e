"""Build chronology questions from an ordered list of events, without a model (paper 3.2; spec 3.3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations, cycle, groupby, permutations, zip_longest
from random import Random
from typing import Literal, TypeAlias, TypeVar

from metrics_core.qeva.records import NO, YES, Question, QuestionKind, QuestionSet
from metrics_core.qeva.replies import clean_reply_text

EventPair: TypeAlias = tuple[int, int]
EventTriplet: TypeAlias = tuple[int, int, int]
Item = TypeVar("Item")
# Triplets are drawn from so many events at most: their number grows with the cube of the events.
MAX_TRIPLET_EVENTS = 16


def list_distinct_events(events: Sequence[str]) -> list[int]:
    """Return the numbers, from 0, of the events that a question can name, in order. Such an event has words, and occurs
    only once in the list. Equal events in a row count as one, by the number of the first.

    >>> list_distinct_events(["a", "A.", "b", "c", "b", ""])
    [0, 3]
    """
    numbered = enumerate(map(clean_reply_text, events))
    runs = [(text, next(run)[0]) for text, run in groupby(numbered, key=lambda event: event[1])]
    texts = [text for text, _ in runs]
    return [number for text, number in runs if any(map(str.isalnum, text)) and texts.count(text) == 1]


def list_adjacent_pairs(numbers: Sequence[int]) -> list[EventPair]:
    """Return the pairs (i, i + 1) of event numbers that follow each other directly, in order. numbers: in ascending
    order.

    >>> list_adjacent_pairs(range(5)), list_adjacent_pairs([0, 1, 3])
    ([(0, 1), (1, 2), (2, 3), (3, 4)], [(0, 1)])
    """
    return [(i, j) for i, j in combinations(numbers, 2) if j - i == 1]


def list_distant_pairs(numbers: Sequence[int]) -> list[EventPair]:
    """Return the pairs of event numbers that differ by two or more, so that there is at least one event between them.
    numbers: in ascending order.

    >>> list_distant_pairs(range(4))
    [(0, 2), (0, 3), (1, 3)]
    """
    return [(i, j) for i, j in combinations(numbers, 2) if j - i >= 2]


def rank_event_pairs(texts: Mapping[int, str], rng: Random) -> list[EventPair]:
    """Return all pairs of event numbers, the best for a question first: distant and adjacent pairs in turn, then what
    remains of one kind. texts: the events by number, in order of time. `rng` decides between equals.

    Distant pairs from the beginning and the middle, the middle and the end, and the beginning and the end of the video
    take turns, before those from within a third; among them, those with less similar words come first.
    """
    numbers = list(texts)
    third = _assign_thirds(numbers)
    words = {number: frozenset(clean_reply_text(text).split()) for number, text in texts.items()}
    distant = shuffle_items(list_distant_pairs(numbers), rng)
    distant.sort(key=lambda pair: _compute_word_overlap(words[pair[0]], words[pair[1]]))
    spans = [
        [pair for pair in distant if (third[pair[0]], third[pair[1]]) == span] for span in ((0, 1), (1, 2), (0, 2))
    ]
    within = [pair for pair in distant if third[pair[0]] == third[pair[1]]]
    return _interleave_pairs([*_interleave_pairs(*spans), *within], shuffle_items(list_adjacent_pairs(numbers), rng))


def _rank_event_triplets(numbers: Sequence[int], rng: Random) -> list[EventTriplet]:
    """Return triplets of event numbers in order of time, the best for a question first. Triplets without adjacent
    events come first, and among equals those from more different thirds of the video. All events are from at most
    MAX_TRIPLET_EVENTS (16) that `rng` draws.
    """
    some = sorted(rng.sample(numbers, min(len(numbers), MAX_TRIPLET_EVENTS)))
    third = _assign_thirds(numbers)
    triplets = shuffle_items(list(combinations(some, 3)), rng)
    triplets.sort(key=lambda triplet: -len({third[number] for number in triplet}))
    triplets.sort(key=lambda triplet: triplet[1] - triplet[0] < 2 or triplet[2] - triplet[1] < 2)
    return triplets


def _assign_thirds(numbers: Sequence[int]) -> dict[int, int]:
    """Return by event number whether the event belongs to the beginning (0), middle (1) or end (2) of the list."""
    return {number: 3 * place // len(numbers) for place, number in enumerate(numbers)}


def _compute_word_overlap(words: frozenset[str], others: frozenset[str]) -> float:
    """Return the share of all words of two texts that both have, in [0, 1]. One of them must have a word."""
    return len(words & others) / len(words | others)


def _interleave_pairs(*lists: Sequence[EventPair]) -> list[EventPair]:
    """Return the pairs of all lists by turns: the first of every list, then the second of every list, until all are
    used up.
    """
    return [item for row in zip_longest(*lists) for item in row if item is not None]


def shuffle_items(items: Sequence[Item], rng: Random) -> list[Item]:
    """Return the items in an order that `rng` draws; `items` stays as it is."""
    return rng.sample(items, len(items))


QuestionTemplate = Literal["directly", "before", "first", "order"]
KIND_BY_TEMPLATE: Mapping[QuestionTemplate, QuestionKind] = {
    "directly": "yes_no",
    "before": "yes_no",
    "first": "choice",
    "order": "order",
}
ORDERS = tuple("".join(letters) for letters in permutations("ABC"))
FIRST, SECOND = "first", "second"


@dataclass(frozen=True, slots=True)
class QuestionDraft:
    """A question before its key is drawn: its template ("directly", "before", "first" or "order") and its events, by
    number and in order of time.
    """

    template: QuestionTemplate
    events: tuple[int, ...]


def build_chronology_questions(events: Sequence[str], n: int = 10, seed: int = 0) -> QuestionSet:
    """Return a set of at most n questions about the order of events, without a model; an empty set with a reason for
    fewer than two events that can be named. events: descriptions in order of time. seed: draws events and keys; the
    same arguments give the same questions. Raises ValueError for n < 1.

    Events with the same words are merged where they follow each other, and left out where another comes between them,
    as their order is not defined; n_malformed counts events that are left out or merged.

    Of 10 questions 3 are yes_no, 4 choices of two, 3 orders of three; where a kind runs out of events, others fill up.
    "yes" and "no" occur equally often or differ by one, as do the first and the second choice; orders repeat no key
    before all six have occurred, and are not all "ABC".

    >>> build_chronology_questions(["A man opens a door.", "A dog runs out."], n=1).questions[0].choices
    ('A man opens a door', 'A dog runs out')
    >>> build_chronology_questions(["A man opens a door."]).reason
    'the video has fewer than two events that differ'
    """
    if n < 1:
        raise ValueError(f"A set has at least one question, not {n}.")
    numbers = list_distinct_events(events)
    n_malformed = len(events) - len(numbers)
    if len(numbers) < 2:
        reason = "the video has fewer than two events that differ"
        return QuestionSet("chronology", (), n, n_malformed, reason=reason)
    rng = Random("\n".join((str(seed), *events)))
    texts = {number: " ".join(events[number].split()).rstrip(" .,;") for number in numbers}
    return QuestionSet("chronology", tuple(_build_questions(_draw_drafts(texts, n, rng), texts, rng)), n, n_malformed)


def list_templates(n: int) -> list[QuestionTemplate]:
    """Return the templates of n questions, sorted. 3 of 10 are yes_no, a third of these "directly" and the others
    "before"; 3 of 10 are "order", and the others "first".

    >>> list_templates(10)
    ['directly', 'before', 'before', 'first', 'first', 'first', 'first', 'order', 'order', 'order']
    """
    three_of_ten = round(0.3 * n)
    directly = three_of_ten // 3
    counts = (directly, three_of_ten - directly, n - 2 * three_of_ten, three_of_ten)
    return [template for template, count in zip(KIND_BY_TEMPLATE, counts, strict=True) for _ in range(count)]


def _draw_drafts(texts: Mapping[int, str], n: int, rng: Random) -> list[QuestionDraft]:
    """Draw the templates and events of at most n questions, sorted by template: none twice, and every pair of events as
    seldom as possible. texts: the events by number, in order of time. If a template runs out of events, others take its
    place.
    """
    numbers = list(texts)
    pairs = rank_event_pairs(texts, rng)
    pools: Mapping[QuestionTemplate, list[tuple[int, ...]]] = {
        "directly": [*shuffle_items(list_adjacent_pairs(numbers), rng)],
        "before": [*pairs],
        "first": [*pairs],
        "order": [*_rank_event_triplets(numbers, rng)],
    }
    templates = chain(list_templates(n), cycle(KIND_BY_TEMPLATE))
    uses: Counter[tuple[int, ...]] = Counter()
    drafts: list[QuestionDraft] = []
    while len(drafts) < n and any(pools.values()):
        pool = pools[template := next(templates)]
        if pool:
            events = min(pool, key=uses.__getitem__)
            pool.remove(events)
            uses[events] += 1
            drafts.append(QuestionDraft(template, events))
    return sorted(drafts, key=lambda draft: list(KIND_BY_TEMPLATE).index(draft.template))


def _build_questions(drafts: Sequence[QuestionDraft], texts: Mapping[int, str], rng: Random) -> list[Question]:
    """Return the questions of drafts, in order, with keys drawn by `rng`, balanced within each kind. texts: the events
    by number.
    """
    counts = Counter(KIND_BY_TEMPLATE[draft.template] for draft in drafts)
    keys: Mapping[QuestionKind, list[str]] = {
        "yes_no": _draw_balanced_keys((YES, NO), counts["yes_no"], rng),
        "choice": _draw_balanced_keys((FIRST, SECOND), counts["choice"], rng),
        "order": _draw_order_keys(counts["order"], rng),
    }
    return [_build_question(draft, texts, keys[KIND_BY_TEMPLATE[draft.template]].pop()) for draft in drafts]


def _draw_balanced_keys(keys: tuple[str, str], n: int, rng: Random) -> list[str]:
    """Return n keys drawn from two, both equally often, in random order. If n is odd, chance decides which of both
    comes once more.
    """
    return shuffle_items([*keys * (n // 2), *rng.sample(keys, n % 2)], rng)


def _draw_order_keys(n: int, rng: Random) -> list[str]:
    """Return n keys of order questions, permutations of "ABC"; all six occur before one comes again, counted from the
    end. The last key, which is used first, is not "ABC".
    """
    first = rng.choice(ORDERS[1:])
    rest = shuffle_items([order for order in ORDERS if order != first], rng)
    # Keys are taken from the end.
    return [key for key, _ in zip(cycle([first, *rest]), range(n), strict=False)][::-1]


def _build_question(draft: QuestionDraft, texts: Mapping[int, str], key: str) -> Question:
    """Build the question of a draft for a key: "yes" or "no", "first" (the first choice is right) or "second", or an
    order such as "CAB". texts: the events by number.
    """
    if draft.template == "order":
        return build_order_question(draft.events, [texts[number] for number in draft.events], key)
    named = draft.events if key in (YES, FIRST) else draft.events[::-1]
    first, second = statements = tuple(texts[number] for number in named)
    if draft.template == "first":
        text = "Which of these two events comes first in the video?"
        return Question("chronology", "choice", text, texts[draft.events[0]], statements, None, named, statements)
    text = f"Does “{first}” come earlier in the video than “{second}”?"
    if draft.template == "directly":
        text = f"Is “{first}” followed at once by “{second}” in the video, with no other event between them?"
    return Question("chronology", "yes_no", text, key, (YES, NO), None, named, statements)


def build_order_question(numbers: Sequence[int], texts: Sequence[str], key: str) -> Question:
    """Build a question for the order of three events. numbers, texts: the events in order of time. key: the answer,
    such as "CAB", which decides the letters under which the question lists the events.

    >>> build_order_question((0, 4, 7), ["she rises", "she eats", "she leaves"], "CAB").text
    'Put these events into the order in which they come in the video. A: she eats. B: she leaves. C: she rises.'
    """
    place = [key.index(letter) for letter in "ABC"]
    statements = tuple(texts[i] for i in place)
    listed = " ".join(f"{letter}: {text}." for letter, text in zip("ABC", statements, strict=True))
    text = f"Put these events into the order in which they come in the video. {listed}"
    named = tuple(numbers[i] for i in place)
    return Question("chronology", "order", text, key, ORDERS, None, named, statements)


def reletter_events(question: Question, letters: str) -> Question:
    """Return an order question with its events under other letters: the event under letters[i] moves under "ABC"[i]. A
    question whose text was not made by `build_order_question` stays as it is.

    >>> asked = build_order_question((0, 4, 7), ["she rises", "she eats", "she leaves"], "CAB")
    >>> reletter_events(asked, "BCA").text
    'Put these events into the order in which they come in the video. A: she leaves. B: she rises. C: she eats.'
    >>> reletter_events(asked, "BCA").answer
    'BCA'
    """
    if question.kind != "order" or len(question.statements) != 3:
        return question
    places = ["ABC".index(letter) for letter in question.answer]
    in_time = [question.statements[place] for place in places]
    if build_order_question(places, in_time, question.answer).text != question.text:
        return question
    key = "".join("ABC"[letters.index(letter)] for letter in question.answer)
    moved = build_order_question(places, in_time, key)
    # A question that a chat model wrote has no numbers of its events.
    return replace(moved, events=tuple(question.events["ABC".index(letter)] for letter in letters if question.events))
