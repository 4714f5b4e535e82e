"""The log lines of assets on standard error, for a person who follows a run at the terminal."""

from __future__ import annotations

import logging

import dagster as dg
from rich.markup import escape

from orchestration.cli.output import Terminal

LOGGER = "terminal"
console = Terminal(stderr=True)


def say(who: str, message: str) -> None:
    """Print one line on standard error: the name of the speaker and the message."""
    console.print(f"[dim]{who}:[/dim] {escape(message)}")


class _Lines(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        meta = getattr(record, "dagster_meta", {})
        if meta.get("dagster_event") is None:
            step = meta.get("step_key") or "run"
            message = str(meta.get("orig_message", record.getMessage()))
            say(step, message)


@dg.logger({}, description="The assets' log lines on the terminal, without Dagster's own events.")
def terminal_logger(_context: dg.InitLoggerContext) -> logging.Logger:
    """The logger that the command line asks for."""
    logger = logging.Logger(LOGGER, level=logging.INFO)
    logger.addHandler(_Lines())
    return logger
