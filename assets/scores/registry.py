"""All metrics: our own, and the metrics that installed packages bring along as entry points."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from importlib.metadata import entry_points
from typing import Any

import sqlalchemy as sa

from assets.ecs.scorer import ECSScorer
from assets.qeva.scorer import QEVAScorer
from assets.scores.base import Scorer
from assets.scores.brought import ENTRY_POINTS, load_brought
from assets.scores.evqa import EVQAScorer
from assets.scores.vcs import VCSScorer, VCSShortScorer
from assets.sources.base import Source, chain_of_kinds
from db.schema.inputs import Input

_OURS: tuple[type[Scorer], ...] = (VCSScorer, EVQAScorer, VCSShortScorer, ECSScorer, QEVAScorer)
_BROUGHT, BROKEN = load_brought(entry_points(group=ENTRY_POINTS), _OURS)

SCORERS: dict[str, type[Scorer]] = {scorer.metric: scorer for scorer in (*_OURS, *_BROUGHT)}
METRICS = tuple(SCORERS)
METRIC_INPUTS: dict[str, Collection[Input[Any]]] = {metric: scorer.inputs for metric, scorer in SCORERS.items()}


def source_kinds(metrics: Iterable[str] = METRICS) -> dict[str, type[Source[Any]]]:
    """Return the kinds of sources below these metrics, by asset. A kind comes after the kinds that it rests on."""
    return chain_of_kinds([kind for metric in metrics for kind in SCORERS[metric].rests_on])


SOURCE_TABLES: tuple[sa.Table, ...] = tuple(table for kind in source_kinds().values() for table in kind.tables)


def asset_name(metric: str) -> str:
    """Return the key of a metric's asset."""
    return f"{metric}_score"


def scoring_assets(metrics: Iterable[str]) -> list[str]:
    """Return the assets of a run that scores a shard with these metrics: first the sources, then the scores."""
    chosen = list(metrics)
    return [*source_kinds(chosen), *map(asset_name, chosen)]
