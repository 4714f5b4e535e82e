"""The command rename: gives a dataset another name."""

from __future__ import annotations

from typing import Annotated

import typer

from orchestration.cli.dataset_argument import DatasetToo, Name, read_names
from orchestration.cli.output import AsJson, console, print_json


def rename(
    name: Name = None,
    new_name: Annotated[str | None, typer.Argument(metavar="NEW", help="Its new name.")] = None,
    option: DatasetToo = None,
    as_json: AsJson = False,
) -> None:
    """Give a dataset another name. Nothing is scored again; frozen selections show the new name."""
    from orchestration import removal
    from orchestration.platform import installed

    old, new = read_names("rename DATASET NEW", option, name, new_name)
    removal.rename(old, new)
    if as_json:
        print_json({"old": old, "new": new})
        return
    console.print(f"dataset {old} is {new} now", markup=False)
    if (installed().curation.home / "inbox" / old).is_dir():
        console.print(f"rename its folder in the inbox too, or a change there makes {old} anew", markup=False)
