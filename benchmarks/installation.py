"""A temporary installation for benchmarks, and rows of manifests."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqlalchemy.engine import URL, Engine


@contextmanager
def temporary_server(home: Path) -> Iterator[URL]:
    """The embedded server of a home folder, stopped at the end."""
    from db.server.embedded import start_embedded, stop_embedded

    try:
        yield start_embedded(home)
    finally:
        stop_embedded(home)


@contextmanager
def temporary_engine(home: Path, name: str | None = None) -> Iterator[Engine]:
    """An engine on a migrated, empty database of an embedded server that stops at the end. name: that of the database,
    None for the server's own.
    """
    from assets.metrics.registry import METRIC_INPUTS
    from db.schema.migrate import migrate
    from db.server.engine import open_engine
    from db.server.urls import build_sibling_url

    with temporary_server(home) as server:
        url = build_sibling_url(server, name) if name else server
        migrate(url, METRIC_INPUTS)
        engine = open_engine(url)
        yield engine
        engine.dispose()


def read_server_pid(home: Path) -> int:
    """The id of the process of a home folder's embedded server."""
    return int((home / "postgres" / "postmaster.pid").read_text().splitlines()[0])


@contextmanager
def installation(folder: Path) -> Iterator[None]:
    """A fresh home folder for this process; its server is stopped at the end."""
    os.environ["REELSIEVE_HOME"] = str(folder)
    os.environ.pop("CURATION_DB_URL", None)
    with temporary_server(folder):
        yield


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a JSON Lines file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def write_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows as JSON Lines."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
