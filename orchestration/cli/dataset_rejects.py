"""The command dataset rejects: lists the rows that ingest refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestration.cli.output import AsJson, DatasetName, print_json, print_rows
from orchestration.cli.pass_installation import pass_installation

if TYPE_CHECKING:
    from orchestration.installation import Installation


@pass_installation
def show_rejects(installation: Installation, dataset: DatasetName, as_json: AsJson = False) -> None:
    """List the rows that the last ingest of every file refused, with the reasons."""
    from assets.datasets.lookup import require_dataset
    from db.manifest.rejects import list_rejects

    dataset_row = require_dataset(installation.engine, dataset)
    with installation.engine.connect() as connection:
        rows = list_rejects(connection, dataset_row.dataset_id)
    if as_json:
        print_json(rows)
    else:
        print_rows(rows, empty=f"no row of {dataset} was refused")
