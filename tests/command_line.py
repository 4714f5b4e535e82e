"""Running `reelsieve ...` inside the test process, as its entry point does: quick, and with real exit codes."""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from unittest.mock import patch

from orchestration.cli import main
from orchestration.stopping import SIGNALS
from tests.orchestration.conftest import forget_installation


@dataclass(frozen=True, slots=True)
class Done:
    """What a command left behind."""

    returncode: int
    stdout: str
    stderr: str


def run_successfully(*arguments: str, **variables: str) -> Done:
    """Run `reelsieve ARGUMENTS` as `run_command` does, and fail with its error unless it ends with exit code 0."""
    done = run_command(*arguments, **variables)
    assert done.returncode == 0, done.stderr
    return done


def run_command(*arguments: str, **variables: str) -> Done:
    """Run `reelsieve ARGUMENTS`; with further environment variables, as in a process of its own."""
    if variables:
        forget_installation()
    out, err = io.StringIO(), io.StringIO()
    code = 0
    with (
        # Without variables the process keeps what a command sets for Dagster, whose instance is kept too.
        patch.dict(os.environ, variables) if variables else nullcontext(),
        patch.object(sys, "argv", ["reelsieve", *arguments]),
        redirect_stdout(out),
        redirect_stderr(err),
        _signals_kept(),
    ):
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
    if variables:
        forget_installation()
    return Done(code, out.getvalue(), err.getvalue())


@contextmanager
def _signals_kept() -> Iterator[None]:
    """A command takes Ctrl-C and SIGTERM for itself, since its process ends with it."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
