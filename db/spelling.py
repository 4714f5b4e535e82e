"""What somebody meant who misspelt a name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def find_similar_name(name: str, names: Iterable[str]) -> str | None:
    """The name that is most like a misspelt one, in any case; None where none is like it.

    >>> find_similar_name("Flims", ["clips", "films"]), find_similar_name("cats", ["clips", "films"])
    ('films', None)
    """
    by_folded = {each.casefold(): each for each in names}
    close = difflib.get_close_matches(name.casefold(), by_folded, n=1)
    return by_folded[close[0]] if close else None
