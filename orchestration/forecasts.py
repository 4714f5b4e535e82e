"""Plans and forecasts: which metrics can score a dataset, how many samples are pending, and what their models would
cost.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from assets.datasets.lookup import choose_shards, require_dataset
from assets.metrics.registry import METRICS
from assets.planning.holdings import Holdings, load_dataset_holdings
from assets.planning.plan import Plan, build_plan, list_scorer_inputs
from assets.scores.base import Scorer
from assets.scores.draws import forecast_draw
from assets.scores.pending import count_shard_refusals, forecast_shard, format_refusals
from assets.sources.base import Forecast
from db.selection.draws import Draw
from orchestration.installation import Installation


def forecast_scoring(
    installation: Installation,
    dataset: str,
    metrics: Sequence[str],
    shards: Collection[int] | None = None,
    draw: Draw | None = None,
) -> list[dict[str, Any]]:
    """Return the rows that `score --dry-run` prints. Keys are metric, pending (samples), role and model, and at most
    `calls at most`, `tokens in`, `tokens out` and `money`, None without prices. A metric has a row for every role and
    model that costs, else one row of None and 0. Asks no model, but stores new scorers.

    shards: their numbers; None for all. draw: forecast what it wants in place of what is pending; None for no draw.
    Raises UnknownDataset and UnknownShard, and with a draw as `store_draw` does.
    """
    stored_dataset = require_dataset(installation.engine, dataset)
    chosen = choose_shards(stored_dataset, shards).values()
    rows = []
    for metric in metrics:
        scorer = installation.curation.scorers[metric]
        if draw:
            forecasts = [forecast_draw(installation.engine, stored_dataset, scorer, draw)]
        else:
            forecasts = [forecast_shard(installation.engine, scorer, stored_dataset, shard) for shard in chosen]
        by_role: dict[tuple[str, str], list[Forecast]] = {}
        for _, parts in forecasts:
            for part in parts:
                by_role.setdefault((part.role, part.model), []).append(part)
        row = {"metric": metric, "pending": sum(n for n, _ in forecasts)}
        asked = [_sum_forecasts(role, model, parts) for (role, model), parts in by_role.items()]
        rows += [{**row, **part} for part in asked or [_sum_forecasts(None, None, [])]]
    return rows


def explain_unscorable_metrics(
    installation: Installation, dataset: str, metrics: Sequence[str], shards: Collection[int] | None = None
) -> Iterator[tuple[str, str]]:
    """Yield (metric, sentence with the reason) for every metric that can score no sample of the chosen shards, as known
    without a model. A metric that may score one sample is left out. shards: their numbers; None for all. Asks no model,
    but stores new scorers. Raises UnknownDataset and UnknownShard.
    """
    stored_dataset = require_dataset(installation.engine, dataset)
    chosen = choose_shards(stored_dataset, shards).values()
    for metric in metrics:
        if reasons := count_shard_refusals(
            installation.engine, installation.curation.scorers[metric], stored_dataset, chosen
        ):
            n, why = format_refusals(reasons)
            cannot = f"can score none of the {n:,} samples" if n > 1 else "cannot score the only sample"
            yield metric, f"{metric} {cannot}: {why}"


def _sum_forecasts(role: str | None, model: str | None, parts: Sequence[Forecast]) -> dict[str, Any]:
    money = [part.money for part in parts if part.money is not None]
    return {
        "role": role,
        "model": model,
        "calls at most": sum(part.n_requests for part in parts),
        "tokens in": sum(part.tokens_in for part in parts),
        "tokens out": sum(part.tokens_out for part in parts),
        "money": sum(money) if parts and len(money) == len(parts) else None,
    }


def build_holdings_plan(installation: Installation, holdings: Holdings, metrics: Collection[str] | None = None) -> Plan:
    """Return the plan for holdings, the counts of what a dataset or manifest holds: what every metric can compute or
    lacks. metrics: their names; None for all usable ones and those that lack a setting. Opens no database and loads no
    model.
    """
    return build_plan(holdings, _choose_scorers(installation, metrics))


def load_dataset_plan(installation: Installation, dataset: str, metrics: Collection[str] | None = None) -> Plan:
    """Return the plan for a stored dataset, by counts from the database: what every metric can compute or lacks.
    metrics: their names; None as in `build_holdings_plan`. Raises UnknownDataset.
    """
    stored_dataset = require_dataset(installation.engine, dataset)
    with installation.engine.connect() as connection:
        return build_holdings_plan(
            installation,
            load_dataset_holdings(
                connection, stored_dataset, list_scorer_inputs(_choose_scorers(installation, metrics).values())
            ),
            metrics,
        )


def _choose_scorers(installation: Installation, metrics: Collection[str] | None) -> dict[str, Scorer]:
    scorers = installation.curation.scorers
    chosen = [metric for metric in METRICS if metric in scorers] if metrics is None else metrics
    return {metric: scorers[metric] for metric in chosen}
