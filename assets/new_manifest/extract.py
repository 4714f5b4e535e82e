"""Videos from tar shards and tables, written into the manifest's folder under names that stay inside it.

A video is first written under a temporary name, and gets its place when the manifest takes it: so nothing that was
there before is ever written to or removed.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from assets.ingest.files import open_file_inside
from assets.ingest.lines import ByteReader
from assets.ingest.paths import PathRejected
from assets.ingest.rows import MediaBytes
from assets.new_manifest.findings import Findings, NoManifest, Reason
from assets.new_manifest.folder import is_video_name
from assets.new_manifest.videos import VideoEntry, VideoRegistry

VIDEO_FOLDER = "videos"
_LONGEST_NAME = 200
_CHUNK = 2**20
# Bytes of the disk that stay free for others.
_SPARED = 2**26
# How the content of a video begins, for those whose table does not name a file.
_BEGINNINGS = ((4, b"ftyp", ".mp4"), (0, b"\x1a\x45\xdf\xa3", ".mkv"), (8, b"AVI ", ".avi"))
# Errors of one video's path, not of the disk.
_PATH_ERRORS = {errno.ENAMETOOLONG, errno.ENOTDIR, errno.EEXIST, errno.EISDIR, errno.ELOOP, errno.EILSEQ, errno.EINVAL}


def choose_file_name(media: MediaBytes, row: int) -> str:
    """Return the name for the file of a video inside a table. It is the last part of the name in the table; where that
    is no name of a video, it is the number of the row with a suffix guessed from the first bytes.
    """
    name = PurePosixPath((media.name or "").replace("\\", "/")).name
    if is_video_name(name):
        return name
    suffix = next((end for at, mark, end in _BEGINNINGS if media.content[at : at + len(mark)] == mark), ".mp4")
    return f"{row:06d}{suffix}"


@dataclass(frozen=True, slots=True)
class StagedVideo:
    """A video that was read and has no place in the manifest yet: its SHA-256 (32 bytes), its size in bytes and its
    temporary file. In a trial, which writes nothing, the file is None.
    """

    sha256: bytes
    size: int
    file: Path | None

    def delete_file(self) -> None:
        """Delete the temporary file, if there is one. The file that the video got in the manifest stays."""
        if self.file is not None:
            self.file.unlink()


@contextmanager
def open_workspace(target: Path) -> Iterator[Path]:
    """Yield a new folder for unfinished files inside the manifest's folder `target`, and delete it at the end of the
    block, with the manifest's folder if that was made here and is empty. Raises NoManifest where the folder cannot be
    written to.
    """
    made: list[Path] = []
    try:
        with convert_write_errors(target):
            _create_folders(target, made)
            scratch = Path(tempfile.mkdtemp(prefix=".reelsieve-", dir=target))
        try:
            yield scratch
        finally:
            shutil.rmtree(scratch)
    finally:
        _delete_empty_folders(made)


@dataclass(slots=True)
class VideoExtractor:
    """An extractor of videos from a source into the folder `videos` of the manifest `target`, which also counts them.
    `scratch` is a folder for unfinished files; in a trial it is None, and nothing is written.

    measure_free_bytes: returns the free bytes of the disk of a folder. n_videos, size_bytes: number and total size of
    the videos that have a place.
    """

    target: Path
    videos: VideoRegistry
    findings: Findings
    scratch: Path | None
    measure_free_bytes: Callable[[Path], int] = lambda folder: shutil.disk_usage(folder).free
    n_videos: int = 0
    size_bytes: int = 0
    _n_staged: int = 0
    # The path by the wanted name and digest of a video; and by wanted name, how many videos wanted it.
    _paths: dict[tuple[str, bytes], str] = field(default_factory=dict)
    _repeats: Counter[str] = field(default_factory=Counter)
    _taken: set[str] = field(default_factory=set)

    @property
    def paths(self) -> Collection[str]:
        """The paths, relative to the folder `videos`, of the videos that have a place in the manifest."""
        return self._taken

    def accept_path(self, path: str) -> bool:
        """Return whether a path can be written below `videos`: every part of it is printable, has at most 200 bytes and
        no backslash, and begins with no dot. If not, the video is counted as left out.
        """
        is_plain = path.isprintable() and all(
            part and not part.startswith(".") and "\\" not in part and len(part.encode()) <= _LONGEST_NAME
            for part in path.split("/")
        )
        if not is_plain:
            self.findings.leave_out(Reason.BAD_PATH, ascii(path))
        return is_plain

    def stage_video(self, content: ByteReader, size: int, name: str) -> StagedVideo:
        """Read a video and write it to a temporary file until it has a place; in a trial, only hash it. size: its
        bytes, as the source states them. name: how people recognise it. Raises NoManifest where the disk has no room
        for it or cannot be written, and the errors of `content`.
        """
        if self.scratch is None:
            digest, length = _copy_and_hash(content)
            return StagedVideo(digest, length, None)
        if size + _SPARED > (free := self.measure_free_bytes(self.scratch)):
            raise NoManifest(
                f"{self.target}: {name} takes {size / 1e9:.1f} GB, and {free / 1e9:.1f} GB are free: make room, or "
                "give another folder with --to"
            )
        self._n_staged += 1
        file = self.scratch / f"{self._n_staged}.partial"
        with convert_write_errors(self.target):
            to = file.open("xb")
        try:
            with to:
                digest, length = _copy_and_hash(content, partial(_write_chunk, to, self.target))
        except BaseException:
            file.unlink()
            raise
        return StagedVideo(digest, length, file)

    def keep_video(self, staged: StagedVideo, wanted: str, own_id: str | None, where: str) -> VideoEntry | None:
        """Move a staged video to its place below `videos`, and return its id and path; None where the manifest cannot
        have it. The path is `wanted`, or one with a number where other content has that. own_id: the source's id for
        the video. where: how people find it, for messages.

        The temporary file is removed in any case. Raises NoManifest where the disk cannot be written.
        """
        known = self._paths.get((wanted, staged.sha256))
        path = known or self._find_free_path(staged, wanted)
        place = self.videos.register_video(path, f"{VIDEO_FOLDER}/{path}", own_id, where)
        if place is None or (known is None and staged.file is not None and not self._link_file(staged.file, path)):
            place = None
        elif known is None:
            self._paths[wanted, staged.sha256] = path
            self._taken.add(path)
            self.n_videos, self.size_bytes = self.n_videos + 1, self.size_bytes + staged.size
        staged.delete_file()
        return place

    def _find_free_path(self, staged: StagedVideo, wanted: str) -> str:
        """Find the first path that nothing has, or a file of the same content, which an earlier try may have left."""
        suffix = PurePosixPath(wanted).suffix
        while True:
            self._repeats[wanted] += 1
            n = self._repeats[wanted]
            path = wanted if n == 1 else f"{wanted.removesuffix(suffix)}_{n}{suffix}"
            if path in self._taken:
                continue
            if not os.path.lexists(self.target / VIDEO_FOLDER / path) or self._has_same_content(path, staged):
                if n > 1:
                    self.findings.add_guess(
                        "videos with the same name and different content get a number, as in NAME_2"
                    )
                return path

    def _has_same_content(self, path: str, staged: StagedVideo) -> bool:
        """Return whether the manifest's folder has this content under a path."""
        try:
            with open_file_inside(self.target, f"{VIDEO_FOLDER}/{path}") as file:
                is_as_long = os.fstat(file.fileno()).st_size == staged.size
                return is_as_long and _copy_and_hash(file)[0] == staged.sha256
        except (PathRejected, OSError):
            return False

    def _link_file(self, staged: Path, path: str) -> bool:
        """Give the file of a video its path, and return whether that worked. Nothing is replaced."""
        file = self.target / VIDEO_FOLDER / path
        if os.path.lexists(file):
            return True
        if not Path(os.path.realpath(file.parent)).is_relative_to(os.path.realpath(self.target)):
            raise NoManifest(f"{file.parent} leads out of {self.target} through a link: remove the link")
        made: list[Path] = []
        try:
            _create_folders(file.parent, made)
            os.link(staged, file)
        except OSError as error:
            _delete_empty_folders(made)
            if error.errno not in _PATH_ERRORS:
                raise _build_write_error(file, error) from error
            self.findings.leave_out(Reason.UNWRITABLE_VIDEO, path, error=error.strerror)
            return False
        return True


