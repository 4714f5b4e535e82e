"""The command prove: does a model train better on a selection than on other captions of the dataset?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from orchestration.cli.output import AsJson, console, print_json, print_rows, show_progress
from orchestration.cli.pass_installation import pass_installation

if TYPE_CHECKING:
    from orchestration.installation import Installation


@pass_installation
def prove(
    installation: Installation,
    selection: Annotated[int, typer.Argument(help="Number of the selection.")],
    beside: Annotated[
        list[int] | None, typer.Option(help="Another selection of the dataset to compare; may be given several times.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=5, max=100, help="Students trained for every arm.")] = 5,
    as_json: AsJson = False,
) -> None:
    """Train small students on a selection and on other captions, and compare them on held-out videos."""
    from assets.trial.sentences import explain_trial, list_arm_rows
    from assets.trial.trial import run_trial

    with show_progress() as tell:
        trial = run_trial(installation.engine, installation.curation.scorers, selection, beside or [], tell, seeds)
    sentences = explain_trial(trial)
    if as_json:
        print_json({**trial.as_dict(), "sentences": sentences})
        return
    for sentence in sentences:
        console.print(sentence, markup=False, soft_wrap=True)
    console.print()
    print_rows(list_arm_rows(trial.arms), empty="")
