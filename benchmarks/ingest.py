"""Times ingest against a raw binary COPY of the same rows: `python -m benchmarks.ingest [RESULT.json]`.

The rows are those of ActivityNet Captions: videos without media, a reference and a candidate caption of each, with
timed segments. Every repeat measures the three things that MEANING tells of, in turn and on an embedded server of its
own, so that other load on the machine meets all alike.

A database is fresh when it was just copied from a migrated one and the server has written everything to disk. Rates
are rows per second of wall time at the median, the spread is the range of the middle half of the repeats. CPU seconds
are told apart by client (this process) and server (all processes of Postgres), since they suffer less from other load.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import sqlalchemy as sa
from psycopg import sql
from sqlalchemy.engine import URL, Engine

from assets.ingest.adapters import anet_captions
from assets.ingest.run import ingest_folder
from benchmarks.installation import temporary_server
from benchmarks.measure import DATA, RESULTS, save, spread
from db.bulk import copy_rows
from db.engine import open_engine, psycopg_transaction
from db.migrate import migrate
from db.schema import METADATA
from db.server import sibling_url

RESULT = RESULTS / "ingest.json"
TABLES = ("dataset", "video", "reference", "sample")
REPEATS = 9
TARGET = 0.3
MEANING = {
    "copy": "binary COPY of rows that lie ready in memory as Python values, ids and hashes included, into the empty "
    "tables of a fresh database, with their indexes and constraints, in one transaction. It includes making the "
    "binary form, JSON of the segments too; nothing is read from files, parsed, validated, hashed or looked up.",
    "ingest": "the manifest folder into another fresh database, from the files on disk to the last commit.",
    "again": "the same folder once more into the same database: its tables are known by their content.",
}

Rows = Mapping[str, Sequence[Sequence[Any]]]


@dataclass(frozen=True)
class Cost:
    """What one measurement took, in seconds."""

    wall: float
    client_cpu: float
    server_cpu: float


class Server:
    """An embedded server with a migrated, empty database to copy fresh ones from."""

    def __init__(self, url: URL, pid: int) -> None:
        self._empty = sibling_url(url, "empty")
        self._process = psutil.Process(pid)
        migrate(self._empty, {})

    @contextmanager
    def fresh(self) -> Iterator[Engine]:
        """An engine on a database that holds no rows yet."""
        postgres = open_engine(sibling_url(self._empty, "postgres"))
        with postgres.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.exec_driver_sql(f"CREATE DATABASE fresh TEMPLATE {self._empty.database}")
            connection.exec_driver_sql("CHECKPOINT")
            engine = open_engine(sibling_url(self._empty, "fresh"))
            yield engine
            engine.dispose()
            connection.exec_driver_sql("DROP DATABASE fresh WITH (FORCE)")
        postgres.dispose()

    def cost(self, function: Callable[[], object]) -> Cost:
        """What one call of a function takes."""
        wall, client, server = time.perf_counter(), time.process_time(), self._cpu()
        function()
        return Cost(time.perf_counter() - wall, time.process_time() - client, self._cpu() - server)

    def _cpu(self) -> float:
        """CPU seconds of the server so far; those of a process that ended are in its parent's sum of children."""
        own = self._process.cpu_times()
        living = [child.cpu_times() for child in self._process.children()]
        return own.children_user + own.children_system + sum(times.user + times.system for times in (own, *living))


@contextmanager
def measured_server(home: Path) -> Iterator[Server]:
    """The embedded server of a home folder with its process, stopped at the end."""
    with temporary_server(home) as url:
        yield Server(url, int((home / "postgres" / "postmaster.pid").read_text().splitlines()[0]))


def stored_rows(engine: Engine) -> Rows:
    """All rows of the tables that ingest has filled."""
    with engine.connect() as connection:
        return {name: [tuple(row) for row in connection.execute(sa.select(*written(name)))] for name in TABLES}


