"""The assets of a single dataset without partitions, which other people declare in a Dagster project of their own."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg

from assets.datasets.leases import hold_datasets
from assets.datasets.lookup import RunShard, choose_shards, require_dataset
from assets.definitions.curation import Curation, Step
from assets.definitions.evidence import add_counts
from assets.definitions.model_pool import MODEL_POOL
from assets.definitions.score_checks import WARNINGS, build_check_specs, examine_scores
from assets.definitions.score_metadata import load_mean_metadata
from assets.definitions.selection import make_training_subset
from assets.definitions.step_errors import explain_failure
from assets.definitions.steps import run_step
from assets.ingest.run import ingest_folder
from assets.metrics.registry import SCORERS, build_score_asset_name, list_accompanying_scores, list_source_classes
from assets.progress import throttle_lines
from assets.sources.base import MissingEvidence
from assets.words.text import format_count, format_items
from db.manifest.removal import count_dataset_rows
from db.selection.recipes import Recipe

SAMPLES, SUBSET = "sample", "training_subset"


def build_dataset_assets(
    dataset: str, folder: Path, metrics: Sequence[str], recipe: Recipe | None
) -> list[dg.AssetsDefinition]:
    """Build Dagster assets for one dataset: its samples, the evidence and scores of these metrics, and a recipe's
    subset. Their keys are [dataset, asset name]. Simple scores that need no other model are added; without a recipe
    there is no subset. folder: the manifest that is ingested.

    Each asset does what the platform's asset of that name does, on all shards.
    """
    builder = _DatasetAssetBuilder(dataset, (*metrics, *list_accompanying_scores(metrics)))
    assets = [
        builder.build_samples(folder),
        *map(builder.build_evidence, list_source_classes(metrics)),
        *map(builder.build_scores, builder.metrics),
    ]
    return assets if recipe is None else [*assets, builder.build_subset(recipe)]


@dataclass(frozen=True)
class _DatasetAssetBuilder:
    """The builder of one dataset's assets."""

    dataset: str
    metrics: tuple[str, ...]

    def build_samples(self, folder: Path) -> dg.AssetsDefinition:
        @dg.asset(
            **self._build_asset_options(SAMPLES, "postgres"), description=f"Captions of the dataset {self.dataset}."
        )
        @explain_failure
        def samples(context: dg.AssetExecutionContext, curation: dg.ResourceParam[Curation]) -> dg.MaterializeResult:
            tell = throttle_lines(context.log.info)
            with hold_datasets(curation.engine, self.dataset):
                report = ingest_folder(
                    curation.engine,
                    folder,
                    self.dataset,
                    progress=lambda source, n: tell(f"{source}: {format_count(n, 'row')} read"),
                )
                with curation.engine.connect() as connection:
                    count = count_dataset_rows(connection, require_dataset(curation.engine, self.dataset), SAMPLES)
            remedy = f"; reelsieve dataset rejects {self.dataset} shows the reasons" if report.rejected else ""
            return dg.MaterializeResult(
                metadata={"dagster/row_count": count, "refused rows": f"{report.rejected:,}{remedy}"}
            )

        return samples

    def build_evidence(self, source: str) -> dg.AssetsDefinition:
        kind = list_source_classes()[source]
        resting = tuple(metric for metric in self.metrics if source in list_source_classes([metric]))
        upstream = [SAMPLES, *(needed.asset for needed in kind.rests_on)]

        @dg.asset(
            **self._build_asset_options(source, *kind.kinds),
            deps=[self._build_key(name) for name in upstream],
            pool=MODEL_POOL,
            description=kind.description,
        )
        @explain_failure
        def evidence(context: dg.AssetExecutionContext, curation: dg.ResourceParam[Curation]) -> dg.MaterializeResult:
            counts: dict[str, dict[str, Any]] = {metric: {} for metric in resting}
            for metric, made in run_step(
                curation, self._build_step(source, resting, context, curation), context.log.info
            ):
                counts[metric] = add_counts(counts[metric], made)
            return dg.MaterializeResult(
                metadata={f"for {metric}": format_items(count) for metric, count in counts.items()}
            )

        return evidence

    def build_scores(self, metric: str) -> dg.AssetsDefinition:
        key = self._build_key(build_score_asset_name(metric))
        upstream = [SAMPLES, *(kind.asset for kind in SCORERS[metric].rests_on)]

        @dg.asset(
            **self._build_asset_options(build_score_asset_name(metric), "postgres", "numpy"),
            deps=[self._build_key(name) for name in upstream],
            check_specs=build_check_specs(metric, key),
            description=f"Scores of the dataset {self.dataset} by {metric}.",
        )
        @explain_failure
        def scores(context: dg.AssetExecutionContext, curation: dg.ResourceParam[Curation]) -> dg.MaterializeResult:
            step = self._build_step(build_score_asset_name(metric), (metric,), context, curation)
            n_written = 0
            for _, done in run_step(curation, step, context.log.info):
                if isinstance(done, MissingEvidence):
                    raise done
                n_written += done.n_written
            dataset = require_dataset(curation.engine, self.dataset)
            with curation.engine.connect() as connection:
                means = load_mean_metadata(connection, dataset.dataset_id, [metric])
            found = examine_scores(curation, metric, dataset, context.log.warning)
            return dg.MaterializeResult(
                metadata={**means, "scores written by this run": f"{n_written:,}"},
                check_results=[
                    dg.AssetCheckResult(
                        check_name=name,
                        passed=finding.passed,
                        severity=dg.AssetCheckSeverity.WARN if name in WARNINGS else dg.AssetCheckSeverity.ERROR,
                        description=f"{finding.sentence}.",
                    )
                    for name, finding in found.items()
                ],
            )

        return scores

    def build_subset(self, recipe: Recipe) -> dg.AssetsDefinition:
        @dg.asset(
            **self._build_asset_options(SUBSET, "postgres", "parquet"),
            deps=[self._build_key(build_score_asset_name(metric)) for metric in self.metrics],
            description=f"Captions of the dataset {self.dataset} that a recipe selects, frozen and written as Parquet.",
        )
        @explain_failure
        def subset(context: dg.AssetExecutionContext, curation: dg.ResourceParam[Curation]) -> dg.MaterializeResult:
            with hold_datasets(curation.engine, self.dataset):
                return make_training_subset(
                    curation, require_dataset(curation.engine, self.dataset), recipe, context.log.info
                )

        return subset

    def _build_key(self, asset: str) -> dg.AssetKey:
        return dg.AssetKey([self.dataset, asset])

    def _build_asset_options(self, asset: str, *kinds: str) -> dict[str, Any]:
        # A group's name has fewer characters than a dataset's.
        return {"key": self._build_key(asset), "group_name": re.sub(r"\W", "_", self.dataset), "kinds": set(kinds)}

    def _build_step(
        self, asset: str, metrics: tuple[str, ...], context: dg.AssetExecutionContext, curation: Curation
    ) -> Step:
        """Build the step that computes an asset on all shards of the dataset."""
        dataset = require_dataset(curation.engine, self.dataset)
        shards = tuple(RunShard(key, dataset, number) for key, number in choose_shards(dataset, None).items())
        return Step(asset, shards, metrics, context.run.run_id)
