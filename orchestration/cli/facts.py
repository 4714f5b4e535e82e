"""The command facts: measures missing facts, and shows how the facts of a dataset are distributed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestration.cli.output import AsJson, DatasetName, print_json, print_rows, print_sentence
from orchestration.cli.pass_installation import pass_installation

if TYPE_CHECKING:
    from orchestration.installation import Installation


@pass_installation
def facts(installation: Installation, dataset: DatasetName, as_json: AsJson = False) -> None:
    """Measure missing facts about captions and videos, such as their length, and show how each fact varies.

    No model is needed; with the extra `facts`, small models also measure text on screen and speech.

    Only missing facts are measured, so the same command continues after a stop. `score --facts` measures them too, in
    the pass that decodes a video for its scores. View sample_scores has a column for every fact. These numbers
    describe. A higher one is not better.
    """
    from assets.datasets.lookup import require_dataset
    from assets.words.text import format_count
    from db.evidence.facts import list_measurement_errors, load_fact_spreads
    from orchestration.launch import run_facts

    described = run_facts(installation, dataset)
    with installation.engine.connect() as connection:
        name = require_dataset(installation.engine, dataset).name
        rows = [spread._asdict() for spread in load_fact_spreads(connection, name)]
        errors = list_measurement_errors(connection, name)
    if as_json:
        print_json({"dataset": dataset, "described": described, "facts": rows, "errors": errors})
        return
    print_rows(rows, empty="")
    if errors:
        such_as = ":" if len(errors) == 1 else ", such as"
        print_sentence(f"{format_count(len(errors), 'video')} could not be measured{such_as} {errors[0]}")
