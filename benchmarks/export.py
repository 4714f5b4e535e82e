"""Exports beside a plain COPY of the same rows: `python -m benchmarks.export [--samples 100000] [--repeats 3]`.

Fills a database as `benchmarks.million` does, freezes a tenth and all of its scored samples, and writes the large
selection in every format, each in a process of its own, in turn with its floor: one COPY of the very rows, joins and
order included, to a file. The peaks of memory of these processes stand beside those of writing the tenth. Shards with
media, five captions to a video, stand beside a plain copy of the same bytes. CPU seconds, of the server and of the
process that writes, suffer less from other load than the wall time does.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql
from sqlalchemy.engine import Engine, make_url

from assets.selection.export import export_selection
from assets.selection.export_input import load_export_input
from assets.selection.export_target import PASSPORT_SUFFIX, ExportFormat
from assets.selection.select import choose_samples
from benchmarks.in_turn import Alone, in_turn
from benchmarks.measure import RESULTS, peak_kb, save_with_load
from benchmarks.million import Bench, filled_bench
from db import schema
from db.manifest.datasets import Dataset
from db.selection.freeze import freeze_selection
from db.selection.recipes import Recipe
from db.server.engine import open_engine, open_psycopg_transaction

TABLES = [form for form in ExportFormat if form not in (ExportFormat.WEB_DATASET, ExportFormat.KEYS)]
N_CLIPS, CLIP_BYTES, CAPTIONS_OF_A_CLIP = 100, 1_000_000, 5
# By this length the clips that have files are selected.
CLIP_SECONDS = 11
WANTED_MEMORY = 1.10


def freeze(engine: Engine, dataset: Dataset, keep: float, where: str | None = None) -> int:
    """The number of a new selection."""
    with engine.begin() as connection:
        recipe = Recipe(by={"vcs": 1.0}, keep=keep, where=where, stale="leave_out")
        chosen = choose_samples(connection, dataset, recipe, None, print, lock=True)
        return freeze_selection(connection, *chosen).selection_id


def copy_rows(engine: Engine, selection_id: int, path: Path) -> None:
    """COPY the rows of an export to a file, in one statement."""
    with engine.connect() as connection:
        query = load_export_input(connection, selection_id, "copy").query
    dialect = postgresql.dialect(paramstyle="named")
    statement = str(query.compile(dialect=dialect, compile_kwargs={"literal_binds": True}))
    with open_psycopg_transaction(engine) as driver, driver.cursor() as cursor, path.open("wb") as file:
        with cursor.copy(f"COPY ({statement}) TO STDOUT".encode()) as copy:
            for block in copy:
                file.write(block)
        file.flush()
        os.fsync(file.fileno())


def write(engine: Engine, selection_id: int, target: Path, form: ExportFormat) -> None:
    """Export to a new file or folder, and remove it."""
    written = export_selection(engine, selection_id, target, form).path
    if written.is_dir():
        shutil.rmtree(written)
    else:
        written.unlink()
        written.with_name(written.name + PASSPORT_SUFFIX).unlink(missing_ok=True)


def alone(url: str, selection_id: int, target: Path, form: ExportFormat) -> Alone:
    """Write in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.export", "--once", url, str(selection_id), str(target), form.value]
    return Alone(*json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))


def once(url: str, selection_id: str, target: str, form: str) -> Alone:
    """What the process of `alone` does."""
    engine = open_engine(make_url(url))
    started, before = time.perf_counter(), time.process_time()
    write(engine, int(selection_id), Path(target), ExportFormat(form))
    return Alone(time.perf_counter() - started, time.process_time() - before, peak_kb())


def tables(bench: Bench, small: int, large: int, folder: Path, repeats: int) -> dict[str, Any]:
    """The COPY and each format, and their peaks of memory."""
    url = bench.engine.url.render_as_string(hide_password=False)
    calls: dict[str, Callable[[], object]] = {"copy": partial(copy_rows, bench.engine, large, folder / "copy")}
    calls |= {form.value: partial(alone, url, large, folder / "timed", form) for form in TABLES}
    found = in_turn(bench, calls, repeats)
    for form in TABLES:
        of_small = alone(url, small, folder / "small", form).peak_kb
        ratio = round(found[form.value]["peak_kb"] / of_small, 3)
        found[form.value] |= {"peak_kb_of_a_tenth": of_small, "peak_ratio": ratio, "wanted": WANTED_MEMORY}
    return found


def give_files(engine: Engine, folder: Path) -> None:
    """Give some videos a file each, and a length that tells them from the others."""
    folder.mkdir()
    content = os.urandom(CLIP_BYTES)
    videos = sa.select(schema.video.c.video_id, schema.video.c.key).order_by(schema.video.c.video_id).limit(N_CLIPS)
    with engine.begin() as connection:
        for video in connection.execute(videos).all():
            path = folder / f"{video.key}.mp4"
            path.write_bytes(content)
            status = path.stat()
            columns = {"uri": str(path), "size_bytes": status.st_size, "mtime_ns": status.st_mtime_ns}
            change = sa.update(schema.video).where(schema.video.c.video_id == video.video_id)
            changed = change.values(**columns, duration_s=CLIP_SECONDS, content_sha256=sa.func.sha256(content))
            connection.execute(changed)


def copy_bytes(folder: Path, target: Path) -> None:
    """Each file of a folder as often as it has captions, to one file."""
    with target.open("wb") as file:
        for path in sorted(folder.iterdir()):
            for _ in range(CAPTIONS_OF_A_CLIP):
                with path.open("rb") as clip:
                    shutil.copyfileobj(clip, file, 1 << 20)
        file.flush()
        os.fsync(file.fileno())
    target.unlink()


def shards(bench: Bench, folder: Path, repeats: int) -> dict[str, Any]:
    """Shards with media, and a copy of their bytes."""
    give_files(bench.engine, folder / "clips")
    chosen = freeze(bench.engine, bench.filled.dataset, 1, f"duration_s = {CLIP_SECONDS}")
    calls: dict[str, Callable[[], object]] = {
        "copy of the bytes": partial(copy_bytes, folder / "clips", folder / "bytes"),
        "webdataset": partial(write, bench.engine, chosen, folder / "shards", ExportFormat.WEB_DATASET),
    }
    return in_turn(bench, calls, repeats)


def main() -> None:
    """Fill, measure, print and write results/export.json; with --once be the process whose peak is measured."""
    if sys.argv[1:2] == ["--once"]:
        print(json.dumps(once(*sys.argv[2:])))
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path, default=RESULTS / "export.json")
    given = parser.parse_args()
    before = os.getloadavg()
    with tempfile.TemporaryDirectory(prefix="reelsieve-") as name:
        folder = Path(name)
        with filled_bench(folder / "home", given.samples) as bench:
            small, large = (freeze(bench.engine, bench.filled.dataset, keep) for keep in (0.1, 1))
            found = {"samples": given.samples, "tables": tables(bench, small, large, folder, given.repeats)}
            found["shards"] = shards(bench, folder, given.repeats)
    print(json.dumps(found, indent=1))
    save_with_load(given.json, found, before)


if __name__ == "__main__":
    main()
