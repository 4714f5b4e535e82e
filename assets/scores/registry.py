"""The metrics there are. A new one is a module in metrics_core, a scorer here beside, and one line below."""

from __future__ import annotations

from collections.abc import Iterable

from assets.scores.base import Scorer
from assets.scores.ecs import ECSScorer
from assets.scores.evqa import EVQAScorer
from assets.scores.vcs import VCSScorer
from assets.scores.vcs_short import VCSShortScorer

SCORERS: dict[str, type[Scorer]] = {
    "vcs": VCSScorer,
    "evqa": EVQAScorer,
    "vcs_short": VCSShortScorer,
    "ecs": ECSScorer,
}
METRICS = tuple(SCORERS)


def looks_at_frames(metric: str) -> bool:
    """Whether a metric's scorer needs the frames of the videos."""
    return "video" in SCORERS[metric].inputs


def reads_verdicts(metric: str) -> bool:
    """Whether a metric's scorer reads verdicts on keypoints, which another asset reaches."""
    return "keypoints" in SCORERS[metric].inputs


def asset_name(metric: str) -> str:
    """The key of a metric's asset."""
    return f"{metric}_score"


def scoring_assets(metrics: Iterable[str]) -> list[str]:
    """The assets of a run that scores a shard with these metrics, what models have to make for them first."""
    chosen = list(metrics)
    frames = ["frame_embedding"] if any(map(looks_at_frames, chosen)) else []
    verdicts = ["ecs_verdict"] if any(map(reads_verdicts, chosen)) else []
    return ["text_embedding", *frames, *verdicts, *map(asset_name, chosen)]
