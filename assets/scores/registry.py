"""All metrics, our own and those that installed packages bring along as entry points, and the simple scores."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from importlib.metadata import entry_points
from typing import Any

import sqlalchemy as sa

from assets.ecs.scorer import ECSScorer
from assets.evqa.scorer import EVQAScorer
from assets.qeva.scorer import QEVAScorer
from assets.scores.base import Scorer
from assets.scores.installed_metrics import ENTRY_POINTS, import_installed_metrics
from assets.scores.simple import CosineScorer, WordsInCommonScorer
from assets.sources.base import Source, sort_source_classes
from assets.vcs.scorer import VCSScorer, VCSShortScorer
from db.schema.inputs import Input
from db.scores.sample_scores import SIMPLE_SCORES

_BUILT_IN: tuple[type[Scorer], ...] = (VCSScorer, EVQAScorer, VCSShortScorer, ECSScorer, QEVAScorer)
# Simple scores are made and stored as scores of metrics are, and are none: they come last, and beside metrics only.
_SIMPLE: tuple[type[Scorer], ...] = (WordsInCommonScorer, CosineScorer)
_BROUGHT, BROKEN = import_installed_metrics(entry_points(group=ENTRY_POINTS), (*_BUILT_IN, *_SIMPLE))

INSTALLED_METRICS = tuple(scorer.metric for scorer in _BROUGHT)
METRICS = tuple(scorer.metric for scorer in (*_BUILT_IN, *_BROUGHT))
SCORERS: dict[str, type[Scorer]] = {scorer.metric: scorer for scorer in (*_BUILT_IN, *_BROUGHT, *_SIMPLE)}
METRIC_INPUTS: dict[str, Collection[Input[Any]]] = {metric: scorer.inputs for metric, scorer in SCORERS.items()}


def list_source_classes(metrics: Iterable[str] = METRICS) -> dict[str, type[Source[Any]]]:
    """Return the kinds of sources below these metrics, by asset. A kind comes after the kinds that it rests on."""
    return sort_source_classes([kind for metric in metrics for kind in SCORERS[metric].rests_on])


SOURCE_TABLES: tuple[sa.Table, ...] = tuple(table for kind in list_source_classes().values() for table in kind.tables)


def build_score_asset_name(metric: str) -> str:
    """Return the key of a metric's asset."""
    return f"{metric}_score"


def list_accompanying_scores(metrics: Iterable[str]) -> list[str]:
    """Return the simple scores that are made along with these metrics, because they ask no model anything more.

    These are the ones without a model, and those of texts that one of the metrics embeds and compares, too.

    >>> list_accompanying_scores(["evqa"]), list_accompanying_scores(["evqa", "vcs_short"])
    (['words_in_common'], ['words_in_common', 'cosine'])
    """
    chosen = [SCORERS[metric] for metric in metrics]
    return [name for name in SIMPLE_SCORES if any(_asks_no_more(SCORERS[name], scorer) for scorer in chosen)]


def _asks_no_more(simple: type[Scorer], scorer: type[Scorer]) -> bool:
    evidence, of_scorer = ({kind.asset for kind in each.rests_on} for each in (simple, scorer))
    return not evidence or (evidence <= of_scorer and set(simple.inputs) <= set(scorer.inputs))


def list_scoring_assets(metrics: Iterable[str]) -> list[str]:
    """Return the assets of a run that scores a shard with these metrics: first the sources, then the scores.

    Simple scores that are made along come last.
    """
    chosen = list(metrics)
    return [
        *list_source_classes(chosen),
        *map(build_score_asset_name, dict.fromkeys([*chosen, *list_accompanying_scores(chosen)])),
    ]
