"""Times ingest against a raw binary COPY of the same rows: `python -m benchmarks.ingest [--copies N] [RESULT.json]`.

The rows are those of ActivityNet Captions: videos without media, a reference and a candidate caption of each, with
timed segments, N times under other ids; two copies make the captions a large table for ingest. Every repeat measures
the three things that MEANING tells of, in turn and on an embedded server of its own, so that other load on the machine
meets all alike.

A database is fresh when it was just copied from a migrated one and the server has written everything to disk. Rates
are rows per second of wall time at the median, the spread is the range of the middle half of the repeats. CPU seconds
are told apart by client (this process), workers (those that check rows) and server (all processes of Postgres), since
they suffer less from other load.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from psycopg import sql
from sqlalchemy.engine import Engine

from assets.ingest.run import ingest_folder
from benchmarks.installation import write_rows
from benchmarks.measure import DATA, RESULTS, save, spread
from benchmarks.server_cost import Cost, Server, measured_server
from db.schema import METADATA
from db.server.bulk import copy_rows
from db.server.engine import open_psycopg_transaction
from lab.adapters import anet_captions

RESULT = RESULTS / "ingest.json"
TABLES = ("dataset", "video", "reference", "sample")
REPEATS = 9
TARGET = 0.3
CPU = ("client_cpu", "workers_cpu", "server_cpu")
MEANING = {
    "copy": "binary COPY of rows that lie ready in memory as Python values, ids and hashes included, into the empty "
    "tables of a fresh database, with their indexes and constraints, in one transaction. It includes making the "
    "binary form, JSON of the segments too; nothing is read from files, parsed, validated, hashed or looked up.",
    "ingest": "the manifest folder into another fresh database, from the files on disk to the last commit.",
    "again": "the same folder once more into the same database: its tables are known by their content.",
}

Rows = Mapping[str, Sequence[Sequence[Any]]]


def stored_rows(engine: Engine) -> Rows:
    """All rows of the tables that ingest has filled."""
    with engine.connect() as connection:
        return {name: [tuple(row) for row in connection.execute(sa.select(*written(name)))] for name in TABLES}


def written(name: str) -> list[sa.Column[Any]]:
    """The columns of a table that Postgres does not make itself."""
    return [column for column in METADATA.tables[name].columns if column.computed is None]


def copy_all(engine: Engine, rows: Rows) -> None:
    """A binary COPY of rows into each of the tables, in one transaction."""
    with open_psycopg_transaction(engine) as connection:
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
            **{f"{part}_s": statistics.median(getattr(cost, part) for cost in measured) for part in CPU},
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
        f"  CPU {row['client_cpu_s']:.2f} s client, {row['workers_cpu_s']:.2f} s workers, "
        f"{row['server_cpu_s']:.2f} s server"
    )


def write_copies(one: Path, folder: Path, n: int) -> None:
    """A manifest folder with the rows of another one n times, under other ids."""
    folder.mkdir()
    for name, keys in (("videos", ("video_id",)), ("captions", ("caption_id", "video_id"))):
        rows = [json.loads(line) for line in (one / f"{name}.jsonl").read_text("utf-8").splitlines()]
        copies = ({**row, **{key: f"{row[key]} {number}" for key in keys}} for number in range(n) for row in rows)
        write_rows(folder / f"{name}.jsonl", copies)


def main() -> None:
    """Measure, write the result to a file and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--copies", type=int, default=1)
    parser.add_argument("result", type=Path, nargs="?", default=RESULT)
    given = parser.parse_args()
    references, candidates = (DATA / "anet_captions" / f"val_{n}.json" for n in (1, 2))
    if not references.is_file():
        raise SystemExit(f"no ActivityNet Captions in {DATA}: set REELSIEVE_TEST_DATA to the folder of the test data")
    before = os.getloadavg()
    with tempfile.TemporaryDirectory(prefix="reelsieve-") as temporary:
        one, folder = Path(temporary) / "one", Path(temporary) / "anet"
        anet_captions.convert(references, candidates, one)
        write_copies(one, folder, given.copies)
        with measured_server(Path(temporary) / "home") as server:
            n_rows, costs = measure(server, folder)
    after = os.getloadavg()
    rows = summary(n_rows, costs)
    content = {"rows": n_rows, "repeats": REPEATS, "target": TARGET, "measured": rows}
    save(given.result, content, load_average_before=before)
    for name, row in rows.items():
        print(line(name, row))
    print(
        f"{n_rows} rows, {REPEATS} repeats; wanted: ingest at {TARGET} of copy; "
        f"load average {before[0]:.1f} before and {after[0]:.1f} after on {os.cpu_count()} cores"
    )
    print(*(f"{name}: {text}" for name, text in MEANING.items()), sep="\n")


if __name__ == "__main__":
    main()
