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
