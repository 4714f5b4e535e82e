"""Suggest the name that a misspelt one was meant to be."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def find_similar_name(name: str, names: Iterable[str]) -> str | None:
    """Return the one of `names` that is most similar to a misspelt name, ignoring case; None if none is similar enough.

    >>> find_similar_name("Flims", ["clips", "films"]), find_similar_name("cats", ["clips", "films"])
    ('films', None)
    """
    by_folded = {candidate.casefold(): candidate for candidate in names}
    close = difflib.get_close_matches(name.casefold(), by_folded, n=1)
    return by_folded[close[0]] if close else None


def suggest_name(name: str, names: Iterable[str], otherwise: str | None = None) -> str:
    """Return the end of a sentence about a name that nothing has: the one of `names` that is most similar, or else
    `otherwise`, by default all names.

    >>> suggest_name("Flims", ["clips", "films"]), suggest_name("cats", ["clips", "films"]), suggest_name("cats", [])
    (", did you mean 'films'?", ': choose one of clips, films', ': there are none')
    """
    known = list(names)
    if meant := find_similar_name(name, known):
        return f", did you mean {meant!r}?"
    if otherwise is not None:
        return otherwise
    return f": choose one of {', '.join(known)}" if known else ": there are none"
