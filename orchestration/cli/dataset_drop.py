"""The command dataset drop: deletes a dataset, or the scores that were imported under a name."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from orchestration.cli.output import AsJson, DatasetName, print_json, print_rows, print_sentence
from orchestration.cli.pass_installation import pass_installation

if TYPE_CHECKING:
    from orchestration.installation import Installation


@pass_installation
def drop(
    installation: Installation,
    dataset: DatasetName,
    metric: Annotated[str | None, typer.Option(help="Drop only the scores that were imported under this name.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Drop it without asking.")] = False,
    as_json: AsJson = False,
) -> None:
    """Delete a dataset with its scores and their history; first list what would go, and ask. Frozen selections stay.

    The files of its manifest, its videos, reports and exports stay too. Without a terminal nothing is dropped unless
    --yes is given. With --metric only scores go that rs.import_scores stored; the last of them takes the column along.
    """
    from assets.words.text import format_count
    from orchestration import removal

    going, n_selections = removal.count_droppable_rows(installation, dataset, metric)
    meant = f"the imported scores of {metric} from dataset {dataset}" if metric else f"dataset {dataset}"
    if not as_json:
        print_rows([{"goes": what, "rows": n} for what, n in going.items()], empty=f"nothing is in {meant}")
        print_sentence(f"stays: {format_count(n_selections, 'frozen selection')}, and all files")
        if n_selections:
            print_sentence(
                "export the selections first: later exports lack references, durations and fields of the manifest"
            )
    is_wanted = yes or (not as_json and sys.stdin.isatty() and typer.confirm(f"drop {meant}?"))
    if is_wanted and metric:
        removal.remove_imported_scores(installation, dataset, metric)
    elif is_wanted:
        removal.drop_dataset_everywhere(installation, dataset)
    if as_json:
        print_json({"dataset": dataset, "dropped": is_wanted, "goes": going, "selections_stay": n_selections})
    else:
        print_sentence("dropped" if is_wanted else "nothing was dropped; --yes drops it")
