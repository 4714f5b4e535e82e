"""One asset for every kind of source, with its checks. One factory builds them all."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import dagster as dg

from assets.curation import Curation
from assets.datasets import TOGETHER
from assets.partitions import SHARDS
from assets.reports.labels import model_name
from assets.reports.tables import escaped
from assets.reports.text import itemised
from assets.results import checks_failed
from assets.scores.base import Scorer
from assets.scores.pending import register
from assets.scores.registry import asset_name, source_kinds
from assets.shards import check_result, shards_of_run
from assets.sources.base import Order, Source, chain, chain_of_kinds
from assets.sources.pool import MODEL_POOL
from assets.steps import GivenUp, Step, taken


def build_source_asset(kind: type[Source[Any]]) -> dg.AssetsDefinition:
    """Build the asset that makes evidence of one kind. It makes only what scorers lack, so every run can be resumed."""

    @dg.asset(
        name=kind.asset,
        group_name=kind.group,
        partitions_def=SHARDS,
        deps=[*(below.asset for below in kind.rests_on), *kind.reads],
        kinds=set(kind.kinds),
        pool=MODEL_POOL,
        backfill_policy=dg.BackfillPolicy.multi_run(TOGETHER),
        description=kind.description,
        config_schema={name: dg.Field(bool, default_value=default) for name, default in kind.options.items()},
    )
    def source(context: dg.AssetExecutionContext, curation: dg.ResourceParam[Curation]) -> dg.MaterializeResult:
        options = context.op_execution_context.op_config or {}
        metrics = [metric for metric in scorers_of_run(context, curation) if kind.asset in source_kinds([metric])]
        counts: dict[str, dict[str, Any]] = {metric: {} for metric in metrics}
        shards = tuple(curation.results.left(shards_of_run(context, curation.engine), chain_of_kinds(kind.rests_on)))
        step = Step(kind.asset, shards, tuple(metrics), context.run.run_id, options)
        try:
            for metric, made in taken(curation, step, context.log.info):
                counts[metric] = added(counts[metric], made)
        except GivenUp as error:
            context.log.error(str(error))
            curation.results.fail(kind.asset, dict.fromkeys(error.shards, error))
        models = {
            each.model.model_id: model_name(each.model.as_dict()) for _, each in _of_kind(kind, curation, metrics)
        }
        lines = [f"- for {metric}: {escaped(itemised(_without(each, models)))}" for metric, each in counts.items()]
        return dg.MaterializeResult(
            metadata={
                "made by this run": dg.MetadataValue.md("\n".join(lines)),
                "shards counted together": f"{len(shards):,}",
                "models": "; ".join(models.values()),
            }
        )

    return source


def build_source_checks(kind: type[Source[Any]]) -> dg.AssetChecksDefinition:
    """Build the checks of a kind of source. One step evaluates them for all scorers that rest on the kind."""
    specs = [
        dg.AssetCheckSpec(name, asset=kind.asset, description=text, blocking=name not in kind.warnings)
        for name, text in kind.checks.items()
    ]

    @dg.multi_asset_check(name=f"{kind.asset}_checks", specs=specs)
    def checks(
        context: dg.AssetCheckExecutionContext, curation: dg.ResourceParam[Curation]
    ) -> Iterator[dg.AssetCheckResult]:
        shards = curation.results.left(shards_of_run(context, curation.engine), chain_of_kinds([kind]))
        sources = [
            (metric, register(curation.engine, curation.scorers[metric]), source)
            for metric, source in _of_kind(kind, curation, curation.scorers)
        ]
        failed: dict[str, list[str]] = {name: [] for name in kind.checks}
        counts: dict[str, Counter[str]] = {metric: Counter() for metric, _, _ in sources}
        for shard in shards:
            for metric, scorer_id, source in sources:
                order = Order(curation.engine, shard.dataset, shard.number, scorer_id, context.run.run_id)
                examination = source.examine(order)
                counts[metric].update(examination.counts)
                for name in kind.checks:
                    if not examination.passed[name] and shard.key not in failed[name]:
                        failed[name].append(shard.key)
        blocking = {name: keys for name, keys in failed.items() if name not in kind.warnings}
        curation.results.fail(kind.asset, checks_failed(kind.asset, blocking))
        for name, keys in failed.items():
            yield check_result(
                dg.AssetKey(kind.asset),
                name,
                keys,
                len(shards),
                # Where shards are left, only those that failed are kept from being scored.
                warns=name in kind.warnings or len(keys) < len(shards),
                good=kind.checks[name].rstrip("."),
                bad=f"Not true: {kind.checks[name].rstrip('.')}",
                metadata={f"for {metric}": itemised(each) for metric, each in counts.items()},
            )

    return checks


def _of_kind(kind: type[Source[Any]], curation: Curation, metrics: Iterable[str]) -> Iterator[tuple[str, Source[Any]]]:
    """The sources of a kind below these metrics' scorers, each with the metric."""
    for metric in metrics:
        for source in chain(curation.scorers[metric].sources):
            if source.asset == kind.asset:
                yield metric, source


def _without(counts: Mapping[str, Any], models: Collection[str]) -> dict[str, Any]:
    """The counts without the names of models, which stand beside them with their revisions."""
    return {name: value for name, value in counts.items() if value not in models}


def added(counts: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Add counts up; a name, such as that of a model, replaces the one before.

    >>> added({"texts": 2, "encoder": "a"}, {"texts": 3, "encoder": "a"})
    {'texts': 5, 'encoder': 'a'}
    """
    sums = {name: counts.get(name, 0) + value if isinstance(value, int) else value for name, value in more.items()}
    return {**counts, **sums}


def scorers_of_run(context: dg.AssetExecutionContext, curation: Curation) -> dict[str, Scorer]:
    """Return the scorers whose score assets are in this run; all scorers where the run only makes sources."""
    chosen = context.run.asset_selection or frozenset()
    wanted = {m: s for m, s in curation.scorers.items() if dg.AssetKey(asset_name(m)) in chosen}
    return wanted or curation.scorers


source_assets = [build_source_asset(kind) for kind in source_kinds().values()]
source_checks = [build_source_checks(kind) for kind in source_kinds().values() if kind.checks]
