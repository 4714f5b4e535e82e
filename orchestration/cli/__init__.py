"""The command line: `reelsieve COMMAND`. A command is in the module of its name, `try` in
`try_`, and one below a parent in the module of the parent.
"""

from __future__ import annotations

import atexit
import gc
import sys

from metrics_core.child_processes import protect_children
from orchestration.stopping import StopSignals

__all__ = ["main"]

# Dagster and the model libraries make a million objects that live as long as the process. With Python's own thresholds
# the search for garbage among them takes a seventh of the time of their imports.
_GARBAGE = (50_000, 10, 10)


def main() -> None:
    """Run the command line with the arguments of this process, and end the process. Ctrl-C and SIGTERM end it within
    seconds, with exit code 130 or 143.
    """
    gc.set_threshold(*_GARBAGE)
    # Nor is it searched for at the end, which takes seconds: the memory goes with the process.
    atexit.register(gc.freeze)
    with protect_children(), StopSignals() as stop:
        try:
            # Imported late, so that a signal during this import counts too.
            from orchestration.cli.app import run_cli
        except ImportError as error:
            # An error that is no fault of the program, such as another version of Dagster.
            if not getattr(error, "plain", False):
                raise
            sys.exit(f"error: {error}")
        run_cli(stop)
