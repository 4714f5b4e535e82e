"""Which file a cell of a table means: by the end of its path, judged by all cells, and never that of another folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from assets.new_manifest.video_cells import VideoFiles, match_cells

Matches = dict[str, str | None]


@pytest.mark.parametrize(
    ("cells", "files", "expected"),
    [
        # A part of a dataset: no caption of another folder's file of the same name.
        (["train/0.mp4", "test/0.mp4"], ["test/0.mp4"], ["", "test/0.mp4"]),
        (["u1/split_0.mp4", "u2/split_0.mp4"], ["u2/split_0.mp4"], ["", "u2/split_0.mp4"]),
        ([r"C:\d\train\0.mp4", r"C:\d\test\0.mp4"], ["test/0.mp4", "test/1.mp4"], ["", "test/0.mp4"]),
        (["/mnt/d/train/0.mp4", "/mnt/d/test/0.mp4"], ["test/0.mp4"], ["", "test/0.mp4"]),
        (["a/train/0.mp4"], ["b/train/0.mp4"], [""]),
        (["other/0.mp4"], ["0.mp4", "b/0.mp4"], [""]),
        # The same places below another root, on this machine or another.
        (
            ["train/0.mp4", "test/0.mp4"],
            ["data/train/0.mp4", "data/test/0.mp4"],
            ["data/train/0.mp4", "data/test/0.mp4"],
        ),
        (["set/train/0.mp4", "set/1.mp4"], ["train/0.mp4", "1.mp4"], ["train/0.mp4", "1.mp4"]),
        (["in/train/0.mp4", "in/train/2.mp4"], ["train/0.mp4"], ["train/0.mp4", ""]),
        (["/mnt/a/train/0.mp4", "/mnt/b/train/0.mp4"], ["b/train/0.mp4"], ["", "b/train/0.mp4"]),
        (["/mnt/a/0.mp4", "/mnt/a/1.mp4"], ["0.mp4"], ["0.mp4", ""]),
        (["/mnt/a/0.mp4", "/mnt/a/1.mp4"], ["b/0.mp4"], ["", ""]),
        (["/home/u/set/x/0.mp4", "/home/u/set/1.mp4"], ["x/0.mp4", "1.mp4"], ["x/0.mp4", "1.mp4"]),
        ([r"\\server\share\train\0.mp4"], ["train/0.mp4"], ["train/0.mp4"]),
        # What is left of two paths must differ, and all must have the same place.
        (["/mnt/a/train/0.mp4", "/mnt/b/train/0.mp4"], ["train/0.mp4"], ["", ""]),
        (["/mnt/train/0.mp4", "/mnt/train/1.mp4"], ["x/train/0.mp4", "y/train/1.mp4"], [None, None]),
        (["train/0.mp4"], ["x/train/0.mp4", "y/train/0.mp4"], [None]),
        (["train/0.mp4"], ["train/0.mp4", "y/train/0.mp4"], ["train/0.mp4"]),
        # Names without a folder, and paths written in several ways.
        (["0.mp4", "1", "2"], ["x/0.mp4", "y/1.mkv", "z/2.mp4", "y/2.mp4"], ["x/0.mp4", "y/1.mkv", None]),
        (
            ["./x/0.mp4", r"x\1.mp4", "x//2", "x/y/../3.mp4"],
            [f"x/{n}.mp4" for n in range(4)],
            [f"x/{n}.mp4" for n in range(4)],
        ),
        (["file:///home/u/set/a%20b.mp4", "file:///c/x/0.mp4"], ["a b.mp4"], ["a b.mp4", ""]),
        (["cafe\u0301/0.mp4"], ["caf\u00e9/0.mp4"], ["caf\u00e9/0.mp4"]),
        (["a.mp4"], ["a.mp4.mp4", "a.mp4"], ["a.mp4"]),
        (["", ".", "..", "/", "../0.mp4"], ["0.mp4"], ["", "", "", "", ""]),
    ],
)
def test_which_file_each_cell_means(cells: list[str], files: list[str], expected: list[str | None]) -> None:
    """An empty text stands for a cell that means no file, None for one that fits several."""
    found = match_cells(cells, ".", VideoFiles(Path("/home/u/set"), files))
    assert [found.get(cell, "") for cell in cells] == expected


def test_a_path_is_looked_for_from_the_table_first() -> None:
    files = VideoFiles(Path("/home/u/set"), ["0.mp4", "meta/0.mp4", "clips/0.mp4", "clips/1.mp4"])
    expected: Matches = {"0.mp4": "meta/0.mp4", "../clips/0.mp4": "clips/0.mp4", "clips/1": "clips/1.mp4"}
    assert match_cells([*expected, "../../x/0.mp4"], "meta", files) == expected


def test_many_files_of_one_name_take_no_longer_than_others() -> None:
    files = [f"{n:05d}/clips/split_0.mp4" for n in range(5000)]
    cells = {f"/mnt/d/{file}": file for file in files}
    assert match_cells(cells, ".", VideoFiles(Path("/set"), files)) == cells
