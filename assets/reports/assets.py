"""The report of a dataset as an asset."""

from collections.abc import Sequence

import dagster as dg

from assets.curation import Curation
from assets.datasets import dataset_of_key
from assets.lineage import of_all_partitions
from assets.partitions import DATASETS
from assets.progress import sparsely
from assets.reports.report import report_folder, write_stored
from assets.reports.tables import escaped
from assets.scores.description import metrics_told
from assets.scores.registry import SCORERS, asset_name
from db.scores.present import known_metrics


@dg.asset(
    group_name="reports",
    partitions_def=DATASETS,
    deps=[
        "agreement",
        "rating_threshold",
        "rating",
        "keypoint_label",
        *[of_all_partitions(asset_name(name)) for name in SCORERS],
    ],
    kinds={"html"},
)
def dataset_report(context: dg.AssetExecutionContext, curation: dg.ResourceParam[Curation]) -> dg.MaterializeResult:
    """One page: what is in a dataset, which systems are best, which metrics agree with people, samples to look at."""
    dataset = dataset_of_key(curation.engine, context.partition_key)
    folder = report_folder(curation.home, dataset.name)
    judged = curation.judgements.read(context.run.run_id, curation.engine, dataset)
    files = write_stored(curation.engine, dataset, curation.scorers, judged, folder, sparsely(context.log.info))
    with curation.engine.connect() as connection:
        told = metrics_told(connection, dataset.dataset_id, known_metrics(connection, dataset))
    return dg.MaterializeResult(
        metadata={
            **({"read this first": _listed(files.notices)} if files.notices else {}),
            **told,
            "answers": _listed([f"{name}: {line}" for name, line in files.answers.lines()]),
            "path": dg.MetadataValue.path(str(files.page)),
            "numbers": dg.MetadataValue.path(str(files.numbers)),
            # A link of `reelsieve ui`, which serves these pages beside Dagster's.
            "samples": dg.MetadataValue.md(f"[look at them](/look/{dataset.name}), or `reelsieve look {dataset.name}`"),
        }
    )


def _listed(lines: Sequence[str]) -> dg.MetadataValue:
    return dg.MetadataValue.md("\n".join(f"- {escaped(line)}" for line in lines))
