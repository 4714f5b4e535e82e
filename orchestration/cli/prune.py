"""The command prune: deletes data that nothing needs any more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from orchestration.cli.output import AsJson, console, print_json, print_rows
from orchestration.cli.pass_installation import pass_installation

if TYPE_CHECKING:
    from orchestration.installation import Installation


@pass_installation
def prune(
    installation: Installation,
    days: Annotated[int, typer.Option(min=1, help="How many days runs and ticks of Dagster are kept.")] = 30,
    yes: Annotated[
        bool, typer.Option("--yes", help="Delete the data; without this option they are only listed.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List data that nothing needs: old runs and ticks of Dagster, evidence of retired scorers. With --yes delete it.

    Scores, their history and selections are never deleted.
    """
    from orchestration import retention

    prunable = retention.load_prunable_data(installation, days)
    if yes:
        retention.delete_prunable_data(installation, prunable)
    if as_json:
        print_json({"deleted": yes, "found": prunable.rows})
        return
    print_rows(prunable.rows, empty="nothing to delete")
    if prunable.rows:
        console.print("deleted" if yes else "nothing was deleted; --yes deletes it")
