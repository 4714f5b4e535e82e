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
_TARGETS = ("-w", "--workspace", "-m", "--module-name", "-f", "--python-file", "--package-name")


@pass_installation
def dagster(installation: Installation, arguments: Arguments = None) -> None:
    """Run Dagster's command `dagster` on this project and its home, in any folder: `reelsieve dagster asset list`."""
    # Many of its commands look for a project only by this variable or an option.
    if not has_target_option(arguments or []):
        os.environ["DAGSTER_MODULE_NAME"] = MODULE
    # Not by python -m, which would import modules from the current folder, perhaps somebody else's.
    replace_process(installation, [str(Path(sys.executable).with_name("dagster")), *(arguments or [])], Path.cwd())


def has_target_option(arguments: Sequence[str]) -> bool:
    """Whether arguments of the command dagster contain an option that names what Dagster loads, such as -m or -w.

    >>> has_target_option(["definitions", "validate", "-w", "workspace.yaml"])
    True
    >>> has_target_option(["dev", "--port=3001"])
    False
    """
    return any(argument.partition("=")[0] in _TARGETS for argument in arguments)
