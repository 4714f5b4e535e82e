"""Exports: whole or not at all, beside one another, and one sentence where the path cannot be."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from assets.selection.export import export_selection
from assets.selection.export_input import load_export_input
from assets.selection.export_target import ExportFormat, require_export_target
from db.selection import exports
from db.selection.exports import load_export_batches
from db.selection.recipes import SelectionError, parse_recipe
from tests.assets.exporting import files_of_at_most
from tests.db.builders import add_sample, add_video, make_dataset, set_scores
from tests.db.freezing import freeze_recipe
from tests.ordinary_user import open_folder, ordinary_user

N = 40
HOLDER = """
import sys
from pathlib import Path
from assets.selection.partial_file import open_partial_file
with open_partial_file(Path(sys.argv[1])) as file:
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
        return freeze_recipe(connection, clips, parse_recipe({"by": "vcs", "keep": 1})).selection_id


@contextmanager
def writer(target: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process in the middle of an export to `target`."""
    command = [sys.executable, "-c", HOLDER, str(target)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "writing\n"
        yield process


def write(engine: Engine, selection_id: int, path: Path, form: ExportFormat | None = None) -> Path:
    """Export, and return where."""
    return export_selection(engine, selection_id, path, form).path


def partial_files(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.name.endswith(".partial")]


@pytest.mark.parametrize("name", ["best.parquet", "best.jsonl", "best.csv"])
def test_an_export_holds_every_row_and_leaves_nothing_but_its_passport_beside_it(
    module_engine: Engine, selection_id: int, tmp_path: Path, name: str
) -> None:
    target = write(module_engine, selection_id, tmp_path / name)
    if name.endswith(".jsonl"):
        ranks = [json.loads(line)["rank"] for line in target.read_text().splitlines()]
    elif name.endswith(".csv"):
        ranks = [int(line.split(",")[0]) for line in target.read_text().splitlines()[1:]]
    else:
        ranks = [row["rank"] for row in pq.read_table(target).to_pylist()]
    assert ranks == list(range(1, N + 1))
    passport = [] if name.endswith(".parquet") else [f"{name}.passport.json"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [name, *passport]
    umask = os.umask(0)
    os.umask(umask)
    assert target.stat().st_mode & 0o777 == 0o666 & ~umask


@pytest.mark.parametrize("name", ["best.jsonl", "best.csv"])
def test_a_file_where_the_passport_belongs_is_not_overwritten(
    module_engine: Engine, selection_id: int, tmp_path: Path, name: str
) -> None:
    there = tmp_path / f"{name}.passport.json"
    there.write_text("of another export, which was moved away")
    with pytest.raises(SelectionError, match=rf"{name}.passport.json: cannot export to it, because it exists: move it"):
        write(module_engine, selection_id, tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == [there.name]
    assert there.read_text() == "of another export, which was moved away"


@pytest.mark.parametrize("name", ["best.jsonl", "best.csv"])
def test_the_passport_of_an_export_that_was_killed_before_its_last_step_is_replaced(
    module_engine: Engine, selection_id: int, tmp_path: Path, name: str
) -> None:
    target, passport = tmp_path / name, tmp_path / f"{name}.passport.json"
    first = write(module_engine, selection_id, target).read_bytes()
    target.unlink()
    assert write(module_engine, selection_id, target).read_bytes() == first
    # One that speaks of another file stays.
    passport.rename(tmp_path / f"other{target.suffix}.passport.json")
    with pytest.raises(SelectionError, match=r"passport\.json: cannot export to it, because it exists"):
        write(module_engine, selection_id, target.with_stem("other"))


def test_what_a_killed_export_left_goes_with_the_next_one(
    module_engine: Engine, selection_id: int, tmp_path: Path
) -> None:
    with writer(tmp_path / "other.parquet") as process:
        process.send_signal(signal.SIGKILL)
    assert len(partial_files(tmp_path)) == 1
    target = write(module_engine, selection_id, tmp_path / "best.parquet")
    assert list(tmp_path.iterdir()) == [target]


def test_two_exports_to_one_file_at_once_do_not_meet(module_engine: Engine, selection_id: int, tmp_path: Path) -> None:
    with writer(tmp_path / "best.parquet") as process:
        target = write(module_engine, selection_id, tmp_path / "best.parquet")
        assert pq.read_table(target).num_rows == N
        assert len(partial_files(tmp_path)) == 1, "the one of the living process stays"
        process.communicate("go on\n")
    assert process.returncode == 0
    assert target.read_bytes() == b"half a", "the last one to end counts"
    assert list(tmp_path.iterdir()) == [target]


def test_a_name_may_be_as_long_as_the_file_system_allows(
    module_engine: Engine, selection_id: int, tmp_path: Path
) -> None:
    longest = tmp_path / ("x" * (os.pathconf(tmp_path, "PC_NAME_MAX") - len(".parquet")) + ".parquet")
    assert write(module_engine, selection_id, longest) == longest
    with pytest.raises(SelectionError, match="File name too long"):
        require_export_target(longest.with_name(f"x{longest.name}"))
    # The passport beside it has a longer name, and so has a folder that is not complete.
    for path, form in (
        (longest.with_suffix(".csv"), None),
        (tmp_path / ("x" * 250), ExportFormat.WEB_DATASET),
    ):
        with pytest.raises(SelectionError, match="File name too long"):
            require_export_target(path, form)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("folder.parquet", "it is a folder"),
        ("device.parquet", "it is not a regular file"),
        ("fifo.jsonl", "it is not a regular file"),
        ("missing/best.jsonl", "no such folder"),
        ("file.jsonl/best.jsonl", "no such folder"),
        ("best.txt", "cannot export to .txt: use .parquet, .jsonl or .csv, or name a --format"),
        ("best", "cannot export to a file without suffix"),
        ("there.csv", "it exists: move it away, or give another name"),
        ("~nobody-of-this-name/best.jsonl", "cannot be written"),
    ],
)
def test_a_path_that_cannot_be_is_one_sentence(tmp_path: Path, name: str, says: str) -> None:
    (tmp_path / "folder.parquet").mkdir()
    (tmp_path / "device.parquet").symlink_to("/dev/null")
    os.mkfifo(tmp_path / "fifo.jsonl")
    (tmp_path / "file.jsonl").touch()
    (tmp_path / "there.csv").touch()
    with pytest.raises(SelectionError, match=says) as caught:
        require_export_target(Path(name) if name.startswith("~") else tmp_path / name)
    assert "\n" not in str(caught.value)


def test_a_folder_without_the_right_to_write_is_one_sentence() -> None:
    with open_folder() as folder:
        folder.chmod(0o555)
        with ordinary_user(), pytest.raises(SelectionError, match="Permission denied"):
            require_export_target(folder / "best.jsonl")


@pytest.mark.parametrize("form", list(ExportFormat))
def test_what_exists_is_not_overwritten(
    module_engine: Engine, selection_id: int, tmp_path: Path, form: ExportFormat
) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "folder").mkdir()
    for name in ("file", "folder"):
        with pytest.raises(SelectionError, match=r"(it exists|it is a folder): move it away, or give another name"):
            write(module_engine, selection_id, tmp_path / name, form)
    assert (tmp_path / "file").read_text() == "mine"
    assert list((tmp_path / "folder").iterdir()) == []
    assert len(list(tmp_path.iterdir())) == 2


def test_a_suffix_of_another_format_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(SelectionError, match=r"the suffix is that of parquet, and the format is csv: change one"):
        require_export_target(tmp_path / "best.parquet", ExportFormat.CSV)


@pytest.mark.parametrize(
    "form", [form for form in ExportFormat if form not in (ExportFormat.WEB_DATASET, ExportFormat.KEYS)]
)
@pytest.mark.parametrize("n_bytes", [100, 3000])
def test_what_fails_while_it_is_written_is_one_sentence_and_leaves_nothing(
    module_engine: Engine, selection_id: int, tmp_path: Path, form: ExportFormat, n_bytes: int
) -> None:
    with files_of_at_most(n_bytes), pytest.raises(SelectionError, match="File too large") as caught:
        write(module_engine, selection_id, tmp_path / "best", form)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("form", list(ExportFormat))
def test_an_unknown_selection_is_one_sentence_and_leaves_nothing(
    module_engine: Engine, tmp_path: Path, form: ExportFormat
) -> None:
    with pytest.raises(SelectionError, match="there is no selection 999: make one with reelsieve select"):
        write(module_engine, 999, tmp_path / "best", form)
    assert list(tmp_path.iterdir()) == []


def test_batches_hold_all_rows_in_order_and_pass_over_gaps(
    module_engine: Engine, selection_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exports, "ROWS_AT_A_TIME", 7)
    with module_engine.connect() as connection:
        query = load_export_input(connection, selection_id, "jsonl").query
        sizes = [[row.rank for row in batch] for batch in load_export_batches(connection, query)]
        assert sizes == [list(range(start, min(start + 7, N + 1))) for start in range(1, N + 1, 7)]
        connection.execute(sa.text("DELETE FROM selection_item WHERE rank BETWEEN 5 AND 33 OR rank > 38"))
        left = [row.rank for batch in load_export_batches(connection, query) for row in batch]
        assert left == [1, 2, 3, 4, 34, 35, 36, 37, 38]
        connection.rollback()


def test_rows_that_someone_deleted_are_missed(engine: Engine, tmp_path: Path) -> None:
    clips = make_dataset(engine)
    samples = [add_sample(engine, clips, add_video(engine, clips, f"v{n}"), f"s{n}") for n in range(3)]
    set_scores(engine, {sample: sample / 10 for sample in samples})
    with engine.begin() as connection:
        chosen = freeze_recipe(connection, clips, parse_recipe({"by": "vcs", "keep": 1})).selection_id
        connection.exec_driver_sql("DELETE FROM selection_item WHERE rank = 2")
    for form in (ExportFormat.PARQUET, ExportFormat.HUGGING_FACE, ExportFormat.CSV):
        with pytest.raises(SelectionError, match="has only 2 of its 3 rows"):
            write(engine, chosen, tmp_path / "best", form)
    assert list(tmp_path.iterdir()) == []
