"""Whether a file is the one that was ingested, on real files."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace

import pytest

from assets.ingest.rejects import Reject
from assets.ingest.rows import VideoRow
from assets.ingest.video_columns import inspect_video
from assets.media.errors import MediaUnavailable
from assets.media.file_state import FileState
from assets.media.files import hold_ingested_file

CONTENT = b"as it was ingested"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "set" / "clip.mp4"
    path.parent.mkdir()
    path.write_bytes(CONTENT)
    return path


def stored(path: Path, sha256: bytes = hashlib.sha256(CONTENT).digest()) -> SimpleNamespace:
    """The row of the file as it is now."""
    state = FileState.build_from_stat(path.stat())
    return SimpleNamespace(key="v", uri=str(path), content_sha256=sha256, member_offset=None, **asdict(state))


def check(video: SimpleNamespace) -> None:
    with hold_ingested_file(video) as held:
        assert held.path == Path(video.uri)


def with_times_of(path: Path, stat: os.stat_result) -> None:
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def test_an_untouched_file_is_not_read(file: Path) -> None:
    check(stored(file, b"another hash"))


def test_a_file_that_changes_while_it_is_read_is_refused(file: Path) -> None:
    for change in (touched, Path.unlink):
        changed = pytest.raises(MediaUnavailable, match="the file changed while it was read: put the file back")
        with changed, hold_ingested_file(stored(file)) as held:
            change(held.path)


def copied(path: Path) -> None:
    Path(shutil.copy2(path, path.with_name("copy"))).replace(path)


def linked_twice(path: Path) -> None:
    os.link(path, path.with_name("second name"))


def touched(path: Path) -> None:
    os.utime(path, (1, 1))


@pytest.mark.parametrize("change", [copied, linked_twice, touched])
def test_the_content_decides_where_only_the_state_differs(file: Path, change: Callable[[Path], None]) -> None:
    video = stored(file)
    change(file)
    assert vars(stored(file)) != vars(video)
    check(video)


def written_over(path: Path) -> None:
    stat = path.stat()
    path.write_bytes(CONTENT[::-1])
    with_times_of(path, stat)


def replaced(path: Path) -> None:
    stat, other = path.stat(), path.with_name("other")
    other.write_bytes(CONTENT[::-1])
    with_times_of(other, stat)
    other.replace(path)


def longer(path: Path) -> None:
    path.write_bytes(CONTENT * 2)


@pytest.mark.parametrize("change", [written_over, replaced, longer])
def test_another_content_is_noticed(file: Path, change: Callable[[Path], None]) -> None:
    video = stored(file)
    change(file)
    with pytest.raises(MediaUnavailable, match="the file has changed since it was ingested"):
        check(video)


def moved_behind_a_link(path: Path) -> None:
    path.rename(path.parents[1] / "outside.mp4")
    path.symlink_to(path.parents[1] / "outside.mp4")


def in_a_folder_behind_a_link(path: Path) -> None:
    path.parent.rename(path.parents[1] / "outside")
    path.parent.symlink_to(path.parents[1] / "outside")


def link_in_a_circle(path: Path) -> None:
    path.unlink()
    path.symlink_to(path)


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (moved_behind_a_link, r"the path leads to .*outside\.mp4 through a link made since it was ingested"),
        (in_a_folder_behind_a_link, r"the path leads to .*outside/clip\.mp4 through a link made since it was ingested"),
        (link_in_a_circle, "the path leads nowhere|too many levels of symbolic links"),
        (pipe, "no longer a regular file"),
        (Path.unlink, "no such file or directory"),
    ],
)
def test_what_is_no_file_of_the_folder_any_more_is_refused(
    file: Path, change: Callable[[Path], None], reason: str
) -> None:
    video = stored(file)
    change(file)
    with pytest.raises(MediaUnavailable, match=reason):
        check(video)


@pytest.mark.skipif(sys.platform != "linux", reason="needs a regular file that nobody can read from its beginning")
def test_a_file_that_cannot_be_read_is_refused_alone() -> None:
    refused = inspect_video(Path("/proc/self"), VideoRow(video_id="v", path="mem"), None)
    assert isinstance(refused, Reject)
    assert (refused.code, refused.reason) == (
        "file_missing",
        "field 'path' is 'mem': input/output error: make the file readable",
    )
