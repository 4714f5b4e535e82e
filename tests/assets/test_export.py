"""Exports: whole or not at all, beside one another, and one sentence where the path cannot be."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from sqlalchemy.engine import Engine

from assets.selection.export import export_selection, export_target
from db.recipes import SelectionError, recipe_of
from db.selection import freeze_selection
from tests.db.builders import add_sample, add_video, make_dataset, set_scores
from tests.ordinary_user import open_folder, ordinary_user

N = 40
HOLDER = """
import sys
from pathlib import Path
from assets.selection.partial_file import partial_file
with partial_file(Path(sys.argv[1])) as file:
    file.write(b"half a")
    file.flush()
    print("writing", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture(scope="module")
def selection_id(module_engine: Engine) -> int:
    """A frozen selection of N samples."""
    clips = make_dataset(module_engine)
    video = add_video(module_engine, clips, "v")
    samples = {add_sample(module_engine, clips, video, f"s{n}", f"text {n}"): n / N for n in range(N)}
    set_scores(module_engine, samples)
    with module_engine.begin() as connection:
        return freeze_selection(connection, clips, recipe_of({"by": "vcs", "keep": 1})).selection_id


@contextmanager
def writer(target: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process in the middle of an export to `target`."""
    command = [sys.executable, "-c", HOLDER, str(target)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "writing\n"
        yield process


def partial_files(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.name.endswith(".partial")]


@pytest.mark.parametrize("name", ["best.parquet", "best.jsonl"])
def test_an_export_holds_every_row_and_leaves_nothing_beside_it(
    module_engine: Engine, selection_id: int, tmp_path: Path, name: str
) -> None:
    target = export_selection(module_engine, selection_id, tmp_path / name)
    if name.endswith(".jsonl"):
        rows = [json.loads(line) for line in target.read_text().splitlines()]
    else:
        rows = pq.read_table(target).to_pylist()
    assert [row["rank"] for row in rows] == list(range(1, N + 1))
    assert list(tmp_path.iterdir()) == [target]
    umask = os.umask(0)
    os.umask(umask)
    assert target.stat().st_mode & 0o777 == 0o666 & ~umask


def test_what_a_killed_export_left_goes_with_the_next_one(
    module_engine: Engine, selection_id: int, tmp_path: Path
) -> None:
    with writer(tmp_path / "other.parquet") as process:
        process.send_signal(signal.SIGKILL)
    assert len(partial_files(tmp_path)) == 1
    target = export_selection(module_engine, selection_id, tmp_path / "best.parquet")
    assert list(tmp_path.iterdir()) == [target]


def test_two_exports_to_one_file_at_once_do_not_meet(module_engine: Engine, selection_id: int, tmp_path: Path) -> None:
    with writer(tmp_path / "best.jsonl") as process:
        target = export_selection(module_engine, selection_id, tmp_path / "best.jsonl")
        assert len(target.read_text().splitlines()) == N
        assert len(partial_files(tmp_path)) == 1, "the one of the living process stays"
        process.communicate("go on\n")
    assert process.returncode == 0
    assert target.read_bytes() == b"half a", "the last one to end counts"
    assert list(tmp_path.iterdir()) == [target]


def test_a_name_may_be_as_long_as_the_file_system_allows(
    module_engine: Engine, selection_id: int, tmp_path: Path
) -> None:
    longest = tmp_path / ("x" * (os.pathconf(tmp_path, "PC_NAME_MAX") - len(".jsonl")) + ".jsonl")
    assert export_selection(module_engine, selection_id, longest) == longest
    with pytest.raises(SelectionError, match="File name too long"):
        export_target(longest.with_name(f"x{longest.name}"))


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("folder.parquet", "it is a folder"),
        ("device.parquet", "it is no regular file"),
        ("fifo.jsonl", "it is no regular file"),
        ("missing/best.jsonl", "no such folder"),
        ("file.jsonl/best.jsonl", "no such folder"),
        ("best.csv", "use .parquet or .jsonl"),
        ("~nobody-of-this-name/best.jsonl", "cannot be written"),
    ],
)
def test_a_path_that_cannot_be_is_one_sentence(tmp_path: Path, name: str, says: str) -> None:
    (tmp_path / "folder.parquet").mkdir()
    (tmp_path / "device.parquet").symlink_to("/dev/null")
    os.mkfifo(tmp_path / "fifo.jsonl")
    (tmp_path / "file.jsonl").touch()
    with pytest.raises(SelectionError, match=says) as caught:
        export_target(Path(name) if name.startswith("~") else tmp_path / name)
    assert "\n" not in str(caught.value)


def test_a_folder_without_the_right_to_write_is_one_sentence() -> None:
    with open_folder() as folder:
        folder.chmod(0o555)
        with ordinary_user(), pytest.raises(SelectionError, match="Permission denied"):
            export_target(folder / "best.jsonl")


def test_what_fails_while_it_is_written_is_one_sentence_and_leaves_nothing(
    module_engine: Engine, selection_id: int, tmp_path: Path
) -> None:
    """As on a full disk: no file of this process may have more than a hundred bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        for name in ("best.parquet", "best.jsonl"):
            with pytest.raises(SelectionError, match="File too large"):
                export_selection(module_engine, selection_id, tmp_path / name)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(tmp_path.iterdir()) == []
