"""The commands dagster and dg: Dagster's own command lines, told where this project and its home are."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from orchestration.cli.refusals import Refused

# They know their own options, --help among them.
THEIRS = {"ignore_unknown_options": True, "allow_interspersed_args": False, "help_option_names": []}
MODULE = "orchestration.definitions"
# Options that say what Dagster loads; beside one of them it takes no module from the environment.
_TARGETS = ("-w", "--workspace", "-m", "--module-name", "-f", "--python-file", "--package-name")
Arguments = Annotated[list[str] | None, typer.Argument(metavar="ARGS..", help="What Dagster's own command takes.")]


def dagster(arguments: Arguments = None) -> None:
    """Run Dagster's command `dagster` on this project and its home, in any folder: `reelsieve dagster asset list`."""
    # Many of its commands look for a project by this variable or an option alone.
    if not names_target(arguments or []):
        os.environ["DAGSTER_MODULE_NAME"] = MODULE
    # Not by python -m, which would take modules from the current folder, perhaps somebody else's.
    _become([str(Path(sys.executable).with_name("dagster")), *(arguments or [])], Path.cwd())


def names_target(arguments: Sequence[str]) -> bool:
    """Whether arguments of Dagster's say what it is to load.

    >>> names_target(["definitions", "validate", "-w", "workspace.yaml"]), names_target(["dev", "--port=3001"])
    (True, False)
    """
    return any(each.partition("=")[0] in _TARGETS for each in arguments)


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
    from orchestration.platform import installed

    # The home is looked for from the folder of the person.
    os.environ.update(installed().dagster_environment())
    os.chdir(folder)
    sys.stdout.flush()
    os.execv(command[0], command)
