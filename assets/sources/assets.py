"""One asset for every kind of source, with its checks. One factory builds them all."""

from collections.abc import Iterator, Mapping
from typing import Any

import dagster as dg

from assets.curation import Curation
from assets.datasets import shard_of_key
from assets.partitions import SHARDS
from assets.progress import sparsely
from assets.scores.base import Scorer
from assets.scores.pending import make_source, register
from assets.scores.registry import asset_name, source_kinds
from assets.sources.base import Order, Source, chain

# One model at a time on one machine.
MODEL_POOL = "encoder"


def build_source_asset(kind: type[Source[Any]]) -> dg.AssetsDefinition:
    """Build the asset that makes evidence of one kind. It makes only what scorers lack, so every run can be resumed."""

    @dg.asset(
        name=kind.asset,
        group_name=kind.group,
        partitions_def=SHARDS,
        deps=[*(below.asset for below in kind.rests_on), *kind.reads],
        kinds=set(kind.kinds),
        pool=MODEL_POOL,
        description=kind.description,
        config_schema={name: dg.Field(bool, default_value=default) for name, default in kind.options.items()},
    )
    def source(context: dg.AssetExecutionContext, curation: dg.ResourceParam[Curation]) -> dg.MaterializeResult:
        metadata: dict[str, int | str] = {}
        for metric, scorer in scorers_of_run(context, curation).items():
            if kind.asset in source_kinds([metric]):
                order = _order(context, curation, scorer, context.op_execution_context.op_config or {})
                counts = make_source(scorer, kind, order)
                metadata |= {f"{metric}_{name}": value for name, value in counts.items()}
        return dg.MaterializeResult(metadata=metadata)

    return source


def build_source_checks(kind: type[Source[Any]]) -> dg.AssetChecksDefinition:
    """Build the checks of a kind of source. One step evaluates them for all scorers that rest on the kind."""
    specs = [
        dg.AssetCheckSpec(
            name, asset=kind.asset, description=text, blocking=name not in kind.warnings, partitions_def=SHARDS
        )
        for name, text in kind.checks.items()
    ]

    @dg.multi_asset_check(name=f"{kind.asset}_checks", specs=specs)
    def checks(
        context: dg.AssetCheckExecutionContext, curation: dg.ResourceParam[Curation]
    ) -> Iterator[dg.AssetCheckResult]:
        passed = dict.fromkeys(kind.checks, True)
        counts: dict[str, int] = {}
        for metric, scorer in curation.scorers.items():
            for source in chain(scorer.sources):
                if isinstance(source, kind):
                    examination = source.examine(_order(context, curation, scorer, {}))
                    passed = {name: so_far and examination.passed[name] for name, so_far in passed.items()}
                    counts |= {f"{metric}_{name}": n for name, n in examination.counts.items()}
        for name, has_passed in passed.items():
            severity = dg.AssetCheckSeverity.WARN if name in kind.warnings else dg.AssetCheckSeverity.ERROR
            yield dg.AssetCheckResult(
                asset_key=kind.asset, check_name=name, passed=has_passed, severity=severity, metadata=counts
            )

    return checks


def scorers_of_run(context: dg.AssetExecutionContext, curation: Curation) -> dict[str, Scorer]:
    """Return the scorers whose score assets are in this run; all scorers where the run only makes sources."""
    chosen = context.run.asset_selection or frozenset()
    wanted = {m: s for m, s in curation.scorers.items() if dg.AssetKey(asset_name(m)) in chosen}
    return wanted or curation.scorers


def _order(
    context: dg.AssetExecutionContext | dg.AssetCheckExecutionContext,
    curation: Curation,
    scorer: Scorer,
    options: Mapping[str, bool],
) -> Order:
    dataset, shard = shard_of_key(curation.engine, context.partition_key)
    return Order(
        curation.engine,
        dataset,
        shard,
        register(curation.engine, scorer),
        context.run.run_id,
        sparsely(context.log.info),
        options,
    )


source_assets = [build_source_asset(kind) for kind in source_kinds().values()]
source_checks = [build_source_checks(kind) for kind in source_kinds().values() if kind.checks]
