"""The assets of a single dataset without partitions, as somebody declares it in a Dagster project of their own."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg

from assets.curation import Curation
from assets.datasets import RunShard, chosen_shards, dataset_of_key
from assets.ingest.run import ingest_folder
from assets.leases import keep_datasets
from assets.progress import sparsely
from assets.reports.text import itemised
from assets.scores.checks import check_scores, check_specs
from assets.scores.description import metrics_told
from assets.scores.registry import SCORERS, asset_name, scored_along, source_kinds
from assets.selection.assets import subset_made
from assets.sources.assets import added
from assets.sources.base import MissingEvidence
from assets.sources.pool import MODEL_POOL
from assets.steps import Step, taken
from db.manifest.removal import n_rows
from db.selection.recipes import Recipe

SAMPLES, SUBSET = "sample", "training_subset"


def dataset_assets(
    dataset: str, folder: Path, metrics: Sequence[str], recipe: Recipe | None
) -> list[dg.AssetsDefinition]:
    """The captions of a manifest folder, the evidence and the scores of these metrics, and the subset of a recipe.

    Each has the name of the platform's asset behind that of the dataset, and does what that one does on all shards.
    Simple scores that ask no model anything more are made along with the metrics.
    """
    of = _One(dataset, (*metrics, *scored_along(metrics)))
    made = [of.samples(folder), *map(of.evidence, source_kinds(metrics)), *map(of.scores, of.metrics)]
    return made if recipe is None else [*made, of.subset(recipe)]


@dataclass(frozen=True)
class _One:
    """Builds the assets of one dataset."""

    dataset: str
    metrics: tuple[str, ...]

    def samples(self, folder: Path) -> dg.AssetsDefinition:
        @dg.asset(**self._placed(SAMPLES, "postgres"), description=f"Captions of the dataset {self.dataset}.")
        def samples(context: dg.AssetExecutionContext, curation: dg.ResourceParam[Curation]) -> dg.MaterializeResult:
            tell = sparsely(context.log.info)
            with keep_datasets(curation.engine, self.dataset):
                report = ingest_folder(
                    curation.engine, folder, self.dataset, progress=lambda source, n: tell(f"{source}: {n} rows read")
                )
                with curation.engine.connect() as connection:
                    count = n_rows(connection, dataset_of_key(curation.engine, self.dataset), SAMPLES)
            remedy = f": reelsieve rejects --dataset {self.dataset} says why" if report.rejected else ""
            return dg.MaterializeResult(
                metadata={"dagster/row_count": count, "refused rows": f"{report.rejected:,}{remedy}"}
            )

        return samples

    def evidence(self, source: str) -> dg.AssetsDefinition:
        kind = source_kinds()[source]
        resting = tuple(metric for metric in self.metrics if source in source_kinds([metric]))
        below = [SAMPLES, *(each.asset for each in kind.rests_on)]

        @dg.asset(
            **self._placed(source, *kind.kinds),
            deps=[self._key(each) for each in below],
            pool=MODEL_POOL,
            description=kind.description,
        )
        def evidence(context: dg.AssetExecutionContext, curation: dg.ResourceParam[Curation]) -> dg.MaterializeResult:
            counts: dict[str, dict[str, Any]] = {metric: {} for metric in resting}
            for metric, made in taken(curation, self._step(source, resting, context, curation), context.log.info):
                counts[metric] = added(counts[metric], made)
            return dg.MaterializeResult(metadata={f"for {metric}": itemised(each) for metric, each in counts.items()})

        return evidence

    def scores(self, metric: str) -> dg.AssetsDefinition:
        key = self._key(asset_name(metric))
        below = [SAMPLES, *(kind.asset for kind in SCORERS[metric].rests_on)]

        @dg.asset(
            **self._placed(asset_name(metric), "postgres", "numpy"),
            deps=[self._key(each) for each in below],
            check_specs=check_specs(metric, key),
            description=f"Scores of the dataset {self.dataset} by {metric}.",
        )
        def scores(context: dg.AssetExecutionContext, curation: dg.ResourceParam[Curation]) -> dg.MaterializeResult:
            step = self._step(asset_name(metric), (metric,), context, curation)
            n_written = 0
            for _, done in taken(curation, step, context.log.info):
                if isinstance(done, MissingEvidence):
                    raise done
                n_written += done.n_written
            with curation.engine.connect() as connection:
                told = metrics_told(connection, step.shards[0].dataset.dataset_id, [metric])
            return dg.MaterializeResult(
                metadata={**told, "scores written by this run": f"{n_written:,}"},
                check_results=[*check_scores(metric, key, step.shards, curation, context.log.warning)],
            )

        return scores

    def subset(self, recipe: Recipe) -> dg.AssetsDefinition:
        @dg.asset(
            **self._placed(SUBSET, "postgres", "parquet"),
            deps=[self._key(asset_name(metric)) for metric in self.metrics],
            description=f"Captions of the dataset {self.dataset} that a recipe takes, frozen and written as Parquet.",
        )
        def subset(context: dg.AssetExecutionContext, curation: dg.ResourceParam[Curation]) -> dg.MaterializeResult:
            with keep_datasets(curation.engine, self.dataset):
                return subset_made(curation, dataset_of_key(curation.engine, self.dataset), recipe, context.log.info)

        return subset

    def _key(self, asset: str) -> dg.AssetKey:
        return dg.AssetKey([self.dataset, asset])

    def _placed(self, asset: str, *kinds: str) -> dict[str, Any]:
        # A group's name has fewer characters than a dataset's.
        return {"key": self._key(asset), "group_name": re.sub(r"\W", "_", self.dataset), "kinds": set(kinds)}

    def _step(
        self, asset: str, metrics: tuple[str, ...], context: dg.AssetExecutionContext, curation: Curation
    ) -> Step:
        """What to do: all shards of the dataset."""
        dataset = dataset_of_key(curation.engine, self.dataset)
        shards = tuple(RunShard(key, dataset, number) for key, number in chosen_shards(dataset, None).items())
        return Step(asset, shards, metrics, context.run.run_id)
