"""The folder of copies: bounded, shared by processes, and never with half a file under a final name."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from assets.media.cache import MediaCache
from assets.media.errors import MediaUnavailable

KB = 1000


def fill(cache: MediaCache, content: bytes, *, size: int | None = None, suffix: str = ".mp4") -> Path:
    """Put content into the cache, in two blocks; its place afterwards."""
    with cache.add_copy(giving(content), suffix, size) as copy:
        assert copy.path.read_bytes() == content
        assert (copy.digest, copy.size_bytes) == (hashlib.sha256(content).digest(), len(content))
    return copy.path


def giving(content: bytes) -> Callable[[Callable[[bytes], object]], None]:
    def read(write: Callable[[bytes], object]) -> None:
        half = len(content) // 2
        write(content[:half])
        write(content[half:])

    return read


def has(cache: MediaCache, content: bytes) -> bool:
    with cache.hold_copy(hashlib.sha256(content).digest(), ".mp4") as copy:
        return copy is not None


def aged(path: Path, seconds: int) -> None:
    os.utime(path, (1_000_000 - seconds,) * 2)


def blocks(n: int) -> list[bytes]:
    return [bytes([number]) * 10 * KB for number in range(n)]


def names(cache: MediaCache) -> set[str]:
    return {path.name for path in cache.folder.iterdir()}


@pytest.mark.parametrize("size", [None, 10 * KB])
def test_the_copies_unused_for_longest_leave_first(tmp_path: Path, size: int | None) -> None:
    cache = MediaCache(tmp_path / "cache", 30 * KB)
    first, second, third, fourth = blocks(4)
    for age, content in ((30, first), (20, second), (10, third)):
        aged(fill(cache, content, size=10 * KB), age)
    assert has(cache, first)  # which is a use of it
    path = fill(cache, fourth, size=size)
    assert [has(cache, each) for each in blocks(4)] == [True, False, True, True]
    assert path.exists()
    assert sum(path.stat().st_size for path in cache.folder.iterdir()) <= cache.max_bytes


def test_a_copy_in_use_stays(tmp_path: Path) -> None:
    cache = MediaCache(tmp_path, 20 * KB)
    first, second, third, _ = blocks(4)
    aged(fill(cache, first, size=10 * KB), 50)
    with cache.hold_copy(hashlib.sha256(first).digest(), ".mp4") as copy:
        assert copy is not None
        assert copy.size_bytes == 10 * KB
        aged(copy.path, 100)
        aged(fill(cache, second, size=10 * KB), 10)
        fill(cache, third, size=10 * KB)
        assert copy.path.read_bytes() == first
        assert not has(cache, second)


def test_content_that_is_there_already_is_kept_once(tmp_path: Path) -> None:
    cache = MediaCache(tmp_path, 100 * KB)
    (content,) = blocks(1)
    with cache.add_copy(giving(content), ".mp4", None) as first:
        inode = first.path.stat().st_ino
        assert fill(cache, content) == first.path
        assert first.path.stat().st_ino == inode
    assert len(names(cache)) == 1


@pytest.mark.parametrize(
    ("size", "limit", "why"),
    [(9 * KB, 100 * KB, "more than the 9,000 bytes"), (11 * KB, 100 * KB, "10,000 of the 11,000 bytes")],
)
def test_another_size_than_announced_leaves_nothing(tmp_path: Path, size: int, limit: int, why: str) -> None:
    cache = MediaCache(tmp_path, limit)
    with pytest.raises(MediaUnavailable, match=why):
        fill(cache, blocks(1)[0], size=size)
    assert names(cache) == set()


@pytest.mark.parametrize("size", [10 * KB, None])
def test_a_file_larger_than_the_cache_is_refused(tmp_path: Path, size: int | None) -> None:
    cache = MediaCache(tmp_path, 9 * KB)
    with pytest.raises(MediaUnavailable, match=r"does not fit the media cache: raise REELSIEVE_MEDIA_CACHE_GB"):
        fill(cache, blocks(1)[0], size=size)
    assert names(cache) == set()


def test_an_error_of_the_reader_leaves_nothing(tmp_path: Path) -> None:
    cache = MediaCache(tmp_path, 100 * KB)

    def read(write: Callable[[bytes], object]) -> None:
        write(b"half")
        raise MediaUnavailable("trouble", "gone")

    with pytest.raises(MediaUnavailable, match="gone"), cache.add_copy(read, "", None):
        pass
    assert names(cache) == set()


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(MediaUnavailable, match="set REELSIEVE_MEDIA_CACHE to a folder"):
        fill(MediaCache(tmp_path / "file" / "cache", KB), b"x")


def test_other_files_in_the_folder_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.mp4").write_bytes(b"x" * 50 * KB)
    cache = MediaCache(tmp_path, 10 * KB)
    for content in blocks(3):
        fill(cache, content)
    assert (tmp_path / "mine.mp4").exists()


@pytest.mark.parametrize("suffix", ["", ".MP4", ".tar.gz/../x", ".a b", ".toolongasuffix"])
def test_a_suffix_is_kept_where_it_is_plain(tmp_path: Path, suffix: str) -> None:
    path = fill(MediaCache(tmp_path, KB), b"x", suffix=suffix)
    assert path.parent == tmp_path
    assert path.suffix == (".mp4" if suffix == ".MP4" else "")


WRITER = """
import sys
from pathlib import Path
from assets.media.cache import MediaCache
cache = MediaCache(Path(sys.argv[1]), 100_000)
def read(write):
    write(b"h" * 5_000)
    print("half", flush=True)
    sys.stdin.readline()
    write(b"h" * 5_000)
