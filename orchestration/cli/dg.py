"""The command dg: runs Dagster's command of the same name on this project and its home."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from orchestration.cli.dagster_program import Arguments, replace_process
from orchestration.cli.pass_installation import pass_installation
from orchestration.cli.refusals import RequestRefused

if TYPE_CHECKING:
    from orchestration.installation import Installation


@pass_installation
def dg(installation: Installation, arguments: Arguments = None) -> None:
    """Run `dg`, Dagster's newer command, on this project: `reelsieve dg list defs`. `dagster` is older."""
    from orchestration.installation import PROJECT_FOLDER

    program = shutil.which("dg", path=str(Path(sys.executable).parent))
    if program is None:
        raise RequestRefused("Dagster's command dg is not installed: pip install 'reelsieve[dg]'")
    # It works on the project of the current folder.
    replace_process(installation, [program, *(arguments or [])], PROJECT_FOLDER)
