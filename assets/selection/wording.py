"""Sentences on a selection: samples that share the value at which its size ends, and what stored thresholds keep."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from assets.words.text import format_count, format_percent

_WORTH_TELLING = 0.05
_HOW = {"random": " (drawn by seed {seed})", "include": " (ties: include)", "exclude": " (ties: exclude)"}


def explain_ties(n: int, n_tied: int | None, n_tied_left: int | None, recipe: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence on samples that share the value at which a selection of n samples ends. n_tied: how many of them
    are selected; n_tied_left: how many are not; None where no value decides. recipe: as plain data. Nothing where no
    value decides, or where none is left out and at most 5 % of the selected samples, or only one, share the value.

    >>> list(explain_ties(900, 334, 900, {"by": "vcs_short", "ties": "random", "seed": 3}))
    ['334 of the 900 selected samples share the cutoff value; 900 more with that value are left out (drawn by seed 3)']
    >>> list(explain_ties(900, 1, 0, {"by": "vcs"}))
    []
    """
    if n_tied is None or n_tied_left is None or not (n_tied_left or 1 < n_tied > _WORTH_TELLING * n):
        return
    how = _HOW.get(recipe.get("ties", ""), "").format(seed=recipe.get("seed", 0))
    samples = f"{n_tied:,} of the {format_count(n, 'selected sample')}"
    left_out = f"{n_tied_left:,} more with that value {'is' if n_tied_left == 1 else 'are'} left out"
    verb = "has" if n_tied == 1 else "share"
    yield f"{samples} {verb} the cutoff value; {left_out if n_tied_left else 'none with that value is left out'}{how}"


def explain_thresholds(cuts: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield a sentence for each stored threshold that a recipe names: its value, its interval if it has one, and how
    many scores it keeps. cuts: the threshold by metric, a row of view `dataset_thresholds`.

    >>> cut = {"objective": "keep 0.5", "at_least": 0.0, "low": None, "high": None, "n": 1800, "n_kept": 1800}
    >>> list(explain_thresholds({"vcs_short": cut}))
    ["threshold 'keep 0.5' of vcs_short is a value of at least 0, which keeps 1,800 of 1,800 scores (100 %)"]
    """
    for metric, threshold in cuts.items():
        interval = "" if threshold["low"] is None else f" ({threshold['low']:.4g} to {threshold['high']:.4g})"
        n, n_kept = threshold["n"], threshold["n_kept"]
        kept = f"{n_kept:,} of {format_count(n, 'score')} ({format_percent(n_kept / n)})"
        least = f"at least {threshold['at_least']:.4g}{interval}"
        yield f"threshold {threshold['objective']!r} of {metric} is a value of {least}, which keeps {kept}"
