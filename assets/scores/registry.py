"""The metrics there are. A new one is a module in metrics_core, a scorer here beside, and one line below."""

from __future__ import annotations

from collections.abc import Callable

from assets.scores.base import Scorer, ScorerSettings
from assets.scores.vcs import VCSScorer

SCORERS: dict[str, Callable[[ScorerSettings], Scorer]] = {
    "vcs": VCSScorer.from_settings,
}
METRICS = tuple(SCORERS)
