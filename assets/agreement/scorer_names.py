"""Finds scorers by the names that people give them on the command line: `vcs`, `vcs@3`, `vcs@3f9a2c`."""

from __future__ import annotations

from collections.abc import Sequence

from assets.metrics.registry import METRICS
from db.scores.scorers import StoredScorer
from db.spelling import suggest_name

MOST_LISTED = 12
LEAST_DIGITS = 4
"""The smallest number of first digits that name a fingerprint."""


class UnknownScorer(ValueError):
    """Raised when a scorer name matches none, or more than one, or names a metric without an active scorer; the message
    lists scorers to name, if there are any.
    """

    plain = True


def require_named_scorer(scorers: Sequence[StoredScorer], name: str) -> StoredScorer:
    """Return the scorer called METRIC (its active scorer), METRIC@NUMBER, NUMBER, METRIC@DIGEST or DIGEST. NUMBER is
    the `scorer_id` of view score_history, DIGEST the first 4 or more digits of the scorer's fingerprint. A name that is
    both is a number. Raises UnknownScorer where none or several match, or where no scorer of METRIC is active.
    """
    metric, at, identifier = name.rpartition("@")
    candidates = [scorer for scorer in scorers if not at or scorer.metric == metric]
    if not at and (same := [scorer for scorer in scorers if scorer.metric == name]):
        active = [scorer for scorer in same if scorer.status == "active"]
        if not active:
            raise UnknownScorer(f"no scorer of {name} is active: name one of {_format_scorers(same)}")
        return active[0]
    numbered = [scorer for scorer in candidates if str(scorer.scorer_id) == identifier]
    long_enough = len(identifier) >= LEAST_DIGITS
    matches = numbered or [
        scorer for scorer in candidates if long_enough and scorer.fingerprint.startswith(identifier.lower())
    ]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise UnknownScorer(f"{name!r} matches {len(matches)} scorers: name one of {_format_scorers(matches)}")
    if not scorers:
        raise UnknownScorer(f"there is no scorer {name!r}, because nothing is scored yet: run reelsieve score first")
    all_names = f": name one of {_format_scorers(candidates or scorers)}, or score with it first"
    wanted, metrics = metric if at else name, dict.fromkeys(scorer.metric for scorer in scorers)
    hint = all_names if wanted in {*metrics, *METRICS} else suggest_name(wanted, metrics, all_names)
    raise UnknownScorer(f"there is no scorer {name!r}{hint}")


def format_other_scorers(scorers: Sequence[StoredScorer], chosen: StoredScorer) -> str:
    """Return the names of all scorers except `chosen`, with their status, as text for a sentence: `vcs@1 (retired),
    vcs@3 (active)`. Those of the same metric come first. After 12 names it gives how many more there are. "" without
    any.
    """
    others = [scorer for scorer in scorers if scorer.scorer_id != chosen.scorer_id]
    return _format_scorers(sorted(others, key=lambda scorer: scorer.metric != chosen.metric))


def _format_scorers(scorers: Sequence[StoredScorer]) -> str:
    """Return names with their status: `vcs@1 (retired), vcs@3 (active)`, and how many more."""
    names = ", ".join(f"{scorer.name} ({scorer.status})" for scorer in scorers[:MOST_LISTED])
    return names if len(scorers) <= MOST_LISTED else f"{names} and {len(scorers) - MOST_LISTED} more"
