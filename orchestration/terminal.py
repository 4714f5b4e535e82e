"""What a person at the terminal sees of a run: the assets' own log lines, one after the other, on standard error."""

from __future__ import annotations

import logging

import dagster as dg
from rich.console import Console
from rich.markup import escape

LOGGER = "terminal"
console = Console(stderr=True, highlight=False)


class _Lines(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        meta = getattr(record, "dagster_meta", {})
        if meta.get("dagster_event") is None:
            step = meta.get("step_key") or "run"
            message = str(meta.get("orig_message", record.getMessage()))
            console.print(f"[dim]{step}:[/dim] {escape(message)}")


@dg.logger({}, description="The assets' log lines on the terminal, without Dagster's own events.")
def terminal_logger(_context: dg.InitLoggerContext) -> logging.Logger:
    """The logger that the command line asks for."""
    logger = logging.Logger(LOGGER, level=logging.INFO)
    logger.addHandler(_Lines())
    return logger
