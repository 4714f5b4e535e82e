"""The command rename: gives a dataset another name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from orchestration.cli.dataset_argument import DatasetToo, Name, read_names
from orchestration.cli.installation import with_installation
from orchestration.cli.output import AsJson, console, print_json

if TYPE_CHECKING:
    from orchestration.platform import Installation


@with_installation
def rename(
    installation: Installation,
    name: Name = None,
    new_name: Annotated[str | None, typer.Argument(metavar="NEW", help="Its new name.")] = None,
    option: DatasetToo = None,
    as_json: AsJson = False,
) -> None:
    """Give a dataset another name. Nothing is scored again; frozen selections show the new name."""
    from orchestration import removal

    old, new = read_names("rename DATASET NEW", option, name, new_name)
    removal.rename(installation, old, new)
    if as_json:
        print_json({"old": old, "new": new})
        return
    console.print(f"dataset {old} is {new} now", markup=False)
    if (installation.curation.home / "inbox" / old).is_dir():
        console.print(f"rename its folder in the inbox too, or a change there makes {old} anew", markup=False)
