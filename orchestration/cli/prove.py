"""The command prove: does a model train better on a selection than on other captions of the dataset?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestration.cli.output import AsJson, console, print_json, print_rows, print_sentence, show_progress
from orchestration.cli.pass_installation import pass_installation

if TYPE_CHECKING:
    from db.selection.trials import Trial
    from orchestration.installation import Installation


@pass_installation
def prove(
    installation: Installation,
    selection: Annotated[int, typer.Argument(help="Number of the selection.")],
    beside: Annotated[
        list[int] | None, typer.Option(help="Number of another selection of the dataset to compare; may be repeated.")
    ] = None,
    curve: Annotated[
        list[float] | None,
        typer.Option(help="Share of the samples to try by the same recipe, such as 0.25; may be repeated."),
    ] = None,
    seeds: Annotated[int, typer.Option(min=5, max=100, help="Number of students to train for every arm.")] = 5,
    trainer: Annotated[
        str, typer.Option(help="Command that trains your own model on a folder, instead of the small student.")
    ] = "",
    results: Annotated[
        Path | None, typer.Option(help="Folder of your own trainer's runs; without --trainer, folder of its results.")
    ] = None,
    limit: Annotated[float, typer.Option(min=1, help="Seconds after which to end a run of --trainer.")] = 86400,
    as_json: AsJson = False,
) -> None:
    """Train small students on a selection and on other captions, and compare them on held-out videos.

    The result is stored. A trial that was stopped continues where it was.
    """
    from assets.trial.sentences import describe_trial, explain_trial, list_arm_rows
    from assets.trial.setup import TrialRequest
    from assets.trial.trial import run_trial

    request = TrialRequest(selection, beside or [], curve or [], seeds, trainer, results, limit)
    curation = installation.curation
    with show_progress() as tell:
        trial = run_trial(installation.engine, curation.scorers, curation.home, request, tell)
    if as_json:
        print_json(describe_trial(trial))
    else:
        for sentence in explain_trial(trial):
            console.print(sentence)
        console.print()
        print_rows(list_arm_rows(trial), empty="")
        if curves := _list_curve_rows(trial):
            print_sentence("\nMean reciprocal rank of the validation videos by step")
            print_rows(curves, empty="")
    if trial.arms[0].value is None:
        raise typer.Exit(1)


def _list_curve_rows(trial: Trial) -> list[dict[str, object]]:
    """A row of a table for every arm that has a curve: the mean reciprocal rank of the validation videos after
    8, 16, 32 .. steps; None after the first of its students stopped.
    """
    steps = [step for step in sorted({step for arm in trial.arms for step in arm.curve}) if step.bit_count() == 1]
    return [
        {"arm": arm.arm, **{f"{step:,} steps": arm.curve.get(step) for step in steps}}
        for arm in trial.arms
        if arm.curve
    ]
