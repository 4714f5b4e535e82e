"""A large database beside its floors: `python -m benchmarks.million [--samples 1000000] [--json RESULT]`.

Fills a database with samples, five to a video, scored by every metric, and times what people wait for beside what the
same server needs at least: a scan of one metric's values and a binary COPY. All in one run, alternating, so that other
load meets all alike; CPU seconds of the server and of this process stand beside the wall time, since they suffer less
from it. Sizes per row and the plans of the slowest statements follow. `--samples 100000` is for quick work.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import psutil
import sqlalchemy as sa
from sqlalchemy.engine import Engine
from typing_extensions import Self

from assets.ingest.run import ingest_folder, try_ingest
from assets.metrics.registry import METRIC_INPUTS, METRICS
from assets.scores.pending import count_pending_by_shard, update_active_scorer_if_complete
from assets.selection.select import choose_samples
from benchmarks.installation import read_server_pid, temporary_engine, write_rows
from benchmarks.measure import RESULTS, Spread, peak_kb, save_with_load
from benchmarks.million_fill import MODELS, NAME, Filled, fill, score_all
from benchmarks.million_plans import SlowStatements, copy_all, forget, row_sizes, stored_rows
from benchmarks.server_cost import sum_server_cpu
from db.evidence.verdicts import list_unfinished_shards
from db.manifest.datasets import find_dataset
from db.reports.summary import load_dataset_summary
from db.scores.sample_scores import list_scores
from db.scores.score_arrays import load_score_arrays
from db.selection.freeze import freeze_selection
from db.selection.recipes import parse_recipe
from metrics_core.calibration import compute_share_thresholds
from metrics_core.selection.distribution import compute_distribution, compute_group_means

SAMPLES_PER_SHARD = 4000
AVERAGES = "SELECT system, avg(vcs), avg(evqa), avg(ecs), avg(qeva) FROM sample_scores WHERE dataset = :name GROUP BY 1"
# Measurement, floor, and the ratio that is wanted; a floor of four scans is four times that of one.
WANTED = {
    "best 12.5 %": ("scan", 2.5),
    "--where over two metrics": ("scan", 2.5),
    "averages of four metrics by system": ("four scans", 3.0),
}
WANTED_SECONDS = {
    "idle: status and start of score": 5.0,
    "dataset scores --limit 20": 0.1,
    "thresholds of all metrics": 8.0,
    "report": 15.0,
}


class Taken(NamedTuple):
    """What a call took: seconds, and CPU seconds of the server and of this process with its children that ended."""

    wall_s: float
    server_s: float
    own_s: float

    @property
    def cpu_s(self) -> float:
        """All CPU seconds."""
        return self.server_s + self.own_s


@dataclass
class Bench:
    """A filled database with its server's process, and the seconds of everything measured."""

    engine: Engine
    filled: Filled
    server: psutil.Process
    seconds: dict[str, list[Taken]]

    def time(self, name: str, call: Callable[[], object]) -> None:
        """Measure one call."""
        before, own, started = sum_server_cpu(self.server), sum(os.times()[:4]), time.perf_counter()
        call()
        taken = Taken(time.perf_counter() - started, sum_server_cpu(self.server) - before, sum(os.times()[:4]) - own)
        self.seconds.setdefault(name, []).append(taken)
        print(
            f"{name:<44}{taken.wall_s:>9.3f} s{taken.cpu_s:>9.3f} s CPU, of the server {taken.server_s:.3f}", flush=True
        )

    def query(
        self, statement: str, setting: str = "SET LOCAL work_mem = '64MB'", **values: Any
    ) -> Callable[[], object]:
        """A call that runs one statement."""

        def run() -> object:
            with self.engine.begin() as connection:
                connection.exec_driver_sql(setting)
                return connection.execute(sa.text(statement), values).all()

        return run


def scorer(metric: str) -> Any:
    """As much of a scorer as a look at the work list needs."""
    identity = {"models": lambda: MODELS, "params": dict, "code_version": "1"}
    return SimpleNamespace(metric=metric, inputs=METRIC_INPUTS[metric], sources=(), **identity)


def look(bench: Bench) -> None:
    """What `dataset list`, the schedule and the start of `score` ask: the work list of every metric, and a summary."""
    dataset = bench.filled.dataset
    for metric in METRICS:
        counts = count_pending_by_shard(bench.engine, scorer(metric), [dataset])
        update_active_scorer_if_complete(bench.engine, scorer(metric), [dataset], counts)
    with bench.engine.connect() as connection:
        load_dataset_summary(connection, NAME)


def select(bench: Bench, where: str | None, by: str = "vcs") -> None:
    """A selection that is stored and taken back."""
    with bench.engine.connect() as connection:
        recipe = parse_recipe({"by": by, "keep": 0.125, "where": where})
        freeze_selection(connection, *choose_samples(connection, bench.filled.dataset, recipe, None, print, lock=True))
        connection.rollback()


