"""The log lines of assets on standard error, for a person who follows a run at the terminal."""

from __future__ import annotations

import logging
from collections.abc import Iterable

import dagster as dg

from assets.metrics.installed import BrokenMetric
from orchestration.cli.output import SafeConsole, make_plain_text

LOGGER_NAME = "terminal"
console = SafeConsole(stderr=True)


def print_line(speaker: str, message: str) -> None:
    """Print one line on standard error: the name of the speaker, such as an asset or "note", and the message."""
    line = make_plain_text(f"{speaker}: {message}")
    line.stylize("dim", 0, len(speaker) + 1)
    console.print(line)


def print_warning(sentence: str) -> None:
    """Print a sentence on standard error in bold red, after the word "warning"."""
    console.print(f"warning: {sentence}", style="bold red")


def warn_of_broken_metrics(metrics: Iterable[BrokenMetric]) -> None:
    """Print on standard error that these metrics of installed packages are left out, with a remedy for every metric."""
    these = "; ".join(f"metric {metric.name} is left out, since {metric.remedy}" for metric in metrics)
    print_warning(f"{these}; all other metrics work (reelsieve doctor lists what is broken)")


class _LineHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        meta = getattr(record, "dagster_meta", {})
        if meta.get("dagster_event") is None:
            step = meta.get("step_key") or "run"
            message = str(meta.get("orig_message", record.getMessage()))
            # A step that needs the results of a failed one: the failed one has given the reason.
            if not message.startswith("Dependencies for step"):
                print_line(step, message)


@dg.logger({}, description="The assets' log lines on the terminal, without Dagster's own events.")
def terminal_logger(_context: dg.InitLoggerContext) -> logging.Logger:
    """Return the logger that prints the log lines of assets on standard error. It leaves out Dagster's own events, and
    lines about steps that wait for a failed one.
    """
    logger = logging.Logger(LOGGER_NAME, level=logging.INFO)
    logger.addHandler(_LineHandler())
    return logger
