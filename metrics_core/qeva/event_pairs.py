"""Which pairs and triplets of events chronology questions are about, best first (paper 3.2; spec 3.3).

Events are known by their numbers in the list of the video, so that two numbers in a row are two events in a row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, groupby, zip_longest
from random import Random
from typing import TypeAlias, TypeVar

from metrics_core.qeva.normalise import cleaned

Pair: TypeAlias = tuple[int, int]
Triplet: TypeAlias = tuple[int, int, int]
Item = TypeVar("Item")
# Triplets are drawn from so many events at most: their number grows with the cube of the events.
MAX_TRIPLET_EVENTS = 16


def distinct_events(events: Sequence[str]) -> list[int]:
    """The numbers of the events that a question can name: with words, and with the same words nowhere else.

    >>> distinct_events(["a", "A.", "b", "c", "b", ""])
    [0, 3]
    """
    runs = [(text, next(run)[0]) for text, run in groupby(enumerate(map(cleaned, events)), key=lambda one: one[1])]
    texts = [text for text, _ in runs]
    return [number for text, number in runs if any(map(str.isalnum, text)) and texts.count(text) == 1]


def adjacent_pairs(numbers: Sequence[int]) -> list[Pair]:
    """The pairs of events that follow each other directly.

    >>> adjacent_pairs(range(5)), adjacent_pairs([0, 1, 3])
    ([(0, 1), (1, 2), (2, 3), (3, 4)], [(0, 1)])
    """
    return [(i, j) for i, j in combinations(numbers, 2) if j - i == 1]


def distant_pairs(numbers: Sequence[int]) -> list[Pair]:
    """The pairs of events with at least one event between them.

    >>> distant_pairs(range(4))
    [(0, 2), (0, 3), (1, 3)]
    """
    return [(i, j) for i, j in combinations(numbers, 2) if j - i >= 2]


def ranked_pairs(texts: Mapping[int, str], rng: Random) -> list[Pair]:
    """All pairs of events, best first: distant and adjacent ones by turns.

    texts: the events by number, in order of time. Distant pairs from the beginning and the middle, the middle and the
    end, and the beginning and the end of the video take turns, before those from within a third; among them, those
    worded less alike come first. Chance decides between equals.
    """
    numbers = list(texts)
    third = thirds(numbers)
    words = {number: frozenset(cleaned(text).split()) for number, text in texts.items()}
    distant = shuffled(distant_pairs(numbers), rng)
    distant.sort(key=lambda pair: likeness(words[pair[0]], words[pair[1]]))
    spans = [
        [pair for pair in distant if (third[pair[0]], third[pair[1]]) == span] for span in ((0, 1), (1, 2), (0, 2))
    ]
    within = [pair for pair in distant if third[pair[0]] == third[pair[1]]]
    return by_turns([*by_turns(*spans), *within], shuffled(adjacent_pairs(numbers), rng))


def ranked_triplets(numbers: Sequence[int], rng: Random) -> list[Triplet]:
    """Triplets of events in order of time, best first: no two adjacent, and from different thirds of the video."""
    some = sorted(rng.sample(numbers, min(len(numbers), MAX_TRIPLET_EVENTS)))
    third = thirds(numbers)
    triplets = shuffled(list(combinations(some, 3)), rng)
    triplets.sort(key=lambda each: -len({third[number] for number in each}))
    triplets.sort(key=lambda each: each[1] - each[0] < 2 or each[2] - each[1] < 2)
    return triplets


def thirds(numbers: Sequence[int]) -> dict[int, int]:
    """Whether an event is of the beginning (0), the middle (1) or the end (2)."""
    return {number: 3 * place // len(numbers) for place, number in enumerate(numbers)}


def likeness(words: frozenset[str], others: frozenset[str]) -> float:
    """The share of words that two texts have in common, in [0, 1]."""
    return len(words & others) / len(words | others)


def by_turns(*lists: Sequence[Pair]) -> list[Pair]:
    """One item of each list by turns, until all are used up."""
    return [item for row in zip_longest(*lists) for item in row if item is not None]


def shuffled(items: Sequence[Item], rng: Random) -> list[Item]:
    """The items in a random order."""
    return rng.sample(items, len(items))