def _create_folders(folder: Path, made: list[Path]) -> None:
    """Create a folder and its parents, and append the new ones to `made`, outermost first. Raises OSError."""
    missing = []
    while not os.path.lexists(folder):
        missing.append(folder)
        folder = folder.parent
    for parent in reversed(missing):
        parent.mkdir()
        made.append(parent)


def _delete_empty_folders(made: Sequence[Path]) -> None:
    """Remove the folders of this sequence that are empty, the last one first; others stay."""
    for folder in reversed(made):
        with suppress(OSError):  # it holds something
            folder.rmdir()


def _copy_and_hash(content: ByteReader, write: Callable[[bytes], None] = lambda _: None) -> tuple[bytes, int]:
    """Return the SHA-256 and the number of bytes of a content, after every part of it was passed to `write`."""
    digest, length = hashlib.sha256(), 0
    while chunk := content.read(_CHUNK):
        digest.update(chunk)
        length += len(chunk)
        write(chunk)
    return digest.digest(), length


def _write_chunk(to: BinaryIO, target: Path, chunk: bytes) -> None:
    with convert_write_errors(target):
        to.write(chunk)
        to.flush()


@contextmanager
def convert_write_errors(path: Path) -> Iterator[None]:
    """Turn any OSError of the block into a NoManifest whose message names the path that cannot be written."""
    try:
        yield
    except OSError as error:
        raise _build_write_error(path, error) from error


def _build_write_error(path: Path, error: OSError) -> NoManifest:
    return NoManifest(f"{path}: cannot be written ({error.strerror}): correct this, or give another folder with --to")
