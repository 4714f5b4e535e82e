"""Commands that freeze subsets and write them out: select, export."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from orchestration.cli.output import AsJson, DatasetName, console, print_json


def select(
    dataset: DatasetName,
    by: Annotated[str, typer.Option(help="Metric that ranks the samples.")] = "vcs",
    keep: Annotated[
        float, typer.Option(help="Share to keep of the samples that have a score and pass --where.")
    ] = 0.125,
    where: Annotated[
        str | None, typer.Option(help="""A condition, such as "vcs > 0.3 and system != 'brief'".""")
    ] = None,
    export: Annotated[Path | None, typer.Option(help="Also write it to this .parquet or .jsonl file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Freeze the best samples: rows, rule, cutoff and score hash. The same rule and scores give the same selection."""
    from assets.datasets import dataset_of_key
    from assets.reports.labels import metric_label
    from assets.selection.export import export_selection, export_target
    from db.selection import freeze_selection
    from orchestration.platform import engine

    if export:
        export_target(export)
    dataset_row = dataset_of_key(engine(), dataset)
    with engine().begin() as connection:
        chosen = freeze_selection(connection, dataset_row, by=by, keep=keep, where=where)
        label = metric_label(connection, by)
    path = export_selection(engine(), chosen.selection_id, export) if export else None
    if as_json:
        answer = {
            "selection_id": chosen.selection_id,
            "n": chosen.n,
            "cutoff": chosen.cutoff,
            "path": str(path) if path else None,
            "n_eligible": chosen.n_eligible,
            "score_hash": chosen.score_hash,
            "by": label,
        }
        print_json(answer)
        return
    console.print(
        f"selection {chosen.selection_id}: {chosen.n} of {chosen.n_eligible} samples of {dataset}, "
        f"{label} at least {chosen.cutoff:.4f}" + ("" if chosen.is_new else " (made before, unchanged)")
    )
    console.print(
        f"written to {path}" if path else f"write it with: reelsieve export {chosen.selection_id} FILE.parquet",
        markup=False,
    )


def export(
    selection_id: Annotated[int, typer.Argument(help="Number of the selection.")],
    path: Annotated[Path, typer.Argument(help="A .parquet or .jsonl file.")],
    as_json: AsJson = False,
) -> None:
    """Write a frozen selection to a file, in order of rank."""
    from assets.selection.export import export_selection
    from orchestration.platform import engine

    written = export_selection(engine(), selection_id, path)
    if as_json:
        print_json({"selection_id": selection_id, "path": str(written)})
    else:
        console.print(f"written to {written}", markup=False)
