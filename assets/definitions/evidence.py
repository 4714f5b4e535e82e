"""The Dagster assets that make evidence: one for every class of source, with its checks."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import dagster as dg

from assets.datasets.lookup import SHARDS_PER_GROUP, RunShard
from assets.definitions.curation import Curation, Step
from assets.definitions.model_pool import MODEL_POOL
from assets.definitions.partitions import SHARDS
from assets.definitions.shards import Finding, build_shard_checks, load_run_shards
from assets.definitions.step_errors import explain_failure
from assets.definitions.steps import StepAbandoned, run_step
from assets.metrics.registry import build_score_asset_name, list_source_classes
from assets.scores.base import Scorer
from assets.scores.pending import store_scorer
from assets.sources.base import Order, Source, sort_source_classes, walk_sources
from assets.words.labels import format_model
from assets.words.tables import escape_markdown
from assets.words.text import format_items


def build_source_asset(source_class: type[Source[Any]]) -> dg.AssetsDefinition:
    """Build the Dagster asset that makes the evidence of a source class for all scorers of a run that need it. It makes
    and stores only what the scorers lack, so a run that was interrupted continues where it stopped. Shards that failed
    are left out and noted in `curation.results`.
    """

    @dg.asset(
        name=source_class.asset,
        group_name=source_class.group,
        partitions_def=SHARDS,
        deps=[*(below.asset for below in source_class.rests_on), *source_class.reads],
        kinds=set(source_class.kinds),
        pool=MODEL_POOL,
        backfill_policy=dg.BackfillPolicy.multi_run(SHARDS_PER_GROUP),
        description=source_class.description,
        config_schema={name: dg.Field(bool, default_value=default) for name, default in source_class.options.items()},
    )
    @explain_failure
    def source(context: dg.AssetExecutionContext, curation: dg.ResourceParam[Curation]) -> dg.MaterializeResult:
        options = context.op_execution_context.op_config or {}
        metrics = [
            metric
            for metric in choose_run_scorers(context, curation)
            if source_class.asset in list_source_classes([metric])
        ]
        counts: dict[str, dict[str, Any]] = {metric: {} for metric in metrics}
        shards = tuple(
            curation.results.list_unfailed_shards(
                load_run_shards(context, curation.engine), sort_source_classes(source_class.rests_on)
            )
        )
        step = Step(source_class.asset, shards, tuple(metrics), context.run.run_id, options)
        try:
            for metric, made in run_step(curation, step, context.log.info):
                counts[metric] = add_counts(counts[metric], made)
        except StepAbandoned as error:
            context.log.error(str(error))
            curation.results.add_errors(source_class.asset, dict.fromkeys(error.shards, error))
        models = {
            source.model.model_id: format_model(source.model.as_dict())
            for _, source in _find_sources(source_class, curation, metrics)
        }
        lines = [
            f"- for {metric}: {escape_markdown(format_items(_omit_model_names(made, models)))}"
            for metric, made in counts.items()
        ]
        return dg.MaterializeResult(
            metadata={
                "made by this run": dg.MetadataValue.md("\n".join(lines)),
                "shards counted together": f"{len(shards):,}",
                "models": "; ".join(models.values()),
            }
        )

    return source


def build_source_checks(source_class: type[Source[Any]]) -> dg.AssetChecksDefinition:
    """Build the Dagster checks of a source class, which look at the evidence stored for every scorer that needs it. One
    step evaluates all of them for every shard of its run that has not failed before. Shards that fail a blocking check
    are noted in `curation.results`, and are not scored.
    """
    specs = [
        dg.AssetCheckSpec(
            name,
            asset=source_class.asset,
            description=text,
            blocking=name not in source_class.warnings,
            partitions_def=SHARDS,
        )
        for name, text in source_class.checks.items()
    ]

    def examine(
        context: dg.AssetCheckExecutionContext, curation: Curation
    ) -> Iterator[tuple[RunShard, dict[str, Finding]]]:
        sources = [
            (metric, store_scorer(curation.engine, curation.scorers[metric]), source)
            for metric, source in _find_sources(source_class, curation, curation.scorers)
        ]
        for shard in curation.results.list_unfailed_shards(
            load_run_shards(context, curation.engine), sort_source_classes([source_class])
        ):
            examinations = {
                metric: source.examine(
                    Order(curation.engine, shard.dataset, shard.number, scorer_id, context.run.run_id)
                )
                for metric, scorer_id, source in sources
            }
            metadata = {f"for {metric}": format_items(each.counts) for metric, each in examinations.items()}
            holds = {name: all(each.passed[name] for each in examinations.values()) for name in source_class.checks}
            yield (
                shard,
                {
                    name: Finding(
                        holds[name], text.rstrip(".") if holds[name] else f"Not true: {text.rstrip('.')}", metadata
                    )
                    for name, text in source_class.checks.items()
                },
            )

    # The shards that pass are scored.
    return build_shard_checks(source_class.asset, specs, source_class.warnings, examine, stops=False)


def _find_sources(
    kind: type[Source[Any]], curation: Curation, metrics: Iterable[str]
) -> Iterator[tuple[str, Source[Any]]]:
    """Yield (metric, source) for all sources with the asset of this class that the scorers of the metrics need."""
    for metric in metrics:
        for source in walk_sources(curation.scorers[metric].sources):
            if source.asset == kind.asset:
                yield metric, source


def _omit_model_names(counts: Mapping[str, Any], models: Collection[str]) -> dict[str, Any]:
    """Return the counts without the names of models, which are shown separately with their revisions."""
    return {name: value for name, value in counts.items() if value not in models}


def add_counts(counts: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sums of two sets of counts, by name; a count with a name in only one of them stays as it is. A text,
    such as a model's name, is taken from `more`.

    >>> add_counts({"texts": 2, "encoder": "a"}, {"texts": 3, "encoder": "a"})
    {'texts': 5, 'encoder': 'a'}
    """
    sums = {name: counts.get(name, 0) + value if isinstance(value, int) else value for name, value in more.items()}
    return {**counts, **sums}


def choose_run_scorers(context: dg.AssetExecutionContext, curation: Curation) -> dict[str, Scorer]:
    """Return the scorers whose score assets this run includes, by metric; all scorers of the installation if the run
    includes no score asset.
    """
    chosen = context.run.asset_selection or frozenset()
    scorers = {m: s for m, s in curation.scorers.items() if dg.AssetKey(build_score_asset_name(m)) in chosen}
    return scorers or curation.scorers


source_assets = [build_source_asset(kind) for kind in list_source_classes().values()]
source_checks = [build_source_checks(kind) for kind in list_source_classes().values() if kind.checks]
