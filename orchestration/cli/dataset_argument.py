"""The name of a dataset, which drop and rename take as an argument or by --dataset."""

from __future__ import annotations

from typing import Annotated

import typer

from orchestration.cli.refusals import UsageError

DatasetArgument = Annotated[str | None, typer.Argument(metavar="DATASET", help="Name of the dataset.")]
DatasetOption = Annotated[str | None, typer.Option("--dataset", "-d", help="Name of the dataset, here or as argument.")]


def parse_names(usage: str, option: str | None, *arguments: str | None) -> list[str]:
    """Return the names that a command was given, the dataset's first. usage: the command and its arguments, such as
    "rename DATASET NEW". option: the value of --dataset, in place of the first argument. Raises UsageError unless there
    are as many names as `usage` has arguments.
    """
    names = [name for name in (option, *arguments) if name is not None]
    command, *expected = usage.split()
    if len(names) != len(expected):
        by_option = " ".join([command, "--dataset", *expected])
        raise UsageError(f"write reelsieve {usage}, or reelsieve {by_option} (see reelsieve {command} --help)")
    return names