with cache.add_copy(read, ".mp4", 10_000) as copy:
    print(copy.path.stat().st_size, flush=True)
"""


def test_a_killed_writer_leaves_nothing_under_a_final_name(tmp_path: Path) -> None:
    cache = MediaCache(tmp_path, 100 * KB)
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "half\n"
        (part,) = names(cache)
        assert part.endswith(".part")
        # A living writer's part stays, with the room that it asked for.
        fill(cache, b"x")
        assert part in names(cache)
        assert (tmp_path / part).stat().st_size == 10 * KB
        writer.send_signal(signal.SIGKILL)
        writer.wait()
    assert part in names(cache)
    fill(cache, b"y")
    assert names(cache) == {hashlib.sha256(each).hexdigest() + ".mp4" for each in (b"x", b"y")}


SHARER = """
import hashlib, random, sys
from pathlib import Path
from assets.media.cache import MediaCache
cache, seed = MediaCache(Path(sys.argv[1]), 40_000), int(sys.argv[2])
numbers = random.Random(seed)
for _ in range(150):
    content = bytes([numbers.randrange(12)]) * 10_000
    with cache.hold_copy(hashlib.sha256(content).digest(), ".mp4") as copy:
        if copy is not None:
            assert copy.path.read_bytes() == content
            continue
    with cache.add_copy(lambda write: (write(content[:3_000]), write(content[3_000:])), ".mp4", 10_000) as copy:
        assert copy.path.read_bytes() == content
    total = 0
    for path in cache.folder.iterdir():
        try:
            total += path.stat().st_size
        except FileNotFoundError:
            pass
    assert total <= 40_000, total
"""


def test_processes_share_the_folder_within_its_limit(tmp_path: Path) -> None:
    with ExitStack() as stack:
        sharers = [
            stack.enter_context(subprocess.Popen([sys.executable, "-c", SHARER, str(tmp_path), str(seed)]))
            for seed in range(3)
        ]
    assert [sharer.returncode for sharer in sharers] == [0, 0, 0]
    assert not [name for name in names(MediaCache(tmp_path, 0)) if name.endswith(".part")]