def written(name: str) -> list[sa.Column[Any]]:
    """The columns of a table that Postgres does not make itself."""
    return [column for column in METADATA.tables[name].columns if column.computed is None]


def copy_all(engine: Engine, rows: Rows) -> None:
    """A binary COPY of rows into each of the tables, in one transaction."""
    with psycopg_transaction(engine) as connection:
        for name, values in rows.items():
            copy_rows(connection, sql.Identifier(name), written(name), values)


def measure(server: Server, folder: Path) -> tuple[int, dict[str, list[Cost]]]:
    """How many rows a folder has, and the costs of all repeats, after one ingest to warm up."""
    with server.fresh() as engine:
        report = ingest_folder(engine, folder, "set")
        rows = stored_rows(engine)
    costs: dict[str, list[Cost]] = {name: [] for name in MEANING}
    for _ in range(REPEATS):
        with server.fresh() as engine:
            costs["copy"].append(server.cost(partial(copy_all, engine, rows)))
        with server.fresh() as engine:
            for name in ("ingest", "again"):
                costs[name].append(server.cost(partial(ingest_folder, engine, folder, "set")))
    return sum(report.accepted.values()), costs


def summary(n_rows: int, costs: Mapping[str, Sequence[Cost]]) -> dict[str, Any]:
    """Rates and CPU times of each measurement, and the ratios of the rates to that of COPY."""
    result: dict[str, Any] = {}
    copy = [cost.wall for cost in costs["copy"]]
    for name, measured in costs.items():
        wall = [cost.wall for cost in measured]
        ratios = [theirs / ours for theirs, ours in zip(copy, wall, strict=True)]
        result[name] = {
            "meaning": MEANING[name],
            "rows_per_s": spread([n_rows / seconds for seconds in wall]),
            "client_cpu_s": statistics.median(cost.client_cpu for cost in measured),
            "server_cpu_s": statistics.median(cost.server_cpu for cost in measured),
            "to_copy": {**spread(ratios), "of_medians": statistics.median(copy) / statistics.median(wall)},
            "runs": [asdict(cost) for cost in measured],
        }
    return result


def line(name: str, row: Mapping[str, Any]) -> str:
    """One line of the table."""
    rate, ratio = row["rows_per_s"], row["to_copy"]
    return (
        f"{name:<8}{rate['median']:>9,.0f} rows/s  ({rate['low']:,.0f} to {rate['high']:,.0f})"
        f"  {ratio['of_medians']:.2f} of copy ({ratio['low']:.2f} to {ratio['high']:.2f})"
        f"  CPU {row['client_cpu_s']:.2f} s client, {row['server_cpu_s']:.2f} s server"
    )


def main(result: Path) -> None:
    """Measure, write the result to a file and print the table."""
    references, candidates = (DATA / "anet_captions" / f"val_{n}.json" for n in (1, 2))
    if not references.is_file():
        raise SystemExit(f"no ActivityNet Captions in {DATA}: set REELSIEVE_TEST_DATA to the folder of the test data")
    before = os.getloadavg()
    with tempfile.TemporaryDirectory(prefix="reelsieve-") as temporary:
        folder = Path(temporary) / "anet"
        anet_captions.convert(references, candidates, folder)
        with measured_server(Path(temporary) / "home") as server:
            n_rows, costs = measure(server, folder)
    after = os.getloadavg()
    rows = summary(n_rows, costs)
    content = {"rows": n_rows, "repeats": REPEATS, "target": TARGET, "measured": rows}
    save(result, content, load_average_before=before)
    for name, row in rows.items():
        print(line(name, row))
    print(
        f"{n_rows} rows, {REPEATS} repeats; wanted: ingest at {TARGET} of copy; "
        f"load average {before[0]:.1f} before and {after[0]:.1f} after on {os.cpu_count()} cores"
    )
    print(*(f"{name}: {text}" for name, text in MEANING.items()), sep="\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else RESULT)
