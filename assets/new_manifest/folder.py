"""The files of a source by kind: regular ones inside it. Whatever else lies there is left out with the reason."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Literal

from assets.ingest import hygiene
from assets.ingest.files import open_inside
from assets.ingest.paths import PathRejected, fault_as_written, resolve_inside
from assets.new_manifest.found import Findings

VIDEO_SUFFIXES = frozenset(
    (".mp4", ".m4v", ".mov", ".mkv", ".webm", ".avi", ".flv", ".wmv", ".mpg", ".mpeg", ".ogv", ".3gp")
)
# In the order of trust: where a video has several, the first that holds a caption counts.
CAPTION_SUFFIXES = (".txt", ".json", ".vtt", ".srt")
TABLE_SUFFIXES = (".csv", ".tsv", ".jsonl", ".parquet", ".arrow")
SHARD_SUFFIXES = (".tar", ".tar.gz", ".tgz")

Kind = Literal["video", "caption", "table", "shard", "other"]


def is_video(path: str | PurePosixPath) -> bool:
    """Whether a name ends like that of a video."""
    return PurePosixPath(path).suffix.lower() in VIDEO_SUFFIXES


def stem(path: str) -> str:
    """The path without its last suffix."""
    return path.removesuffix(PurePosixPath(path).suffix)


def kind_of(path: str) -> Kind:
    """What a file is by its name; `other` also for what Hugging Face keeps as a cache."""
    name = PurePosixPath(path).name.lower()
    suffix = PurePosixPath(name).suffix
    if name.endswith(SHARD_SUFFIXES):
        return "shard"
    if suffix in TABLE_SUFFIXES:
        return "other" if name.startswith("cache-") else "table"
    return "caption" if suffix in CAPTION_SUFFIXES else "video" if is_video(name) else "other"


@dataclass(slots=True)
class Folder:
    """The usable files of a folder, as paths relative to it, and which of them were read."""

    path: Path
    findings: Findings
    # Videos by their names that cannot be used.
    refused_videos: list[str] = field(default_factory=list)
    _unread: dict[str, Kind] = field(default_factory=dict)
    _by_kind: dict[Kind, list[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, path: Path, findings: Findings) -> Folder:
        """Look for the files below a folder; no link to a folder is followed."""
        folder = cls(path, findings)
        for file in sorted(folder._walk()):
            kind = kind_of(file)
            folder._unread[file] = kind
            folder._by_kind.setdefault(kind, []).append(file)
        return folder

    def files(self, kind: Kind) -> list[str]:
        """The files of a kind, in order."""
        return self._by_kind.get(kind, [])

    def take(self, file: str) -> None:
        """Note that a file was read, or that its fate is told elsewhere."""
        self._unread.pop(file, None)

    def read(self, file: str, size: int) -> bytes | None:
        """The first bytes of a file; None where it cannot be read any more, and it is then left out."""
        self.take(file)
        try:
            with open_inside(self.path, file) as opened:
                return opened.read(size)
        except PathRejected as refused:
            self.findings.refuse("file", refused.code, file)
        except OSError as error:
            self.findings.leave_out(f"a file that cannot be read ({error.strerror})", file)
        return None

    def leave_out_rest(self, why: Mapping[Kind, str]) -> None:
        """Leave out the files that nobody read, with the reason for their kind."""
        for file, kind in self._unread.items():
            if kind in why:
                self.findings.leave_out(why[kind], file)

    def _walk(self) -> Iterator[str]:
        """Every usable file. A stack in place of recursion: folders may be nested deeper than Python recurses."""
        folders = [""]
        while folders:
            inner = folders.pop()
            try:
                with os.scandir(os.path.join(self.path, inner)) as entries:
                    ordered = sorted(entries, key=lambda entry: entry.name)
            except OSError as error:
                self.findings.leave_out(f"a folder that cannot be read ({error.strerror})", inner or str(self.path))
                continue
            for entry in ordered:
                file = f"{inner}/{entry.name}" if inner else entry.name
                if entry.name.startswith("."):
                    self.findings.leave_out("a hidden file or folder", file)
                    continue
                if entry.is_dir(follow_symlinks=False):
                    folders.append(file)
                    continue
                if self._is_usable(entry, file):
                    yield file
                elif is_video(file):
                    self.refused_videos.append(file)

    def _is_usable(self, entry: os.DirEntry[str], file: str) -> bool:
        """Whether an entry is a regular file inside the folder, under a name that a manifest can write."""
        try:
            if entry.is_symlink() and entry.is_dir():
                self.findings.leave_out("a link to a folder, which is not followed: give the folder itself", file)
                return False
        except OSError:
            pass  # a loop of links, which the next look refuses
        if hygiene.check({"path": file}) is not None:
            self.findings.leave_out("a file whose name is not valid UTF-8, or has control characters", ascii(file))
            return False
        code = fault_as_written(file)
        if code is None and not entry.is_file(follow_symlinks=False):
            try:
                resolve_inside(self.path, file)
            except PathRejected as refused:
                code = refused.code
        if code is not None:
            self.findings.refuse("file", code, file)
        return code is None
