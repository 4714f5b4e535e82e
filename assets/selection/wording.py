"""Sentences on a selection: samples that share the value at which its size ends, and what stored thresholds keep."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from assets.words.text import format_count, format_percent


def explain_ties(n: int, n_tied: int | None, n_tied_left: int | None) -> Iterator[str]:
    """Yield a sentence on samples that share the value at which a selection of n samples ends. n_tied: how many of them
    are taken; n_tied_left: how many are not; both None where no value decides. Nothing where none is left out.

    >>> list(explain_ties(900, 12, 30))
    ["12 of the 900 taken share the cut's value; 30 more have it"]
    >>> list(explain_ties(900, 12, 0))
    []
    """
    if n_tied and n_tied_left:
        share, have = "has" if n_tied == 1 else "share", "has" if n_tied_left == 1 else "have"
        yield f"{n_tied:,} of the {n:,} taken {share} the cut's value; {n_tied_left:,} more {have} it"


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
