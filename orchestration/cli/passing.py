"""The commands dagster and dg: Dagster's own command lines, told where this project and its home are."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from orchestration.cli.refusals import Refused

# They know their own options, --help among them.
THEIRS = {"ignore_unknown_options": True, "allow_interspersed_args": False, "help_option_names": []}
MODULE = "orchestration.definitions"
Arguments = Annotated[list[str] | None, typer.Argument(metavar="ARGS..", help="What Dagster's own command takes.")]


def dagster(arguments: Arguments = None) -> None:
    """Run Dagster's command `dagster` on this project and its home, in any folder: `reelsieve dagster asset list`."""
    # Many of its commands look for a project by this variable or an option alone.
    os.environ["DAGSTER_MODULE_NAME"] = MODULE
    _become([sys.executable, "-m", "dagster", *(arguments or [])], Path.cwd())


def dg(arguments: Arguments = None) -> None:
    """Run Dagster's command `dg` on this project and its home, in any folder: `reelsieve dg list defs`."""
    from orchestration.platform import PROJECT

    program = shutil.which("dg", path=str(Path(sys.executable).parent))
    if program is None:
        raise Refused("Dagster's command dg is not installed: pip install 'reelsieve[dg]'")
    # It works on the project of the current folder.
    _become([program, *(arguments or [])], PROJECT)


def _become(command: list[str], folder: Path) -> NoReturn:
    """Become another program in this folder: terminal, signals and exit code are its own."""
    from orchestration.platform import dagster_environment

    # The home is looked for from the folder of the person.
    os.environ.update(dagster_environment())
    os.chdir(folder)
    sys.stdout.flush()
    os.execv(command[0], command)
