"""The scorers of all metrics by name: the built-in ones, those of installed packages, and the simple scores."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from importlib.metadata import entry_points
from typing import Any

import sqlalchemy as sa

from assets.metrics.ecs.scorer import ECSScorer
from assets.metrics.evqa.scorer import EVQAScorer
from assets.metrics.installed import ENTRY_POINTS, import_installed_metrics
from assets.metrics.judge.scorer import JudgeScorer
from assets.metrics.qeva.scorer import QEVAScorer
from assets.metrics.simple import CosineScorer, WordsInCommonScorer
from assets.metrics.vcs.scorer import VCSScorer, VCSShortScorer
from assets.scores.base import Scorer
from assets.sources.base import Source, sort_source_classes
from db.schema.inputs import Input
from db.scores.sample_scores import SIMPLE_SCORES

_BUILT_IN: tuple[type[Scorer], ...] = (VCSScorer, EVQAScorer, VCSShortScorer, ECSScorer, QEVAScorer, JudgeScorer)
# Simple scores are made and stored as scores of metrics are, but are no metrics: they come last, and only with metrics.
_SIMPLE: tuple[type[Scorer], ...] = (WordsInCommonScorer, CosineScorer)
_INSTALLED, BROKEN_METRICS = import_installed_metrics(entry_points(group=ENTRY_POINTS), (*_BUILT_IN, *_SIMPLE))

INSTALLED_METRICS = tuple(scorer.metric for scorer in _INSTALLED)
METRICS = tuple(scorer.metric for scorer in (*_BUILT_IN, *_INSTALLED))
SCORERS: dict[str, type[Scorer]] = {scorer.metric: scorer for scorer in (*_BUILT_IN, *_INSTALLED, *_SIMPLE)}
METRIC_INPUTS: dict[str, Collection[Input[Any]]] = {metric: scorer.inputs for metric, scorer in SCORERS.items()}


def list_source_classes(metrics: Iterable[str] = METRICS) -> dict[str, type[Source[Any]]]:
    """Return the classes of all sources that these metrics need, by the asset that makes the evidence. A source comes
    after the sources that it needs itself. Without an argument all metrics count, but no simple score.
    """
    return sort_source_classes([kind for metric in metrics for kind in SCORERS[metric].rests_on])


SOURCE_TABLES: tuple[sa.Table, ...] = tuple(table for kind in list_source_classes().values() for table in kind.tables)


def build_score_asset_name(metric: str) -> str:
    """Return the name of the Dagster asset that makes a metric's scores: METRIC_score."""
    return f"{metric}_score"


def list_accompanying_scores(metrics: Iterable[str]) -> list[str]:
    """Return the names of the simple scores that a run of these metrics also makes; [] without metrics. A simple score
    is among them if it needs no source, or if one of the metrics has all of its sources and inputs.

    >>> list_accompanying_scores(["evqa"]), list_accompanying_scores(["evqa", "vcs_short"])
    (['words_in_common'], ['words_in_common', 'cosine'])
    """
    chosen = [SCORERS[metric] for metric in metrics]
    return [name for name in SIMPLE_SCORES if any(_asks_no_more(SCORERS[name], scorer) for scorer in chosen)]


def _asks_no_more(simple: type[Scorer], scorer: type[Scorer]) -> bool:
    needed, made = ({source.asset for source in side.rests_on} for side in (simple, scorer))
    return not needed or (needed <= made and set(simple.inputs) <= set(scorer.inputs))


def list_scoring_assets(metrics: Iterable[str]) -> list[str]:
    """Return the names of the assets of a run that scores with these metrics. First come the sources, a source after
    those that it needs; then METRIC_score for every metric. The simple scores that such a run also makes come last.
    """
    chosen = list(metrics)
    return [
        *list_source_classes(chosen),
        *map(build_score_asset_name, dict.fromkeys([*chosen, *list_accompanying_scores(chosen)])),
    ]