def spread_out(bench: Bench) -> None:
    """What asset `threshold` computes of every metric: distribution, thresholds of shards and means of videos."""
    with bench.engine.begin() as connection:
        loaded = load_score_arrays(connection, bench.filled.dataset, bench.filled.scorers)
    for arrays in loaded.values():
        for values in arrays.values.values():
            known = np.isfinite(values)
            compute_distribution(values[known])
            compute_share_thresholds(values[known])
            compute_share_thresholds(values[known], arrays.shards[known])
            compute_group_means(values[known], arrays.video_ids[known])


def listed(bench: Bench) -> None:
    """The first page of scores."""
    with bench.engine.connect() as connection:
        list_scores(connection, NAME, "vcs", 20)


def measure(bench: Bench, repeats: int) -> None:
    """Everything but ingest, `repeats` times in turn."""
    scorer_id = bench.filled.scorers["vcs"]
    scan = "SELECT count(value), sum(value) FROM score WHERE scorer_id = :scorer_id"
    bench.time("first look at everything", lambda: look(bench))
    place = (bench.engine, bench.filled.scorers["ecs"], bench.filled.dataset.dataset_id)
    for _ in range(repeats):
        bench.time("scan", bench.query(scan, "SET LOCAL enable_indexonlyscan = off", scorer_id=scorer_id))
        bench.time("scan of the index", bench.query(scan, scorer_id=scorer_id))
        bench.time("idle: status and start of score", lambda: look(bench))
        bench.time("dataset scores --limit 20", lambda: listed(bench))
        bench.time("best 12.5 %", lambda: select(bench, None))
        bench.time("--where over two metrics", lambda: select(bench, "vcs > 0.3 and evqa > 0.2"))
        bench.time("averages of four metrics by system", bench.query(AVERAGES, name=NAME))
        bench.time("thresholds of all metrics", lambda: spread_out(bench))
        bench.time("unfinished checklists, as calibrate asks", lambda: list_unfinished_shards(*place))
    change = (
        "WITH changed AS (UPDATE sample SET text_sha256 = sha256(text_sha256) WHERE dataset_id = :id AND shard = 0 "
        "RETURNING 1) SELECT count(*) FROM changed"
    )
    bench.time("one shard changes", bench.query(change, id=bench.filled.dataset.dataset_id))
    bench.time("look after one shard changed", lambda: look(bench))
    bench.seconds["four scans"] = [Taken(*(4 * part for part in scan)) for scan in bench.seconds["scan"]]


def report(bench: Bench, folder: Path) -> None:
    """The page of the whole dataset, which nobody has rated."""
    from assets.reports.report import create_report
    from orchestration.installation import get_installation

    create_report(bench.engine, bench.filled.dataset, get_installation().curation.scorers, folder)


