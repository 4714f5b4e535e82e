"""The database tables that ingest fills, as assets with one partition per dataset."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import dagster as dg

from assets.curation import Curation
from assets.datasets import check_dataset_name, dataset_of_key
from assets.ingest.manifest_tables import MANIFEST_TABLES
from assets.ingest.report import IngestReport
from assets.ingest.run import ingest_folder
from assets.partitions import DATASETS, announce_partitions
from assets.progress import sparsely


class _DatabaseTable(NamedTuple):
    name: str
    description: str
    points_to: tuple[str, ...] = ()


_DATABASE_TABLES = (
    _DatabaseTable("video", "Clips with the results of probing: duration, frames, codec, hash, status."),
    _DatabaseTable("reference", "Captions that annotators wrote, timed where they gave times.", ("video",)),
    _DatabaseTable("keypoint", "Facts that a good caption states, by dimension.", ("video", "reference")),
    _DatabaseTable("sample", "Candidate captions and question-answer pairs: the things that are scored.", ("video",)),
    _DatabaseTable(
        "keypoint_label",
        "Decisions of people or judges whether a caption covers a keypoint.",
        ("keypoint", "sample"),
    ),
    _DatabaseTable("rating", "People's numbers for captions.", ("sample",)),
    _DatabaseTable("ingest_reject", "Rows that were refused, with the reason."),
)

# The name of the metadata in which the command line finds the whole report of a run.
REPORT = "whole report"


class IngestConfig(dg.Config):
    """What to ingest: a manifest folder, a file of mixed rows, and the number of shards of a new dataset."""

    folder: str
    rows: str | None = None
    n_shards: int | None = None


@dg.multi_asset(
    name="ingest",
    group_name="ingest",
    partitions_def=DATASETS,
    specs=[
        dg.AssetSpec(
            table.name,
            description=table.description,
            deps=table.points_to,
            kinds={"postgres"},
            partitions_def=DATASETS,
        )
        for table in _DATABASE_TABLES
    ],
)
def ingest(
    context: dg.AssetExecutionContext, config: IngestConfig, curation: dg.ResourceParam[Curation]
) -> Iterator[dg.MaterializeResult]:
    """Read a manifest folder into the database, row by row. Table ingest_reject has the refused rows and why."""
    # Someone who adds a partition in the web interface may give it any name.
    check_dataset_name(context.partition_key, Path(config.folder), curation.home)
    log_sparsely = sparsely(context.log.info)
    report = ingest_folder(
        curation.engine,
        Path(config.folder),
        context.partition_key,
        mixed_rows=Path(config.rows) if config.rows else None,
        n_shards=config.n_shards,
        progress=lambda source, n_read: log_sparsely(f"{source}: {n_read} rows read"),
    )
    announce_partitions(context.instance, dataset_of_key(curation.engine, context.partition_key))
    for table in _DATABASE_TABLES:
        yield dg.MaterializeResult(asset_key=table.name, metadata=_metadata(table.name, report))


def _metadata(name: str, report: IngestReport) -> dict[str, Any]:
    if name == "ingest_reject":
        said = (
            f"{report.rejected:,}: reelsieve rejects --dataset {report.dataset} says why" if report.rejected else "none"
        )
        return {"refused rows": said, REPORT: dg.MetadataValue.json(report.as_dict())}
    names = [table.name for table in MANIFEST_TABLES.values() if name in table.database_tables]
    new, as_before = report.accepted, report.unchanged
    return {f"rows of {table}": f"{new[table]:,} new or changed, {as_before[table]:,} as before" for table in names}
