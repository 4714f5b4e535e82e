"""Metadata of the score assets in Dagster, as text: how many samples have a score, mean, models and distribution.

Dagster keeps this for every shard and every run, so it has no plot: the pages of datasets have the plots.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import dagster as dg
from sqlalchemy.engine import Connection, Engine

from assets.datasets.lookup import RunShard
from assets.metrics.registry import SCORERS
from assets.scores.run import ShardScores
from assets.scores.sentences import KIND_NAMES, format_mean, format_score_counts
from assets.words.labels import filter_stand_ins, format_metric_label, format_models
from assets.words.tables import format_markdown_table, shorten_text
from db.scores.quality import MeanScore, StatusCount, count_statuses_with_reasons, load_mean_scores
from db.scores.scorers import StoredScorer, load_scorer
from db.scores.store import ScoredSample, find_active_scorer, list_best_and_worst, load_values_by_kind

# The number of best samples on the asset's page, and of worst samples.
N_EXTREMES = 1
N_BARS = 24
_BARS = "▁▂▃▄▅▆▇█"
_SHARES = {"lowest": 0.0, "a quarter below": 0.25, "median": 0.5, "a quarter above": 0.75, "highest": 1.0}


def build_shard_metadata(
    engine: Engine, shard: RunShard, report: ShardScores
) -> tuple[dict[str, Any], list[StatusCount]]:
    """Load a shard's scores and return (Dagster metadata by name, counts of the samples by kind and status). The
    metadata has these counts in words, the mean and the models. For every kind of sample with a score it also has a
    table of quantiles, and the best and worst sample. report: the result of `score_shard`.
    """
    where = (report.scorer_id, shard.dataset.dataset_id, shard.number)
    with engine.connect() as connection:
        scorer = load_scorer(connection, report.scorer_id)
        counts = count_statuses_with_reasons(connection, *where)
        means = load_mean_scores(connection, *where)
        values = load_values_by_kind(connection, *where)
        extremes = {kind: list_best_and_worst(connection, *where[:2], kind, N_EXTREMES, where[2]) for kind in values}
    metadata: dict[str, Any] = {
        "scores": dg.MetadataValue.md(format_score_counts(counts)),
        **_build_mean_metadata(scorer, means),
        "scores written by this run": f"{report.n_written:,}",
    }
    for kind in sorted(values):
        things = f"{KIND_NAMES[kind]}s"
        metadata[f"distribution of {things}"] = dg.MetadataValue.md(format_spread_table(values[kind]))
        metadata[f"best and worst {things}"] = dg.MetadataValue.md(
            _format_sample_table(extremes[kind], format_scorer_label(scorer))
        )
    return metadata, counts


def load_mean_metadata(connection: Connection, dataset_id: int, metrics: Iterable[str]) -> dict[str, str]:
    """Load every metric's mean score on a dataset, by kind of sample, and the models of its active scorer; return them
    as Dagster metadata by name. A metric without a defined score on the dataset has no entry.
    """
    metadata: dict[str, str] = {}
    for metric in metrics:
        scorer_id = find_active_scorer(connection, metric)
        if scorer_id is not None and (means := load_mean_scores(connection, scorer_id, dataset_id)):
            metadata |= _build_mean_metadata(load_scorer(connection, scorer_id), means)
    return metadata


def _build_mean_metadata(scorer: StoredScorer, means: Iterable[MeanScore]) -> dict[str, str]:
    label = format_scorer_label(scorer)
    # The range of scores that were imported is not known.
    value_range = SCORERS[scorer.metric].value_range if scorer.metric in SCORERS else (-math.inf, math.inf)
    mean_by_kind = {f"mean {label} of {KIND_NAMES[mean.kind]}s": format_mean(mean, value_range) for mean in means}
    return {**mean_by_kind, f"{scorer.metric} made by": format_scorer_identity(scorer)}


def format_scorer_label(scorer: StoredScorer) -> str:
    """Return the name of the scorer's metric, such as `evqa`. If built-in stand-ins replace real models, their names
    follow in brackets: `evqa (demo encoder)`.
    """
    return format_metric_label(scorer.metric, filter_stand_ins(model["model_id"] for model in scorer.models.values()))


def format_scorer_identity(scorer: StoredScorer) -> str:
    """Return one line with a scorer's models and their roles, its code version, and its name in commands."""
    return f"{format_models(scorer.models)}; code version {scorer.code_version}; scorer {scorer.name}"


def format_spread_table(values: Sequence[float]) -> str:
    """Return a markdown table with the lowest value, the quartiles and the highest, and below it a histogram of 24 bar
    characters. values: in descending order, at least one. The bars are for 24 equally wide steps from the lowest value
    to the highest.

    >>> print(format_spread_table([1.0, 0.5, 0.5, 0.0]))
    | lowest | a quarter below | median | a quarter above | highest |
    |---|---|---|---|---|
    | 0.0000 | 0.5000 | 0.5000 | 0.5000 | 1.0000 |
    <BLANKLINE>
    ▅▁▁▁▁▁▁▁▁▁▁▁█▁▁▁▁▁▁▁▁▁▁▅
    """
    ascending = values[::-1]
    quantiles = [f"{ascending[round(share * (len(values) - 1))]:.4f}" for share in _SHARES.values()]
    return f"{format_markdown_table(list(_SHARES), [quantiles])}\n\n{_format_bars(ascending)}"


def _format_bars(values: Sequence[float]) -> str:
    """Return one bar character for every step; the step with most values has the highest bar."""
    low, width = values[0], (values[-1] - values[0]) / N_BARS
    counts = [0] * N_BARS
    for value in values:
        counts[min(int((value - low) / width), N_BARS - 1) if width else 0] += 1
    return "".join(_BARS[math.ceil(count / max(counts) * (len(_BARS) - 1))] for count in counts)


def _format_sample_table(samples: Sequence[ScoredSample], metric: str) -> str:
    """Return samples as a markdown table with their key, system, score with four decimals, and at most 90 characters of
    their text. metric: the heading of the score.
    """
    rows = [[row.key, row.system, f"{row.value:.4f}", shorten_text(row.text)] for row in samples]
    return format_markdown_table(["sample", "system", metric, "text"], rows)
