"""WebDataset shards: tar files whose members 000.mp4, 000.txt and 000.json belong together by their name."""

from __future__ import annotations

import gzip
import os
import re
import tarfile
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import IO, BinaryIO, cast

from assets.ingest.files import open_inside
from assets.ingest.paths import PathRejected
from assets.new_manifest.caption_files import READ_BYTES, CaptionFile, captions_of
from assets.new_manifest.columns import Named
from assets.new_manifest.extract import FOLDER, Content, Extracted, Staged
from assets.new_manifest.folder import CAPTION_SUFFIXES, SHARD_SUFFIXES, Folder, is_video
from assets.new_manifest.found import Clip, Findings, NoManifest
from assets.new_manifest.videos import Videos

# Members that other loaders unpickle. Nothing of a shard is ever run.
_PICKLES = frozenset((".pkl", ".pickle", ".pyd", ".pth", ".pt", ".npy", ".npz"))
_HIDDEN = re.compile(r"(^|/)\.[^./]")
# Videos hardly shrink: what unpacks to more than this holds none.
_MOST_TIMES, _MOST_MORE = 100, 2**26


class _Bounded:
    """A content that ends with an error where it is longer than a shard of videos can be."""

    def __init__(self, content: Content, most: int) -> None:
        self._content = content
        self._left = most

    def read(self, size: int, /) -> bytes:
        """The next bytes, at most `size`; b"" at the end."""
        data = self._content.read(size)
        self._left -= len(data)
        self.require(0)
        return data

    def require(self, size: int) -> None:
        """Raise ReadError where so many more bytes are more than there can be."""
        if size > self._left:
            raise tarfile.ReadError(f"it unpacks to more than {_MOST_TIMES} times its size")


