"""Texts compared by their words."""

from __future__ import annotations

from collections.abc import Iterable

from metrics_core.qeva.normalise import cleaned


def same_words(one: str, other: str) -> bool:
    """Whether two texts differ at most in case, spaces and the punctuation around them.

    >>> same_words("A dog  runs.", "a dog runs"), same_words("A dog.", "A cat.")
    (True, False)
    """
    return cleaned(one) == cleaned(other)


def distinct(texts: Iterable[str]) -> list[str]:
    """The first of the texts with the same words, in order.

    >>> distinct(["A dog.", "A cat.", "a dog"])
    ['A dog.', 'A cat.']
    """
    seen: dict[str, str] = {}
    for text in texts:
        seen.setdefault(cleaned(text), text)
    return list(seen.values())
