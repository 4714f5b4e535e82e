"""What every campaign shares: a seed that is printed, counts of what was done, and the faults that were found."""

from __future__ import annotations

import secrets
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Annotated

import typer
from sqlalchemy.engine import Engine

from assets.metrics.registry import METRIC_INPUTS
from db.schema.migrate import migrate
from db.server.embedded import start_embedded
from db.server.engine import open_engine
from tests.orchestration.conftest import here

Seed = Annotated[int | None, typer.Option(help="Of an earlier run, to do the same again (default: a new one).")]


class Campaign:
    """An attack under way; equal seeds and sizes make equal attacks."""

    def __init__(self, name: str, seed: int | None) -> None:
        self.name = name
        self.seed = secrets.randbelow(2**32) if seed is None else seed
        self.random = Random(self.seed)
        self.counts: Counter[str] = Counter()
        self.faults: list[str] = []
        typer.echo(f"{name}: seed {self.seed}")

    def expect(self, holds: bool, fault: str) -> None:
        """Note the fault unless this holds."""
        if not holds:
            self.faults.append(fault)
            typer.echo(f"FAULT {fault}", err=True)

    def finish(self) -> None:
        """Print the counts; end with exit code 1 if there were faults."""
        for what, n in self.counts.items():
            typer.echo(f"{n:>8,} {what}")
        typer.echo(f"{len(self.faults):>8,} faults (seed {self.seed})")
        if self.faults:
            raise typer.Exit(1)


@contextmanager
def limited(seconds: int) -> Iterator[None]:
    """A TimeoutError where the block takes longer, which is far too long."""

    def stop(signal_number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"still at work after {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def temporary_home() -> Iterator[Path]:
    """A home folder of its own for this process and its commands; its server is stopped afterwards."""
    with TemporaryDirectory(prefix="reelsieve-attack-") as name, here(Path(name) / "home"):
        yield Path(name) / "home"


@contextmanager
def open_folder() -> Iterator[Path]:
    """A temporary folder through which the server gets, which runs as another user where this is root."""
    with TemporaryDirectory(prefix="reelsieve-attack-") as name:
        Path(name).chmod(0o711)
        yield Path(name)


@contextmanager
def empty_database() -> Iterator[tuple[Path, Engine]]:
    """A folder, and an engine on an empty, migrated database of the home in it; its server is stopped afterwards."""
    with temporary_home() as home:
        url = start_embedded(home)
        migrate(url, METRIC_INPUTS)
        engine = open_engine(url)
        yield home.parent, engine
        engine.dispose()
