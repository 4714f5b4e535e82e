"""Replaces this process by one of Dagster's own programs, with the environment of this home."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

if TYPE_CHECKING:
    from orchestration.installation import Installation

# Dagster's commands have their own options, --help among them.
PASS_THROUGH = {"ignore_unknown_options": True, "allow_interspersed_args": False, "help_option_names": []}
Arguments = Annotated[list[str] | None, typer.Argument(metavar="ARGS..", help="Arguments of Dagster's own command.")]


def replace_process(installation: Installation, command: list[str], folder: Path | None = None) -> NoReturn:
    """Replace this process by another program, with the environment of the home. Does not return: terminal, signals and
    exit code are the program's. command: the path of the program, then its arguments. folder: where it starts; None for
    an empty folder, since Dagster reads modules and `.env` of the current one.
    """
    os.environ.update(installation.build_dagster_environment())
    os.chdir(folder or installation.create_empty_folder())
    sys.stdout.flush()
    os.execv(command[0], command)
