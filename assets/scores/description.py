"""What the page of a score asset tells of one shard: statuses, spread, and its best and worst samples; all as text.

Dagster keeps this for every shard and every run, so it holds no picture: the plots stand on the pages of data sets.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import dagster as dg
from sqlalchemy.engine import Engine

from assets.datasets import RunShard
from assets.reports.labels import metric_label
from assets.reports.tables import markdown_table, sample_table
from assets.scores.run import ShardScores
from db.scores import best_and_worst, defined_values, most_common_refusal, status_counts

# The number of best samples on the asset's page, and of worst samples.
N_EXTREMES = 1
N_BARS = 24
_BARS = "▁▂▃▄▅▆▇█"
_SHARES = {"least": 0.0, "a quarter below": 0.25, "median": 0.5, "a quarter above": 0.75, "greatest": 1.0}


def described(engine: Engine, metric: str, shard: RunShard, report: ShardScores) -> tuple[dict[str, Any], Any]:
    """Return the metadata of a shard's scores, and the most common reason for which samples have none (or None)."""
    where = (shard.dataset.dataset_id, shard.number)
    with engine.connect() as connection:
        statuses = status_counts(connection, report.scorer_id, *where)
        values = defined_values(connection, report.scorer_id, *where)
        extremes = best_and_worst(connection, report.scorer_id, where[0], N_EXTREMES, where[1])
        label = metric_label(connection, metric)
        refusal = most_common_refusal(connection, report.scorer_id, *where)
    metadata: dict[str, Any] = {
        "scorer_id": report.scorer_id,
        "samples_pending": report.n_pending,
        "scores_written": report.n_written,
        "statuses": dg.MetadataValue.json(statuses),
    }
    if values:
        metadata["distribution"] = dg.MetadataValue.md(spread_table(values))
        metadata["best_and_worst"] = dg.MetadataValue.md(sample_table(extremes, label))
    return metadata, refusal


def spread_table(values: Sequence[float]) -> str:
    """Show the spread of values as a markdown table of quantiles, above bars for equally wide steps from least to most.

    values: best first, at least one.

    >>> print(spread_table([1.0, 0.5, 0.5, 0.0]))
    | least | a quarter below | median | a quarter above | greatest |
    |---|---|---|---|---|
    | 0.0000 | 0.5000 | 0.5000 | 0.5000 | 1.0000 |
    <BLANKLINE>
    ▅▁▁▁▁▁▁▁▁▁▁▁█▁▁▁▁▁▁▁▁▁▁▅
    """
    ascending = values[::-1]
    quantiles = [f"{ascending[round(share * (len(values) - 1))]:.4f}" for share in _SHARES.values()]
    return f"{markdown_table(list(_SHARES), [quantiles])}\n\n{_bars(ascending)}"


def _bars(values: Sequence[float]) -> str:
    """One character for each step; the highest bar is the fullest step."""
    low, width = values[0], (values[-1] - values[0]) / N_BARS
    counts = [0] * N_BARS
    for value in values:
        counts[min(int((value - low) / width), N_BARS - 1) if width else 0] += 1
    return "".join(_BARS[math.ceil(count / max(counts) * (len(_BARS) - 1))] for count in counts)
