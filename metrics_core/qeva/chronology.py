"""Chronology questions from an ordered list of events, without a model (paper 3.2; spec 3.3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, cycle, permutations
from random import Random
from typing import Literal

from metrics_core.qeva.event_pairs import adjacent_pairs, distinct_events, ranked_pairs, ranked_triplets, shuffled
from metrics_core.qeva.records import NO, YES, Kind, Question, QuestionSet

Template = Literal["directly", "before", "first", "order"]
KIND_OF: Mapping[Template, Kind] = {"directly": "yes_no", "before": "yes_no", "first": "choice", "order": "order"}
ORDERS = tuple("".join(letters) for letters in permutations("ABC"))
FIRST, SECOND = "first", "second"


@dataclass(frozen=True, slots=True)
class Draft:
    """A question before its key is drawn: its template and its events, by number and in order of time."""

    template: Template
    events: tuple[int, ...]


def chronology_questions(events: Sequence[str], n: int = 10, seed: int = 0) -> QuestionSet:
    """Write at most n questions about the order of events.

    events: what happens, in order of time. Events that say the same are one where they follow each other, and are left
    out where another comes between them, as their order is not defined; n_malformed counts events that are left out.

    Of 10 questions 3 are yes_no, 4 choices of two, 3 orders of three; where a kind runs out of events, others fill up.
    "yes" and "no" occur equally often or differ by one, as do the first and the second choice; orders repeat no key
    before all six have occurred, and are not all "ABC". The same arguments give the same questions. Raises ValueError
    for n < 1.

    >>> chronology_questions(["A man opens a door.", "A dog runs out."], n=1).questions[0].choices
    ('A man opens a door', 'A dog runs out')
    >>> chronology_questions(["A man opens a door."]).reason
    'the video has fewer than two events that differ'
    """
    if n < 1:
        raise ValueError(f"A set has at least one question, not {n}.")
    numbers = distinct_events(events)
    n_malformed = len(events) - len(numbers)
    if len(numbers) < 2:
        reason = "the video has fewer than two events that differ"
        return QuestionSet("chronology", (), n, n_malformed, reason=reason)
    rng = Random("\n".join((str(seed), *events)))
    texts = {number: " ".join(events[number].split()).rstrip(" .,;") for number in numbers}
    return QuestionSet("chronology", tuple(in_words(drafts_of(texts, n, rng), texts, rng)), n, n_malformed)


def schedule(n: int) -> list[Template]:
    """The templates of n questions: 3 of 10 yes_no, a third of them "directly", and 3 of 10 orders.

    >>> schedule(10)
    ['directly', 'before', 'before', 'first', 'first', 'first', 'first', 'order', 'order', 'order']
    """
    three_of_ten = round(0.3 * n)
    directly = three_of_ten // 3
    counts = (directly, three_of_ten - directly, n - 2 * three_of_ten, three_of_ten)
    return [template for template, count in zip(KIND_OF, counts, strict=True) for _ in range(count)]


def drafts_of(texts: Mapping[int, str], n: int, rng: Random) -> list[Draft]:
    """Draw the templates and events of at most n questions: none twice, and every pair as seldom as possible."""
    numbers = list(texts)
    pairs = ranked_pairs(texts, rng)
    pools: Mapping[Template, list[tuple[int, ...]]] = {
        "directly": [*shuffled(adjacent_pairs(numbers), rng)],
        "before": [*pairs],
        "first": [*pairs],
        "order": [*ranked_triplets(numbers, rng)],
    }
    templates = chain(schedule(n), cycle(KIND_OF))
    uses: Counter[tuple[int, ...]] = Counter()
    drafts: list[Draft] = []
    while len(drafts) < n and any(pools.values()):
        pool = pools[template := next(templates)]
        if pool:
            events = min(pool, key=uses.__getitem__)
            pool.remove(events)
            uses[events] += 1
            drafts.append(Draft(template, events))
    return sorted(drafts, key=lambda draft: list(KIND_OF).index(draft.template))


def in_words(drafts: Sequence[Draft], texts: Mapping[int, str], rng: Random) -> list[Question]:
    """Draw the keys of drafts, balanced within each kind, and put the questions into words."""
    counts = Counter(KIND_OF[draft.template] for draft in drafts)
    keys: Mapping[Kind, list[str]] = {
        "yes_no": balanced((YES, NO), counts["yes_no"], rng),
        "choice": balanced((FIRST, SECOND), counts["choice"], rng),
        "order": order_keys(counts["order"], rng),
    }
    return [question_of(draft, texts, keys[KIND_OF[draft.template]].pop()) for draft in drafts]


def balanced(keys: tuple[str, str], n: int, rng: Random) -> list[str]:
    """Two keys n times in all, equally often; chance decides on the order, and on the odd one."""
    return shuffled([*keys * (n // 2), *rng.sample(keys, n % 2)], rng)


def order_keys(n: int, rng: Random) -> list[str]:
    """The keys of n orders: all six before one comes again, beginning with another one than "ABC"."""
    first = rng.choice(ORDERS[1:])
    rest = shuffled([order for order in ORDERS if order != first], rng)
    # Keys are taken from the end.
    return [key for key, _ in zip(cycle([first, *rest]), range(n), strict=False)][::-1]


def question_of(draft: Draft, texts: Mapping[int, str], key: str) -> Question:
    """The question that a draft asks when its key is this: "yes", "first" (the first choice is right), or an order."""
    if draft.template == "order":
        return order_question(draft.events, [texts[number] for number in draft.events], key)
    named = draft.events if key in (YES, FIRST) else draft.events[::-1]
    one, other = statements = tuple(texts[number] for number in named)
    if draft.template == "first":
        text = "Which of these two events comes first in the video?"
        return Question("chronology", "choice", text, texts[draft.events[0]], statements, None, named, statements)
    text = f"Does “{one}” come earlier in the video than “{other}”?"
    if draft.template == "directly":
        text = f"Is “{one}” followed at once by “{other}” in the video, with no other event between them?"
    return Question("chronology", "yes_no", text, key, (YES, NO), None, named, statements)


def order_question(numbers: Sequence[int], texts: Sequence[str], key: str) -> Question:
    """Ask for the order of three events, given in order of time, under letters for which `key` is the answer.

    >>> order_question((0, 4, 7), ["she rises", "she eats", "she leaves"], "CAB").text
    'Put these events into the order in which they come in the video. A: she eats. B: she leaves. C: she rises.'
    """
    place = [key.index(letter) for letter in "ABC"]
    statements = tuple(texts[i] for i in place)
    listed = " ".join(f"{letter}: {text}." for letter, text in zip("ABC", statements, strict=True))
    text = f"Put these events into the order in which they come in the video. {listed}"
    named = tuple(numbers[i] for i in place)
    return Question("chronology", "order", text, key, ORDERS, None, named, statements)


def relettered(question: Question, letters: str) -> Question:
    """An order question with its events under other letters: the event under letters[i] moves under "ABC"[i].

    A question whose text was not made by `order_question` stays as it is.

    >>> asked = order_question((0, 4, 7), ["she rises", "she eats", "she leaves"], "CAB")
    >>> relettered(asked, "BCA").text
    'Put these events into the order in which they come in the video. A: she leaves. B: she rises. C: she eats.'
    >>> relettered(asked, "BCA").answer
    'BCA'
    """
    if question.kind != "order" or len(question.statements) != 3:
        return question
    places = ["ABC".index(letter) for letter in question.answer]
    in_time = [question.statements[place] for place in places]
    if order_question(places, in_time, question.answer).text != question.text:
        return question
    key = "".join("ABC"[letters.index(letter)] for letter in question.answer)
    moved = order_question(places, in_time, key)
    # Not every question knows the numbers of its events.
    return replace(moved, events=tuple(question.events["ABC".index(letter)] for letter in letters if question.events))
