"""The metrics there are: our own, and those that installed packages bring along as entry points."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from importlib.metadata import entry_points
from typing import Any

import sqlalchemy as sa

from assets.ecs.scorer import ECSScorer
from assets.scores.base import Scorer
from assets.scores.evqa import EVQAScorer
from assets.scores.vcs import VCSScorer
from assets.scores.vcs_short import VCSShortScorer
from assets.sources.base import Source, chain_of_kinds
from db.inputs import Input

# A package that brings a metric names its scorer's class in this group.
ENTRY_POINTS = "reelsieve.metrics"

_OURS: tuple[type[Scorer], ...] = (VCSScorer, EVQAScorer, VCSShortScorer, ECSScorer)
_BROUGHT: tuple[type[Scorer], ...] = tuple(point.load() for point in entry_points(group=ENTRY_POINTS))

SCORERS: dict[str, type[Scorer]] = {scorer.metric: scorer for scorer in (*_OURS, *_BROUGHT)}
METRICS = tuple(SCORERS)
METRIC_INPUTS: dict[str, Collection[Input[Any]]] = {metric: scorer.inputs for metric, scorer in SCORERS.items()}


def source_kinds(metrics: Iterable[str] = METRICS) -> dict[str, type[Source[Any]]]:
    """The kinds of sources that these metrics rest on, by asset, those first that others rest on."""
    return chain_of_kinds([kind for metric in metrics for kind in SCORERS[metric].rests_on])


SOURCE_TABLES: tuple[sa.Table, ...] = tuple(table for kind in source_kinds().values() for table in kind.tables)


def asset_name(metric: str) -> str:
    """The key of a metric's asset."""
    return f"{metric}_score"


def scoring_assets(metrics: Iterable[str]) -> list[str]:
    """The assets of a run that scores a shard with these metrics, what their sources have to make first."""
    chosen = list(metrics)
    return [*source_kinds(chosen), *map(asset_name, chosen)]
