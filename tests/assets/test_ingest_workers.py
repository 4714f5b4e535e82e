"""Rows that other processes check are the rows that this one checks, in the same order."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import closing
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import psutil  # type: ignore[import-untyped]  # published without annotations
import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from assets.ingest.json_lines import read_file_blocks
from assets.ingest.lines import Block
from assets.ingest.manifest import list_table_files
from assets.ingest.manifest_tables import MANIFEST_TABLES
from assets.ingest.rejects import ManifestError, Reject
from assets.ingest.report import IngestCounts, IngestReport
from assets.ingest.rows import DIMENSIONS, CaptionRow, CheckedRow
from assets.ingest.run import ingest_folder
from assets.ingest.workers import (
    LARGE_FILE_BYTES,
    WorkerKilled,
    WorkerProcess,
    choose_n_workers,
    read_checked_rows,
    submit_ahead,
)
from assets.ingest.write import RowWriter
from db.manifest.datasets import find_or_create_dataset
from db.manifest.store import open_ingest_store
from tests.assets.manifests import candidate, content, of_kind, reference, spans, write_lines, write_manifest
from tests.attack.manifest_rows import good_row, rows_of, write_table
from tests.attack.manifest_rows import write_lines as write_spoilt
from tests.orchestration.survival import until


def plain(checked: CheckedRow) -> Any:
    """What the database is told of a row."""
    raw, row = checked
    if isinstance(row, Reject):
        return raw.source, raw.line, raw.kind, raw.fields, raw.raw, row
    values = {name: getattr(row, name) for name in type(row).model_fields if name != "segments"}
    segments = row.content["segments"] if isinstance(row, CaptionRow) and row.segments is not None else None
    shown = raw.fields if raw.kind == "video" else None
    return raw.source, raw.line, raw.kind, shown, raw.raw, type(row), values, segments, row.extra, row.content_sha256


@pytest.fixture
def spoilt(tmp_path: Path) -> Path:
    """A file of mixed rows of all kinds, some of them spoilt, and of several blocks."""
    random = Random(5)
    rows = [row for kind in MANIFEST_TABLES for row in of_kind(kind, *rows_of(random, kind, 400))]
    rows += of_kind("caption", reference("timed", "v1", "A man.", segments=spans((0, 1), (1.5, 2), texts=["a", None])))
    random.shuffle(rows)
    return write_spoilt(random, tmp_path / "rows.jsonl", rows).path


def workers() -> set[psutil.Process]:
    """The processes of this one that check rows."""
    return {child for child in psutil.Process().children() if "assets.ingest.worker" in child.cmdline()}


def checked_by_a_process(path: Path, kind: str | None) -> Iterator[CheckedRow]:
    with closing(WorkerProcess(path.name, kind, DIMENSIONS, {})) as worker:
        for block in read_file_blocks(path):
            yield from worker.check_block(block)


def test_a_process_checks_like_this_one(spoilt: Path) -> None:
    expected = list(map(plain, read_checked_rows(spoilt, None, DIMENSIONS, 0)))
    refused = [row for row in expected if isinstance(row[-1], Reject)]
    assert len(expected) > 2000
    assert 0 < len(refused) < len(expected) / 2
    assert list(map(plain, checked_by_a_process(spoilt, None))) == expected


@pytest.mark.parametrize("n_workers", [1, 2])
def test_several_check_one_file_in_its_order(tmp_path: Path, n_workers: int) -> None:
    rows = [candidate(f"c{i}", "v1", "word " * 100) for i in range(20_000)]
    path = write_lines(tmp_path / "captions.jsonl", rows)
    checked = read_checked_rows(path, "caption", DIMENSIONS, n_workers)
    for row, (raw, valid) in zip(rows, checked, strict=True):
        assert isinstance(valid, CaptionRow)
        assert row["caption_id"] == valid.caption_id == f"c{raw.line - 1}"


def test_the_database_is_told_the_same(engine: Engine, tmp_path: Path) -> None:
    """Tables and mixed rows of all kinds, spoilt in many ways: checked by this process, with others, and by another."""
    random = Random(6)
    folder = tmp_path / "set"
    folder.mkdir()
    for kind in MANIFEST_TABLES:
        rows = [*rows_of(random, kind, 150)]
        if kind == "video":
            rows += [{**good_row(random, "video", i), "path": None, "duration_s": 4.0} for i in range(12)]
        if kind == "caption":
            rows += [reference(f"t{i}", f"v{i}", "x", segments=spans((0, i), texts=["a"])) for i in range(9)]
        write_table(random, folder, kind, [*rows, *rows[:9]], "jsonl")
    mixed = [row for kind in MANIFEST_TABLES for row in of_kind(kind, *rows_of(random, kind, 40))]
    mixed_rows = write_spoilt(random, folder / "rows.jsonl", mixed).path

    def by_a_process() -> IngestReport:
        with engine.begin() as connection:
            dataset = find_or_create_dataset(connection, "set", 1)
        counts = IngestCounts()
        with open_ingest_store(engine, dataset) as store:
            writer = RowWriter(store, folder, counts)
            for kind, path in list_table_files(folder).items():
                writer.write_rows(checked_by_a_process(path, kind))
            writer.write_rows(checked_by_a_process(mixed_rows, None))
        return counts.build_report("set")

    def with_workers(n_workers: int) -> IngestReport:
        return ingest_folder(engine, folder, "set", mixed_rows=mixed_rows, n_workers=n_workers)

    found = []
    for ingest in (partial(with_workers, 0), partial(with_workers, 1), partial(with_workers, 2), by_a_process):
        with engine.begin() as connection:
            connection.execute(sa.text("DELETE FROM dataset"))
        found.append((ingest().as_dict(), content(engine)))
    counts, rows_by_table = found[0]
    assert min(counts["accepted"].values()) > 0
    assert counts["rejected"] == len(rows_by_table["ingest_reject"]) > 200
    assert all(there == found[0] for there in found[1:])


def test_items_come_in_order_some_ahead_and_an_error_after_those_before_it() -> None:
    def items() -> Iterator[int]:
        yield from range(5)
        raise ManifestError("it changed")

    submitted: list[int] = []

    def submit(item: int) -> Future[int]:
        submitted.append(item)
        future: Future[int] = Future()
        future.set_result(item * item)
        return future

    results = ((item, future.result()) for item, future in submit_ahead(items(), submit, 2))
    assert next(results) == (0, 0)
    assert submitted == [0, 1, 2]
    assert [next(results) for _ in range(4)] == [(1, 1), (2, 4), (3, 9), (4, 16)]
    with pytest.raises(ManifestError, match="it changed"):
        next(results)
    assert submitted == [0, 1, 2, 3, 4]


def test_an_ingest_that_ends_early_ends_its_processes(spoilt: Path) -> None:
    with closing(read_checked_rows(spoilt, None, DIMENSIONS, 1)) as rows:
        next(rows)
        # Linux shows the arguments of a new program a moment after its start, and the first rows do not wait for it.
        until(lambda: bool(workers()), "the process shows what it runs")
        (started,) = workers()
    assert not started.is_running()


def test_an_ingest_with_a_killed_process_is_one_sentence_and_the_next_one_writes_the_rest(
    engine: Engine, tmp_path: Path
) -> None:
    captions = [candidate(f"c{i}", "v1", "word " * 400) for i in range(3000)]
    folder = write_manifest(tmp_path / "set", ["v1"], captions=[*captions, candidate("bad", "v2", "x")])
    ingest_folder(engine, folder, "set", n_workers=0)
    undisturbed = content(engine)
    with engine.begin() as connection:
        connection.execute(sa.text("DELETE FROM dataset"))
    written: list[int] = []

    def kill(source: str, n_read: int) -> None:
        if source == "captions.jsonl":
            written.append(n_read)
            for process in workers():
                process.kill()

    with pytest.raises(WorkerKilled, match=r"^captions\.jsonl: .*SIGKILL.* run the same command again; [^\n]*$"):
        ingest_folder(engine, folder, "set", n_workers=2, progress=kill)
    assert WorkerKilled.plain
    assert workers() == set()
    assert 0 < written[-1] < 3000
    assert [row["key"] for row in content(engine)["sample"]] == sorted(f"c{i}" for i in range(written[-1]))
    report = ingest_folder(engine, folder, "set", n_workers=2)
    assert report.unchanged["captions"] == written[-1]
    assert report.accepted["captions"] == 3000 - written[-1]
    assert content(engine) == undisturbed


def test_a_fault_in_a_process_is_told_with_its_traceback() -> None:
    worker = WorkerProcess("rows.jsonl", None, DIMENSIONS, {})
    with pytest.raises(RuntimeError, match=r"status 1:(.|\n)*TypeError: a bytes-like object is required") as raised:
        worker.check_block(Block(1, "no bytes"))  # type: ignore[arg-type]  # that is the fault
    worker.close()
    assert not isinstance(raised.value, WorkerKilled)


def test_only_large_files_of_json_lines_have_processes(engine: Engine, tmp_path: Path) -> None:
    started: list[set[psutil.Process]] = []
    folder = write_manifest(tmp_path / "set", ["v1"], captions=[candidate("c1", "v1", "A man.")])
    ingest_folder(engine, folder, "set", progress=lambda *_: started.append(workers()))
    assert started == [set(), set()]
    file = tmp_path / "large.jsonl"
    with file.open("wb") as large:
        large.truncate(LARGE_FILE_BYTES - 1)
        assert choose_n_workers(file) == 0
        large.truncate(LARGE_FILE_BYTES)
        assert 0 <= choose_n_workers(file) <= 2
    with pytest.raises(ManifestError, match=r"none\.jsonl: cannot be read"):
        choose_n_workers(tmp_path / "none.jsonl")


def test_the_processes_load_neither_models_nor_dagster_nor_the_database() -> None:
    code = "import assets.ingest.worker, sys; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "pydantic" in found
    assert {"torch", "transformers", "dagster", "sqlalchemy", "psycopg", "numpy"}.isdisjoint(found)