def ingest(bench: Bench, folder: Path, n_rows: int, repeats: int) -> None:
    """A folder of captions: tried, new beside a COPY of the same rows, unchanged, and with one row more."""
    videos = [{"video_id": f"new {i}"} for i in range(n_rows // 5)]
    caption = {"role": "candidate", "system": "s", "text": "A red dog runs over the wet street while two men talk."}
    captions = [{"caption_id": f"new {i}", "video_id": f"new {i // 5}", **caption} for i in range(n_rows)]
    write_rows(folder / "videos.jsonl", videos)
    write_rows(folder / "captions.jsonl", captions)
    run = {"engine": bench.engine, "folder": folder, "name": "ingested"}
    bench.time("ingest --dry-run", lambda: try_ingest(**run))
    rows = None
    for _ in range(repeats):
        bench.time("ingest", lambda: ingest_folder(**run))
        rows = rows or stored_rows(bench.engine, "ingested")
        forget(bench.engine, "ingested")
        bench.time("copy of its rows", partial(copy_all, bench.engine, rows))
        forget(bench.engine, "ingested")
    ingest_folder(**run)
    bench.time("ingest of the same folder", lambda: ingest_folder(**run))
    write_rows(folder / "captions.jsonl", [*captions, {**captions[0], "caption_id": "one more"}])
    bench.time("ingest with one row more", lambda: ingest_folder(**run))
    with bench.engine.connect() as connection:
        dataset = find_dataset(connection, "ingested")
    assert dataset is not None
    score_all(bench.engine, dataset, bench.filled.scorers, {})
    for share in (0.01, 1.0):
        changed = {"text": f"A blue dog runs over the wet street while {share} men talk."}
        n_changed = round(share * n_rows)
        write_rows(
            folder / "captions.jsonl", [*({**row, **changed} for row in captions[:n_changed]), *captions[n_changed:]]
        )
        bench.time(f"ingest that changes {share:.0%} of scored captions", lambda: ingest_folder(**run))


def measure_once(bench: Bench, folder: Path) -> dict[str, Any]:
    """Seconds and peaks of memory, in GB, of a selection, thresholds, a report and the first page of `look`, twice."""
    page = partial(first_page, bench.engine)
    best, other = bench.filled.scorers
    calls: dict[str, Callable[[], object]] = {
        "best 12.5 %": lambda: select(bench, None, best),
        "--where over two metrics": lambda: select(bench, f"{best} > 0.3 and {other} > 0.2", best),
        "thresholds of all metrics": lambda: spread_out(bench),
        "report": lambda: report(bench, folder),
        "first page of look, the first time": page,
        "first page of look": page,
    }
    peaks = {}
    for name, call in calls.items():
        with Peak(bench.server) as peak:
            bench.time(name, call)
        peaks[name] = {"own_gb": peak.own_kb / 1e6, "server_gb": peak.server_kb / 1e6}
        print(f"{'':<44}{peaks[name]}", flush=True)
    return {name: taken[0]._asdict() | peaks[name] for name, taken in bench.seconds.items()}


def database_gb(engine: Engine) -> float:
    """GB of the database on disk."""
    with engine.connect() as connection:
        return int(connection.exec_driver_sql("SELECT pg_database_size(current_database())").scalar_one()) / 1e9


def first_page(engine: Engine) -> None:
    """The first page of `reelsieve look`, as its server writes it."""
    from starlette.testclient import TestClient

    from orchestration.look.app import make_look_app

    TestClient(make_look_app(engine, dict, has_lineage=False)).get(f"/look/{NAME}").raise_for_status()


class Peak:
    """The most memory that this process and the server, with what it has in common with others once, take meanwhile."""

    def __init__(self, server: psutil.Process) -> None:
        self.own_kb = self.server_kb = 0
        self._server, self._is_over = server, threading.Event()
        self._watch = threading.Thread(target=self._look)

    def __enter__(self) -> Self:
        Path("/proc/self/clear_refs").write_text("5")  # begins the peak anew
        self._watch.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._watch.join()
        self.own_kb = peak_kb()

    def _look(self) -> None:
        while True:
            taken = 0
            for process in (self._server, *self._server.children()):
                with suppress(psutil.Error):
                    taken += process.memory_full_info().pss
            self.server_kb = max(self.server_kb, taken // 1000)
            if self._is_over.wait(0.5):
                return


def summary(seconds: Mapping[str, list[Taken]]) -> dict[str, Any]:
    """Medians of wall time and CPU by name, with ratios to the floor where one is wanted."""
    parts = ("wall_s", "cpu_s", "server_s")
    rows: dict[str, Any] = {
        name: {part: round(Spread.of([getattr(one, part) for one in taken]).median, 4) for part in parts}
        for name, taken in seconds.items()
    }
    for name, (floor, wanted) in WANTED.items():
        ratios = [round(rows[name][part] / rows[floor][part], 2) for part in ("wall_s", "cpu_s")]
        rows[name] |= {"floor": floor, "to_floor": ratios[0], "to_floor_in_cpu": ratios[1], "wanted": wanted}
    for name, wanted in WANTED_SECONDS.items():
        rows[name] |= {"wanted_s": wanted}
    for name in seconds:
        if name.startswith("ingest"):
            rows[name] |= {"of_copy": round(rows["copy of its rows"]["wall_s"] / rows[name]["wall_s"], 3)}
    rows["ingest"] |= {"wanted": 0.3}
    return rows


@contextmanager
def filled_bench(home: Path, n_samples: int, metrics: Iterable[str] = METRICS) -> Iterator[Bench]:
    """A new database that is filled with so many samples, on a server that stops at the end."""
    with temporary_engine(home, NAME) as engine:
        filled = fill(engine, n_samples, max(1, n_samples // SAMPLES_PER_SHARD), metrics)
        yield Bench(engine, filled, psutil.Process(read_server_pid(home)), {})


def main() -> None:
    """Fill, measure, print and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--metrics", nargs=2, choices=METRICS, default=METRICS)
    parser.add_argument("--json", type=Path, default=RESULTS / "million.json")
    given = parser.parse_args()
    before = os.getloadavg()
    with (
        tempfile.TemporaryDirectory(prefix="reelsieve-") as temporary,
        filled_bench(Path(temporary) / "home", given.samples, given.metrics) as bench,
    ):
        if given.metrics != METRICS:
            found = {"samples": given.samples, "metrics": given.metrics, "fill_s": bench.filled.seconds}
            found |= {"measured": measure_once(bench, Path(temporary) / "report")}
            found |= row_sizes(bench.engine, given.samples) | {"database_gb": database_gb(bench.engine)}
            print(json.dumps(found, indent=1))
            save_with_load(given.json, found, before)
            return
        (Path(temporary) / "manifest").mkdir()
        # Before anything is added: the counts of rows are those of the filled tables.
        sizes = row_sizes(bench.engine, given.samples)
        with SlowStatements(bench.engine) as slow:
            measure(bench, given.repeats)
            bench.time("report", lambda: report(bench, Path(temporary) / "report"))
        ingest(bench, Path(temporary) / "manifest", given.samples // 10, given.repeats)
        found = {"samples": given.samples, "fill_s": bench.filled.seconds, "measured": summary(bench.seconds)}
        found |= sizes | {"plans": slow.plans(3)}
    print(json.dumps({name: value for name, value in found.items() if name != "plans"}, indent=1))
    print(
        *(f"\n{plan['seconds']:.2f} s: {plan['statement'][:300]}\n{plan['plan']}" for plan in found["plans"]), sep="\n"
    )
    save_with_load(given.json, found, before)


if __name__ == "__main__":
    main()
