"""The command doctor: checks everything that this installation needs."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from orchestration.cli.output import AsJson, console, print_json, print_rows, print_sentence
from orchestration.cli.pass_installation import pass_installation

if TYPE_CHECKING:
    from orchestration.installation import Installation


@pass_installation
def doctor(
    installation: Installation,
    models: Annotated[
        bool, typer.Option("--models", help="List the files of the models in force, and the missing ones.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check everything that this installation needs, and print how to fix what fails. Exit code 1 if anything fails."""
    from orchestration.doctor import run_doctor_checks

    if models:
        _models(as_json)
        return
    findings = run_doctor_checks(installation)
    if as_json:
        print_json([finding.as_dict() for finding in findings])
    else:
        for finding in findings:
            mark, style = ("ok", "") if finding.ok else ("missing", "red")
            console.print(f"{mark:<7} {finding.what}: {finding.detail}", style=style)
    if not all(finding.ok for finding in findings):
        raise typer.Exit(1)


def _models(as_json: bool) -> None:
    """Print the files of the models in force as a table, and below it how to get missing ones. Exit code 1 if any is
    missing.
    """
    from orchestration.model_files import list_configured_models

    profile, models = list_configured_models()
    if as_json:
        print_json({"profile": profile, "models": [asdict(model) for model in models]})
    else:
        print_sentence(f"profile: {profile}")
        print_rows([model.format_row() for model in models], empty="no model", right={"GB"})
        for model in models:
            if model.remedy:
                console.print(f"{model.setting}: {model.remedy}")
    if any(model.missing for model in models):
        raise typer.Exit(1)