@dataclass(slots=True)
class _Sample:
    """The members of one key that were read so far, with what stands between key and suffix."""

    key: str
    names: set[str] = field(default_factory=set)
    videos: list[tuple[str, str, Staged]] = field(default_factory=list)
    files: list[tuple[str, CaptionFile]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ShardReader:
    """Reads clips from shards; their videos are written to the manifest's folder."""

    videos: Videos
    extracted: Extracted
    findings: Findings
    named: Named

    def clips(self, shards: Sequence[str]) -> Iterator[Clip]:
        """Every sample of the shards that has a video and a caption. A damaged shard is read as far as it goes.

        Raises NoManifest where the disk has no room for the videos.
        """
        self._require_room(shards)
        shards_of = Counter(map(_short, shards))
        for shard in shards:
            self.videos.folder.take(shard)
            # Of a.tar and a.tar.gz each keeps its whole name.
            yield from self._clips(shard, _short(shard) if shards_of[_short(shard)] == 1 else shard)

    def _require_room(self, shards: Sequence[str]) -> None:
        extracted, folder = self.extracted, self.videos.folder.path
        if extracted.scratch is None:
            return
        size = sum(_size(os.stat(folder / shard)) for shard in shards)
        # What an earlier try left takes no more room.
        there = extracted.target / FOLDER
        earlier = Folder.of(there, Findings()).files("video") if there.is_dir() else []
        free = extracted.free(extracted.target)
        if size > free + sum(os.stat(there / video).st_size for video in earlier):
            raise NoManifest(
                f"{folder}: its videos take up to {size / 1e9:.1f} GB outside the shards, and {extracted.target} has "
                f"{free / 1e9:.1f} GB free: make room, or give another folder with --to"
            )

    def _clips(self, shard: str, folder: str) -> Iterator[Clip]:
        sample = _Sample("")
        try:
            with (
                open_inside(self.videos.folder.path, shard) as file,
                tarfile.open(fileobj=cast(IO[bytes], unpacked := _unpacked(file)), mode="r|") as tar,
            ):
                for member in tar:
                    # Python keeps every member, for looks that a stream does not allow.
                    tar.members = []  # type: ignore[attr-defined]  # the stub does not know it
                    if not self._is_file(member, shard):
                        continue
                    unpacked.require(member.size)
                    key, part, suffix = _split(member.name)
                    if key != sample.key or member.name in sample.names:
                        yield from self._finished(sample, shard, folder)
                        sample = _Sample(key)
                    sample.names.add(member.name)
                    content = tar.extractfile(member)
                    if content is not None:
                        self._read(content, member, part, suffix, sample, shard)
        except PathRejected as refused:
            self.findings.refuse("file", refused.code, shard)
        except (tarfile.TarError, EOFError, OSError, ValueError, OverflowError, zlib.error) as error:
            if isinstance(error, NoManifest):
                raise
            self.findings.leave_out(f"the rest of a damaged shard ({error})", shard)
        yield from self._finished(sample, shard, folder)

    def _is_file(self, member: tarfile.TarInfo, shard: str) -> bool:
        """Whether a member is an ordinary file; else it is left out, unless it is a folder."""
        name = f"{shard}: {member.name}"
        if member.isreg() and member.issparse():
            self.findings.leave_out("a member of a shard with holes, which a video has not: pack it without", name)
        elif member.isreg() and _HIDDEN.search(member.name):
            self.findings.leave_out("a hidden member of a shard", name)
        elif member.isreg():
            return True
        elif not member.isdir():
            self.findings.leave_out("a member of a shard that is no regular file", name)
        return False

    def _read(
        self, content: IO[bytes], member: tarfile.TarInfo, part: str, suffix: str, sample: _Sample, shard: str
    ) -> None:
        name = f"{shard}: {member.name}"
        if is_video(f"x{suffix}"):
            if self.extracted.is_name(sample.key):
                staged = self.extracted.stage(cast(Content, content), member.size, name)
                sample.videos.append((part, suffix, staged))
        elif suffix in CAPTION_SUFFIXES:
            sample.files.append((part, CaptionFile(name, suffix, content.read(READ_BYTES))))
        elif suffix in _PICKLES:
            self.findings.leave_out("a member that could hold code, and is not read", name)
        else:
            self.findings.leave_out("a member of another kind", name)

    def _finished(self, sample: _Sample, shard: str, folder: str) -> Iterator[Clip]:
        """The clips of a sample. Of several videos each has the captions of its name, and those that name no video."""
        where = f"{shard}: {sample.key}"
        if sample.files and not sample.videos:
            self.findings.leave_out("a caption without a video", where, len(sample.files))
        if len(sample.videos) > 1:
            self.findings.guess("samples of a shard with several videos: each video has the sample's captions")
        parts = {part for part, _, _ in sample.videos}
        for part, suffix, staged in sample.videos:
            files = [file for name, file in sample.files if name == part or name not in parts]
            if not (captions := captions_of(files, self.findings, self.named)):
                staged.discard()
                self.findings.leave_out("a video without a caption", f"{where}{suffix}")
                continue
            key = f"{sample.key}.{part}" if part and len(parts) > 1 else sample.key
            place = self.extracted.keep(staged, f"{folder}/{key}{suffix}", None, where)
            if place is not None:
                yield Clip(place.video_id, place.path, captions)


def _unpacked(file: BinaryIO) -> _Bounded:
    """The tar in a file, which gzip may have packed."""
    most = _MOST_TIMES * _size(os.fstat(file.fileno())) + _MOST_MORE
    is_packed = file.read(2) == b"\x1f\x8b"
    file.seek(0)
    return _Bounded(cast(Content, gzip.GzipFile(fileobj=file)) if is_packed else file, most)


def _size(state: os.stat_result) -> int:
    """The bytes that a file has on the disk, where one with holes is shorter than it says."""
    return min(state.st_size, state.st_blocks * 512)


def _short(shard: str) -> str:
    return next(shard[: -len(end)] for end in SHARD_SUFFIXES[::-1] if shard.lower().endswith(end))


def _split(name: str) -> tuple[str, str, str]:
    """The key of a member, what stands between it and the suffix, and the suffix.

    As WebDataset does it, a key ends at the first dot of the file's name.

    >>> _split("train/000.left.MP4")
    ('train/000', 'left', '.mp4')
    """
    path = PurePosixPath(name)
    short, _, rest = path.name.partition(".")
    part, _, suffix = rest.rpartition(".")
    return name.removesuffix(path.name).removeprefix("./") + short, part, f".{suffix.lower()}" if suffix else ""
