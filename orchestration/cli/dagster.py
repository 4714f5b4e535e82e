"""The command dagster: runs Dagster's command of the same name on this project and its home."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from orchestration.cli.dagster_program import Arguments, replace_process
from orchestration.cli.pass_installation import pass_installation

if TYPE_CHECKING:
    from orchestration.installation import Installation

MODULE = "orchestration.definitions"
# Options that name what Dagster loads; with one of them it takes no module from the environment.
# The module that a person names is one of the folder in which they are.
_MODULES = ("-m", "--module-name", "--package-name")
_PATHS = ("-w", "--workspace", "-f", "--python-file", "-d", "--working-directory", "-c", "--config")
_TARGETS = ("-w", "--workspace", "-m", "--module-name", "-f", "--python-file", "--package-name")


@pass_installation
def dagster(installation: Installation, arguments: Arguments = None) -> None:
    """Run `dagster`, Dagster's older command, on this project: `reelsieve dagster asset list`. `dg` is newer."""
    given = make_paths_absolute(arguments or [])
    # Many of its commands look for a project only by this variable or an option. The web server of `dev` refuses the
    # variable.
    if not has_target_option(given) and given[:1] == ["dev"]:
        given += ["--module-name", MODULE]
    elif not has_target_option(given):
        os.environ["DAGSTER_MODULE_NAME"] = MODULE
    # Not by python -m, which would import modules from the current folder, perhaps somebody else's.
    program = str(Path(sys.executable).with_name("dagster"))
    # New projects are made where the person is.
    replace_process(installation, [program, *given], Path.cwd() if given[:1] == ["project"] else None)


def has_target_option(arguments: Sequence[str]) -> bool:
    """Whether arguments of the command dagster contain an option that names what Dagster loads, such as -m or -w.

    >>> has_target_option(["definitions", "validate", "-w", "workspace.yaml"])
    True
    >>> has_target_option(["dev", "--port=3001"])
    False
    """
    return any(argument.partition("=")[0] in _TARGETS for argument in arguments)


def make_paths_absolute(arguments: Sequence[str]) -> list[str]:
    """Return arguments of the command dagster with the paths of existing files and folders made absolute, and with the
    current folder as the one where a module is looked for, unless the arguments name another one.

    >>> make_paths_absolute(["definitions", "validate", "-w", "/work/workspace.yaml"])
    ['definitions', 'validate', '-w', '/work/workspace.yaml']
    """
    absolute, names = [], []
    for argument, before in zip(arguments, ["", *arguments], strict=False):
        name, sign, value = argument.partition("=") if argument.startswith("--") else (before, "", argument)
        names.append(name)
        is_path = name in _PATHS and os.path.exists(value)
        # These paths have no option.
        is_path |= arguments[0] == "debug" and not argument.startswith("-") and "." in argument
        absolute.append(f"{name}=" * bool(sign) + os.path.abspath(value) if is_path else argument)
    if any(name in _MODULES for name in names) and not any(name in ("-d", "--working-directory") for name in names):
        absolute += ["--working-directory", os.getcwd()]
    return absolute
