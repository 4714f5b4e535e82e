"""The command line: `reelsieve COMMAND`. Each module holds the commands of one concern."""

from __future__ import annotations

from orchestration.stopping import StopSignals

__all__ = ["main"]


def main() -> None:
    """Run the command line and end the process. Ctrl-C and SIGTERM end it within seconds, with exit code 130 or 143."""
    with StopSignals() as stop:
        # Imported late: a signal that comes while this is imported must be heard too.
        from orchestration.cli.app import run

        run(stop)
