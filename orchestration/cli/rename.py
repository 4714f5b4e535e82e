"""The command rename: gives a dataset another name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from orchestration.cli.dataset_argument import DatasetArgument, DatasetOption, parse_names
from orchestration.cli.output import AsJson, console, print_json
from orchestration.cli.pass_installation import pass_installation

if TYPE_CHECKING:
    from orchestration.installation import Installation


@pass_installation
def rename(
    installation: Installation,
    name: DatasetArgument = None,
    new_name: Annotated[str | None, typer.Argument(metavar="NEW", help="Its new name.")] = None,
    option: DatasetOption = None,
    as_json: AsJson = False,
) -> None:
    """Give a dataset another name. Nothing is scored again; frozen selections show the new name."""
    from orchestration import removal

    old, new = parse_names("rename DATASET NEW", option, name, new_name)
    removal.rename_dataset_everywhere(installation, old, new)
    if as_json:
        print_json({"old": old, "new": new})
        return
    console.print(f"dataset {old} is {new} now", markup=False)
    if (installation.curation.home / "inbox" / old).is_dir():
        console.print(f"rename its folder in the inbox too, or a change there creates {old} again", markup=False)
