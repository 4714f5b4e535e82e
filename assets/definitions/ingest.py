"""The database tables that ingest fills, as Dagster assets with one partition per dataset."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import dagster as dg

from assets.datasets.lookup import check_dataset_name, require_dataset
from assets.definitions.curation import Curation
from assets.definitions.partitions import DATASETS, register_partitions
from assets.definitions.results import CheckFailed
from assets.definitions.step_errors import explain_failure
from assets.home.settings import read_settings
from assets.ingest.licences import OriginSettings, check_licences
from assets.ingest.manifest_tables import MANIFEST_TABLES
from assets.ingest.report import IngestReport
from assets.ingest.run import ingest_folder
from assets.progress import throttle_lines
from assets.words.text import format_count, format_name
from db.manifest.datasets import Dataset
from db.manifest.removal import count_dataset_rows
from metrics_core.child_processes import locate_path


class _DatabaseTable(NamedTuple):
    name: str
    description: str
    points_to: tuple[str, ...] = ()
    group: str = "ingest"


_DATABASE_TABLES = (
    _DatabaseTable("video", "Videos with the results of probing: duration, frames, codec, hash, status."),
    _DatabaseTable("reference", "Captions that people wrote, with the times of their parts where given.", ("video",)),
    _DatabaseTable("keypoint", "Short statements that a good caption covers, by dimension.", ("video", "reference")),
    _DatabaseTable("sample", "Candidate captions and question-answer pairs: the things that are scored.", ("video",)),
    _DatabaseTable(
        "keypoint_label",
        "Decisions of people or chat models whether a caption covers a keypoint.",
        ("keypoint", "sample"),
    ),
    _DatabaseTable("rating", "Numbers that people gave to captions, by aspect.", ("sample",)),
    _DatabaseTable("video_embedding", "Vectors of videos by encoders of other tools.", ("video",), "embeddings"),
    _DatabaseTable("ingest_reject", "Rows that were refused, with the reason."),
)

LICENCE_CHECK = "licences"
NEW, BEFORE, REFUSED = "new or changed", "as before", "refused rows"


class IngestConfig(dg.Config):
    """The configuration of an ingest: the manifest `folder`, the path of a file of mixed `rows` if there is one, and
    the number of shards of a new dataset. `columns` are names of columns by field, where they differ. `n_workers`:
    as in `ingest_folder`.
    """

    folder: str
    rows: str | None = None
    n_shards: int | None = None
    n_workers: int | None = None
    columns: dict[str, str] = {}  # noqa: RUF012 (a default of pydantic, which copies it)


@dg.multi_asset(
    name="ingest",
    partitions_def=DATASETS,
    specs=[
        dg.AssetSpec(
            table.name,
            description=table.description,
            group_name=table.group,
            deps=table.points_to,
            kinds={"postgres"},
            partitions_def=DATASETS,
        )
        for table in _DATABASE_TABLES
    ],
    check_specs=[
        dg.AssetCheckSpec(
            LICENCE_CHECK,
            asset="video",
            blocking=True,
            partitions_def=DATASETS,
            description="Every video has one of the licences that REELSIEVE_ALLOWED_LICENCES lists.",
        )
    ],
)
@explain_failure
def ingest(
    context: dg.AssetExecutionContext, config: IngestConfig, curation: dg.ResourceParam[Curation]
) -> Iterator[dg.MaterializeResult | dg.AssetCheckResult]:
    """Read a manifest folder into the database, row by row. Table ingest_reject gets the refused rows with reasons."""
    # In the web interface it counts from the folder in which that was started.
    folder = locate_path(config.folder)
    # Someone who adds a partition in the web interface may give it any name.
    check_dataset_name(context.partition_key, folder, curation.home)
    log_sparsely = throttle_lines(context.log.info)
    report = ingest_folder(
        curation.engine,
        folder,
        context.partition_key,
        mixed_rows=locate_path(config.rows) if config.rows else None,
        n_shards=config.n_shards,
        columns=config.columns,
        n_workers=config.n_workers,
        progress=lambda source, n_read: log_sparsely(f"{source}: {format_count(n_read, 'row')} read"),
    )
    curation.results.keep_report("ingest", report)
    dataset = require_dataset(curation.engine, context.partition_key)
    register_partitions(context.instance, dataset)
    with curation.engine.connect() as connection:
        counts = {table.name: count_dataset_rows(connection, dataset, table.name) for table in _DATABASE_TABLES}
    for table in _DATABASE_TABLES:
        metadata = {"dagster/row_count": counts[table.name], **_build_metadata(table.name, report)}
        yield dg.MaterializeResult(asset_key=table.name, metadata=metadata)
    yield _check_licences(curation, dataset)


def _check_licences(curation: Curation, dataset: Dataset) -> dg.AssetCheckResult:
    passed, sentence = check_licences(curation.engine, dataset, read_settings(OriginSettings).allowed_licences)
    if not passed:
        remedy = "select by licence with --where, allow them in REELSIEVE_ALLOWED_LICENCES, or correct the manifest"
        error = CheckFailed(f"a blocking check failed, the rows are kept: {sentence}; {remedy}")
        curation.results.add_errors("video", {dataset.name: error})
    return dg.AssetCheckResult(asset_key="video", check_name=LICENCE_CHECK, passed=passed, description=sentence)


def _build_metadata(name: str, report: IngestReport) -> dict[str, Any]:
    # As text: Dagster draws plots of numbers, and the new rows of single ingests are no time series.
    if name == "ingest_reject":
        remedy = {"why": f"reelsieve dataset rejects {report.dataset} shows the reasons"} if report.rejected else {}
        return {REFUSED: report.rejected, **remedy}
    names = [table.name for table in MANIFEST_TABLES.values() if name in table.database_tables]
    counts = {NEW: report.accepted, BEFORE: report.unchanged}
    return {
        f"{_format_table_name(table)} {word}": f"{count[table]:,}" for table in names for word, count in counts.items()
    }


def _format_table_name(table: str) -> str:
    return "question-answer pairs" if table == "qa" else format_name(table)
