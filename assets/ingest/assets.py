"""The tables that ingest fills, as assets of a dataset."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg

from assets.curation import Curation
from assets.ingest.rejects import ManifestError
from assets.ingest.run import IngestReport, ingest_folder
from assets.partitions import DATASETS, announce_partitions, dataset_of_key
from assets.progress import sparsely

_DESCRIPTIONS = {
    "video": "Clips with what probing found: duration, frames, codec, hash, status.",
    "reference": "What annotators wrote, timed where they gave times.",
    "keypoint": "Facts that a good caption states, by dimension.",
    "sample": "What is scored: candidate captions and question-answer pairs.",
    "keypoint_label": "Whether a caption covers a keypoint, as people or judges say.",
    "rating": "People's numbers for captions.",
    "ingest_reject": "Rows that were refused, with the reason.",
}
_POINTS_TO = {
    "reference": ["video"],
    "keypoint": ["video", "reference"],
    "sample": ["video"],
    "keypoint_label": ["keypoint", "sample"],
    "rating": ["sample"],
}
_MANIFEST_TABLES = {
    "video": ["videos"],
    "reference": ["captions"],
    "sample": ["captions", "qa"],
    "keypoint": ["keypoints"],
    "keypoint_label": ["keypoint_labels"],
    "rating": ["ratings"],
}

# A dataset's name becomes part of partition keys and of file names.
DATASET_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
# Where the command line finds the whole report among the run's metadata.
REPORT = "ingest_report"


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
        dg.AssetSpec(name, description=text, deps=_POINTS_TO.get(name), kinds={"postgres"}, partitions_def=DATASETS)
        for name, text in _DESCRIPTIONS.items()
    ],
)
def ingest(
    context: dg.AssetExecutionContext, config: IngestConfig, curation: dg.ResourceParam[Curation]
) -> Iterator[dg.MaterializeResult]:
    """Read a manifest folder into the database, row by row; refused rows carry a reason."""
    # In the web interface a partition may be given any name.
    if not DATASET_NAME.fullmatch(context.partition_key):
        raise ManifestError(
            f"dataset name {context.partition_key!r}: use letters, digits, _, . and - only, at most 100 characters"
        )
    tell = sparsely(context.log.info)
    report = ingest_folder(
        curation.engine,
        Path(config.folder),
        context.partition_key,
        mixed_rows=Path(config.rows) if config.rows else None,
        n_shards=config.n_shards,
        progress=lambda source, done: tell(f"{source}: {done} rows read"),
    )
    announce_partitions(context.instance, dataset_of_key(curation.engine, context.partition_key))
    for name in _DESCRIPTIONS:
        yield dg.MaterializeResult(asset_key=name, metadata=_metadata(name, report))


def _metadata(name: str, report: IngestReport) -> dict[str, Any]:
    if name == "ingest_reject":
        return {"rejected": report.rejected, REPORT: dg.MetadataValue.json(report.as_dict())}
    counts = {"accepted": report.accepted, "unchanged": report.unchanged}
    return {f"{table}_{word}": n[table] for table in _MANIFEST_TABLES[name] for word, n in counts.items()}
