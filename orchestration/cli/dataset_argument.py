"""The name of a dataset, which drop and rename take as an argument or by --dataset."""

from __future__ import annotations

from typing import Annotated

import typer

from orchestration.cli.refusals import UsageError

DatasetArgument = Annotated[str | None, typer.Argument(metavar="DATASET", help="Name of the dataset.")]
DatasetOption = Annotated[str | None, typer.Option("--dataset", "-d", help="Name of the dataset, here or as argument.")]


def parse_names(usage: str, option: str | None, *arguments: str | None) -> list[str]:
    """The names that a command was given, that of the dataset first: by --dataset, or as an argument."""
    names = [name for name in (option, *arguments) if name is not None]
    command, *wanted = usage.split()
    if len(names) != len(wanted):
        by_option = " ".join([command, "--dataset", *wanted])
        raise UsageError(f"write reelsieve {usage}, or reelsieve {by_option} (see reelsieve {command} --help)")
    return names
