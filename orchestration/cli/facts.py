"""The command facts: measures what lacks facts, and shows how the facts of a dataset spread."""

from __future__ import annotations

from orchestration.cli.output import AsJson, DatasetName, print_json, print_rows


def facts(dataset: DatasetName, as_json: AsJson = False) -> None:
    """Describe captions and videos without a model or a reference, and show how each fact spreads.

    Measures what is missing; the same command again goes on. View sample_scores has a column for each fact, and more
    of one is not better.
    """
    from assets.datasets import dataset_of_key
    from db.evidence.facts import fact_spreads
    from orchestration.launch import run_facts
    from orchestration.platform import installed

    described = run_facts(dataset)
    with installed().engine.connect() as connection:
        rows = [
            spread._asdict() for spread in fact_spreads(connection, dataset_of_key(installed().engine, dataset).name)
        ]
    if as_json:
        print_json({"dataset": dataset, "described": described, "facts": rows})
    else:
        print_rows(rows, empty="")
