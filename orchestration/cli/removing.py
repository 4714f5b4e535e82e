"""Commands that take a dataset away or give it another name: drop, rename."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from orchestration.cli.output import AsJson, console, print_json, print_rows

Name = Annotated[str, typer.Argument(metavar="DATASET", help="Name of the dataset.")]


def drop(
    dataset: Name,
    yes: Annotated[bool, typer.Option("--yes", help="Drop it without asking.")] = False,
    as_json: AsJson = False,
) -> None:
    """Drop a dataset with its scores and their history; say first what would go, and ask. Frozen selections stay.

    The files of its manifest, its videos, reports and exports stay too. Without a terminal nothing is dropped but with
    --yes.
    """
    from orchestration import removal

    going, n_selections = removal.what_would_go(dataset)
    if not as_json:
        print_rows([{"goes": what, "rows": n} for what, n in going.items()], empty=f"dataset {dataset} is empty")
        console.print(f"stays: {n_selections} frozen selections, and all files", markup=False)
        if n_selections:
            console.print("export them first to have references, durations and own fields in the exports", markup=False)
    is_wanted = yes or (not as_json and sys.stdin.isatty() and typer.confirm(f"drop dataset {dataset}?"))
    if is_wanted:
        removal.drop(dataset)
    if as_json:
        print_json({"dataset": dataset, "dropped": is_wanted, "goes": going, "selections_stay": n_selections})
    else:
        console.print("dropped" if is_wanted else "nothing was dropped; --yes drops it")


def rename(
    old: Annotated[str, typer.Argument(help="Name of the dataset.")],
    new: Annotated[str, typer.Argument(help="Its new name.")],
    as_json: AsJson = False,
) -> None:
    """Give a dataset another name. Nothing is scored again; frozen selections show the new name."""
    from orchestration import removal
    from orchestration.platform import curation

    removal.rename(old, new)
    if as_json:
        print_json({"old": old, "new": new})
        return
    console.print(f"dataset {old} is {new} now", markup=False)
    if (curation().home / "inbox" / old).is_dir():
        console.print(f"rename its folder in the inbox too, or a change there makes {old} anew", markup=False)
