"""The files of a source by kind: regular files inside it. All else in the folder is left out with the reason."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from assets.ingest import hygiene
from assets.ingest.files import check_regular_file, open_file_inside, open_regular
from assets.ingest.paths import PathRejected, find_path_fault, resolve_inside
from assets.media.lance_tables import TABLE_SUFFIX
from assets.new_manifest.findings import Findings, NoManifest, Reason
from metrics_core.git_lfs import MAX_POINTER_BYTES, is_git_lfs_pointer

# The kinds of files that PyAV may open; see ALLOWED_DEMUXERS.
_VIDEO_SUFFIXES = frozenset(
    (
        *(".mp4", ".m4v", ".mov", ".qt", ".mkv", ".webm", ".avi", ".divx", ".flv", ".f4v", ".wmv", ".asf", ".ogv"),
        *(".mpg", ".mpeg", ".mpe", ".m2v", ".vob", ".ts", ".m2ts", ".mts", ".m2t", ".3gp", ".3g2", ".mxf", ".rm"),
        *(".rmvb", ".ivf", ".dv", ".gif"),
    )
)
# In the order of trust: where a video has several, the first kind that holds a caption counts.
CAPTION_SUFFIXES = (".txt", ".json", ".vtt", ".srt")
TABLE_SUFFIXES = (".csv", ".tsv", ".jsonl", ".parquet", ".arrow")
SHARD_SUFFIXES = (".tar", ".tar.gz", ".tgz")
_PACKED_SUFFIXES = (".zip", ".7z", ".rar", ".gz", ".bz2", ".xz", ".zst", ".tbz2", ".txz", ".tzst")

_PICTURE_SUFFIXES = frozenset((".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff", ".heic"))

# So many parts has the path of a folder that holds much else, such as /mnt/disk.
_FEW_PARTS = 3

FileKind = Literal["video", "caption", "table", "shard", "packed", "lance", "other"]


def is_video_name(path: str | PurePosixPath) -> bool:
    """Return whether a file name or path has a suffix of video files, such as `.mp4`, in small or capital letters."""
    return PurePosixPath(path).suffix.lower() in _VIDEO_SUFFIXES


def is_lance_name(path: str | PurePosixPath) -> bool:
    """Return whether a path is named like the folder of a Lance table, with the suffix .lance."""
    return PurePosixPath(path).suffix.lower() == TABLE_SUFFIX


def is_picture_name(path: str) -> bool:
    """Return whether a path has a suffix of images, such as `.jpg`, in small or capital letters."""
    return PurePosixPath(path).suffix.lower() in _PICTURE_SUFFIXES


def strip_suffix(path: str) -> str:
    """Return the path without its last suffix; a path without one is returned unchanged."""
    return path.removesuffix(PurePosixPath(path).suffix)


def guess_file_kind(path: str) -> FileKind:
    """Return the kind of a file by the suffix of its name: video, caption, table, shard (a tar), packed, lance or
    other. Caches that Hugging Face keeps are `other`.
    """
    name = PurePosixPath(path).name.lower()
    suffix = PurePosixPath(name).suffix
    if name.endswith(SHARD_SUFFIXES):
        return "shard"
    if suffix in _PACKED_SUFFIXES:
        return "packed"
    if suffix in TABLE_SUFFIXES:
        return "other" if name.startswith("cache-") else "table"
    if is_lance_name(name):
        return "lance"
    return "caption" if suffix in CAPTION_SUFFIXES else "video" if is_video_name(name) else "other"


def is_table_name(path: str) -> bool:
    """Return whether a path has a suffix of tables, such as `.csv`, or that of JSON."""
    return guess_file_kind(path) == "table" or path.lower().endswith(".json")


def require_source(source: Path) -> Path:
    """Return the absolute path, without links, of the folder or regular file that the user names; `~` is expanded. A
    link to a file of another suffix stays one, since its name shows the format. Raises NoManifest where there is none,
    and ManifestError for a file that is not regular.
    """
    source = Path(os.path.expanduser(source))
    if not source.exists():
        raise NoManifest(f"{source}: no such folder or file: give a folder of videos, a table or tar shards")
    if not source.is_dir():
        check_regular_file(source)
        if source.resolve().suffix.lower() != source.suffix.lower():
            return source.parent.resolve() / source.name
    return source.resolve()


@dataclass(slots=True)
class SourceFolder:
    """The usable files and Lance tables of a folder, as paths relative to it, with a note of those that were read.
    `file` is the name of the only file that the user gave, or None. `refused_videos` are files with names of videos
    that cannot be used, with the reason.
    """

    path: Path
    findings: Findings
    file: str | None = None
    refused_videos: dict[str, str] = field(default_factory=dict)
    _unread: dict[str, FileKind] = field(default_factory=dict)
    _by_kind: dict[FileKind, list[str]] = field(default_factory=dict)

    @classmethod
    def find(cls, source: Path, findings: Findings, *, is_lance: bool) -> SourceFolder:
        """Build a SourceFolder for a folder or file that `require_source` returned. Files next to a single table that
        it does not name are not reported. is_lance: whether a folder may be a Lance table.
        """
        if source.is_dir() and not (is_lance and is_lance_name(source.name)):
            return cls.scan(source, findings)
        # A Lance table is a folder, and no place for a manifest.
        folder, is_table = source.parent, is_table_name(source.name)
        listing = cls.scan(folder, Findings()) if is_table else cls(folder, findings)
        listing.findings, listing.file = findings, source.name
        return listing

    @classmethod
    def scan(cls, path: Path, findings: Findings) -> SourceFolder:
        """Build a SourceFolder from all files below a folder. Files that are hidden or that a manifest cannot name are
        added to `findings` as left out, and no link to a folder is followed.
        """
        folder = cls(path, findings)
        for file in sorted(folder._walk()):
            kind = guess_file_kind(file)
            folder._unread[file] = kind
            folder._by_kind.setdefault(kind, []).append(file)
        return folder

    def list_files(self, kind: FileKind) -> list[str]:
        """List the usable files of a kind, sorted, as paths relative to the folder; empty where there is none."""
        return self._by_kind.get(kind, [])

    def list_unread(self, kind: FileKind) -> list[str]:
        """List those files of a kind that no call of `mark_read` named, sorted."""
        return [file for file, unread_kind in self._unread.items() if unread_kind == kind]

    def mark_read(self, file: str) -> None:
        """Note that a file was read, or that its case was handled elsewhere, so that `leave_out_unread` skips it."""
        self._unread.pop(file, None)

    def read_file(self, file: str, size: int) -> bytes | None:
        """Read the first `size` bytes of a file and mark the file as read. Where it cannot be read any more, return
        None and count it as left out in the findings.
        """
        self.mark_read(file)
        try:
            with open_file_inside(self.path, file) as opened:
                return opened.read(size)
        except PathRejected as refused:
            self.findings.leave_out_refused("file", refused.code, file)
        except OSError as error:
            self.findings.leave_out(Reason.UNREADABLE_FILE, file, error=error.strerror)
        return None

    def leave_out_unread(self, reasons: Mapping[FileKind, Reason]) -> None:
        """Count as left out in the findings the files that were not read, with the reason for their kind. Kinds without
        a reason are skipped.
        """
        for file, kind in self._unread.items():
            if kind in reasons:
                self.findings.leave_out(reasons[kind], file)

    def _walk(self) -> Iterator[str]:
        """Yield every usable file. A stack in place of recursion: folders may be nested deeper than Python recurses."""
        folders = [""]
        while folders:
            inner = folders.pop()
            try:
                with os.scandir(os.path.join(self.path, inner)) as entries:
                    ordered = sorted(entries, key=lambda entry: entry.name)
            except OSError as error:
                self.findings.leave_out(Reason.UNREADABLE_FOLDER, inner or str(self.path), error=error.strerror)
                continue
            for entry in ordered:
                file = f"{inner}/{entry.name}" if inner else entry.name
                if entry.name.startswith("."):
                    self.findings.leave_out(Reason.HIDDEN_FILE, file)
                    continue
                if entry.is_dir(follow_symlinks=False) and not is_lance_name(file):
                    folders.append(file)
                    continue
                is_bad_name = hygiene.find_fault({"path": file}) is not None
                reason, details = (Reason.BAD_NAME, {}) if is_bad_name else self._find_fault(entry, file)
                if reason is None:
                    yield file
                    continue
                self.findings.leave_out(reason, ascii(file) if is_bad_name else file, **details)
                if is_video_name(file):
                    self.refused_videos[file] = reason.explain(**details)

    def _find_fault(self, entry: os.DirEntry[str], file: str) -> tuple[Reason | None, dict[str, Any]]:
        """Return why an entry is left out, and the details; None for a regular file inside the folder with a name for a
        manifest.
        """
        try:
            if entry.is_symlink() and entry.is_dir():
                return Reason.LINK_TO_FOLDER, {}
        except OSError:
            pass  # a loop of links, which the next look refuses
        code = find_path_fault(file)
        if code is None and not entry.is_file(follow_symlinks=False):
            if (above := _find_folder_above(self.path, file)) is not None:
                return Reason.LINK_OUT, {"above": above}
            try:
                resolve_inside(self.path, file, may_be_folder=is_lance_name(file))
            except PathRejected as refused:
                code = refused.code
        if code is not None:
            return Reason.REFUSED, {"kind": "file", "code": code}
        return Reason.GIT_LFS_POINTER if _is_pointer(entry) else None, {}


def _is_pointer(entry: os.DirEntry[str]) -> bool:
    """Return whether a pointer of Git LFS has the place of a file."""
    with suppress(OSError):  # reading it says why it cannot be read
        size = entry.stat().st_size
        if size <= MAX_POINTER_BYTES and entry.is_file():
            with open_regular(Path(entry.path)) as opened:
                return is_git_lfs_pointer(opened.peek(), size)
    return False


def _find_folder_above(folder: Path, file: str) -> Path | None:
    """Return the folder above that holds both a folder and what a link in it leads to, as the cache of Hugging Face has
    them. None where the link stays inside or leads nowhere, and where such a folder holds much else.
    """
    target = os.path.realpath(folder / file)
    above = Path(os.path.commonpath((folder, target)))
    is_general = len(above.parts) <= _FEW_PARTS or Path.home().is_relative_to(above)
    return None if above == folder or is_general or not os.path.isfile(target) else above
