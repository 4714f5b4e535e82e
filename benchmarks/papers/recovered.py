"""Segments of a text that lost its punctuation, found again by the words that it shares with the text it came from."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from metrics_core.arrays import IntArray

NOT_A_LETTER = re.compile(r"[\W_]+")
# Shorter runs of equal words are chance, and shorter pieces of a segment belong to a neighbour.
LEAST_WORDS = 3


def recovered_segments(text: str, base: Sequence[str]) -> list[str]:
    """Cut a text where it passes from one sentence of `base` to another, or jumps within one.

    From left to right the longest run of words that stands in the base, too, is taken, and the run that goes on where
    the last one ended where both are equally long. Words that stand nowhere belong to the segment before them.

    >>> recovered_segments("He sits down slowly A man enters the hall", ["A man enters the hall.", "He sits down."])
    ['He sits down slowly', 'A man enters the hall']
    """
    words = text.split()
    told = [(bare(word), number) for number, sentence in enumerate(base) for word in sentence.split()]
    runs = runs_of([bare(word) for word in words], [word for word, _ in told])
    labels = labels_of(len(words), runs, [number for _, number in told])
    return [" ".join(words[start:end]) for start, end in pieces_of(labels)]


def bare(word: str) -> str:
    """A word in lower case without anything but letters and digits."""
    return NOT_A_LETTER.sub("", word.lower())


def runs_of(words: Sequence[str], told: Sequence[str]) -> list[tuple[int, int, int]]:
    """Runs of equal words: (start in `words`, start in `told`, length), from left to right without overlap."""
    lengths = equal_runs(words, told)
    runs: list[tuple[int, int, int]] = []
    i = following = 0
    while i < len(words):
        best = int(lengths[i].argmax()) if len(told) else 0
        if following < len(told) and lengths[i, following] == lengths[i, best]:
            best = following
        length = int(lengths[i, best])
        if length < LEAST_WORDS:
            i, following = i + 1, following + 1
            continue
        runs.append((i, best, length))
        i, following = i + length, best + length
    return runs


def equal_runs(words: Sequence[str], told: Sequence[str]) -> IntArray:
    """How many words in a row are equal from word i of one and word j of the other on: (words + 1, told + 1)."""
    lengths = np.zeros((len(words) + 1, len(told) + 1), dtype=np.int64)
    other = np.array(told, dtype=object)
    for i in reversed(range(len(words))):
        lengths[i, :-1] = np.where(other == words[i], lengths[i + 1, 1:] + 1, 0)
    return lengths


def labels_of(n_words: int, runs: Sequence[tuple[int, int, int]], sentences: Sequence[int]) -> list[tuple[int, int]]:
    """For each word the number of its run and its sentence of the base; unmatched words have those of their left."""
    labels: list[tuple[int, int]] = []
    for number, (start, place, length) in enumerate(runs):
        before = labels[-1] if labels else (number, sentences[place])
        labels += [before] * (start - len(labels))
        group = before[0] if number and goes_on(runs[number - 1], runs[number]) else number
        labels += [(group, sentences[place + k]) for k in range(length)]
    return labels + [labels[-1] if labels else (0, 0)] * (n_words - len(labels))


def goes_on(one: tuple[int, int, int], following: tuple[int, int, int]) -> bool:
    """Whether a run stands in the base where the last one led to, give or take two words that were changed."""
    (start, place, _), (next_start, next_place, _) = one, following
    return abs((next_place - place) - (next_start - start)) <= 2


def pieces_of(labels: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Where each piece of equal labels starts and ends; a short one is joined with the piece after it, if any."""
    ends = [i for i in range(1, len(labels) + 1) if i == len(labels) or labels[i] != labels[i - 1]]
    pieces: list[tuple[int, int]] = []
    start = 0
    for end in ends:
        if end - start >= LEAST_WORDS or end == len(labels):
            pieces.append((start, end))
            start = end
    return pieces
