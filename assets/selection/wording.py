"""Sentences on a selection: samples that share the value at which its size ends, and what stored thresholds keep."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from assets.reports.text import format_count, format_percent

_WORTH_TELLING = 0.05
_HOW = {"random": "; the draw is by seed {seed}", "include": " (ties: include)", "exclude": " (ties: exclude)"}


def explain_ties(n: int, n_tied: int | None, n_tied_left: int | None, recipe: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence on samples that share the value at which a selection of n samples ends; nothing if it does not
    matter.

    n_tied: how many of them are selected; n_tied_left: how many are not. There is no sentence where no value decides,
    or where none is left and at most 5 % of the selected samples share the value. recipe: as plain data.
    """
    if n_tied is None or n_tied_left is None or not (n_tied_left or 1 < n_tied > _WORTH_TELLING * n):
        return
    how = _HOW.get(recipe.get("ties", ""), "").format(seed=recipe.get("seed", 0))
    shared = f"{n_tied:,} of the {n:,} taken {'shares' if n_tied == 1 else 'share'} the value of the cut"
    yield f"{shared}, and {f'{n_tied_left:,} more' if n_tied_left else 'no other'} with this value " + (
        f"{'is' if n_tied_left < 2 else 'are'} left{how}"
    )


def explain_thresholds(cuts: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield a sentence for each stored threshold that a recipe names: its value, its interval and what it keeps.

    cuts: rows of view `load_thresholds` by metric.

    >>> cut = {"objective": "keep 0.5", "at_least": 0.0, "low": None, "high": None, "n": 1800, "n_kept": 1800}
    >>> list(explain_thresholds({"vcs_short": cut}))
    ["'keep 0.5' of vcs_short is a value of at least 0, which keeps 1,800 of 1,800 scores (100 %)"]
    """
    for metric, cut in cuts.items():
        interval = "" if cut["low"] is None else f" ({cut['low']:.4g} to {cut['high']:.4g})"
        keeps = f"{cut['n_kept']:,} of {format_count(cut['n'], 'score')} ({format_percent(cut['n_kept'] / cut['n'])})"
        least = f"at least {cut['at_least']:.4g}{interval}"
        yield f"{cut['objective']!r} of {metric} is a value of {least}, which keeps {keeps}"
