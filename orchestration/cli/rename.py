"""The command rename: gives a dataset another name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from orchestration.cli.output import AsJson, DatasetName, console, print_json
from orchestration.cli.pass_installation import pass_installation

if TYPE_CHECKING:
    from orchestration.installation import Installation


@pass_installation
def rename(
    installation: Installation,
    dataset: DatasetName,
    new_name: Annotated[str, typer.Argument(metavar="NEW", help="Its new name.")],
    as_json: AsJson = False,
) -> None:
    """Give a dataset another name. Nothing is scored again; frozen selections show the new name."""
    from orchestration import removal

    removal.rename_dataset_everywhere(installation, dataset, new_name)
    if as_json:
        print_json({"old": dataset, "new": new_name})
        return
    console.print(f"dataset {dataset} is {new_name} now", markup=False)
    if (installation.curation.home / "inbox" / dataset).is_dir():
        console.print(f"rename its folder in the inbox too, or a change there creates {dataset} again", markup=False)
