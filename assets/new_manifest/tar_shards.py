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

from assets.ingest.files import open_file_inside
from assets.ingest.paths import PathRejected
from assets.new_manifest.caption_files import MAX_READ_BYTES, CaptionFile, parse_caption_files
from assets.new_manifest.columns import ColumnNames
from assets.new_manifest.extract import VIDEO_FOLDER, StagedVideo, VideoExtractor, VideoStream
from assets.new_manifest.findings import CaptionedVideo, Findings, NoManifest
from assets.new_manifest.folder import CAPTION_SUFFIXES, SHARD_SUFFIXES, SourceFolder, is_video_name
from assets.new_manifest.videos import VideoRegistry

# Members that other loaders unpickle. No part of a shard is ever run.
_PICKLES = frozenset((".pkl", ".pickle", ".pyd", ".pth", ".pt", ".npy", ".npz"))
_HIDDEN = re.compile(r"(^|/)\.[^./]")
# Videos hardly shrink: what unpacks to more than this holds none.
_MOST_TIMES, _MOST_MORE = 100, 2**26


class _BoundedStream:
    """A content that ends with an error where it is longer than a shard of videos can be."""

    def __init__(self, content: VideoStream, most: int) -> None:
        self._content = content
        self._left = most

    def read(self, size: int, /) -> bytes:
        """Return the next bytes, at most `size`; b"" at the end."""
        data = self._content.read(size)
        self._left -= len(data)
        self.check_size(0)
        return data

    def check_size(self, size: int) -> None:
        """Raise ReadError where so many more bytes are more than there can be."""
        if size > self._left:
            raise tarfile.ReadError(f"it unpacks to more than {_MOST_TIMES} times its size")


@dataclass(slots=True)
class _TarSample:
    """The members of one key that were read so far, each with the part of its name between key and suffix."""

    key: str
    names: set[str] = field(default_factory=set)
    videos: list[tuple[str, str, StagedVideo]] = field(default_factory=list)
    files: list[tuple[str, CaptionFile]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class TarShardReader:
    """A reader of videos with captions from tar shards. `extractor` writes the videos to the manifest's folder,
    `videos` gives them ids, and `findings` get what is left out. column_names: names of fields that the user gave.
    """

    videos: VideoRegistry
    extractor: VideoExtractor
    findings: Findings
    column_names: ColumnNames

    def read_videos(self, shards: Sequence[str]) -> Iterator[CaptionedVideo]:
        """Yield every video of the shards that has a caption in the same sample; the video is extracted to the
        manifest's folder. shards: their paths relative to the source folder. A damaged shard is read up to the damage.
        Raises NoManifest where the disk has no room for the videos.
        """
        self._check_room(shards)
        n_by_name = Counter(map(_drop_shard_suffix, shards))
        for shard in shards:
            self.videos.folder.mark_read(shard)
            # Where there is a.tar and a.tar.gz, both keep their whole names.
            yield from self._read_shard(
                shard, _drop_shard_suffix(shard) if n_by_name[_drop_shard_suffix(shard)] == 1 else shard
            )

    def _check_room(self, shards: Sequence[str]) -> None:
        extractor, folder = self.extractor, self.videos.folder.path
        if extractor.scratch is None:
            return
        size = sum(_measure_disk_size(os.stat(folder / shard)) for shard in shards)
        # Videos that an earlier try left need no more room.
        there = extractor.target / VIDEO_FOLDER
        earlier = SourceFolder.scan(there, Findings()).list_files("video") if there.is_dir() else []
        free = extractor.measure_free_bytes(extractor.target)
        if size > free + sum(os.stat(there / video).st_size for video in earlier):
            raise NoManifest(
                f"{folder}: its unpacked videos take up to {size / 1e9:.1f} GB, and {extractor.target} has "
                f"{free / 1e9:.1f} GB free: make room, or give another folder with --to"
            )

    def _read_shard(self, shard: str, folder: str) -> Iterator[CaptionedVideo]:
        sample = _TarSample("")
        try:
            with (
                open_file_inside(self.videos.folder.path, shard) as file,
                tarfile.open(fileobj=cast(IO[bytes], unpacked := _open_unpacked(file)), mode="r|") as tar,
            ):
                for member in tar:
                    # Python keeps every member, for looks that a stream does not allow.
                    tar.members = []  # type: ignore[attr-defined]  # the stub does not know it
                    if not self._is_file(member, shard):
                        continue
                    unpacked.check_size(member.size)
                    key, part, suffix = _split_member_name(member.name)
                    if key != sample.key or member.name in sample.names:
                        yield from self._build_videos(sample, shard, folder)
                        sample = _TarSample(key)
                    sample.names.add(member.name)
                    content = tar.extractfile(member)
                    if content is not None:
                        self._read_member(content, member, part, suffix, sample, shard)
        except PathRejected as refused:
            self.findings.leave_out_refused("file", refused.code, shard)
        except (tarfile.TarError, EOFError, OSError, ValueError, OverflowError, zlib.error) as error:
            if isinstance(error, NoManifest):
                raise
            self.findings.leave_out(f"the rest of a damaged shard ({error})", shard)
        yield from self._build_videos(sample, shard, folder)

    def _is_file(self, member: tarfile.TarInfo, shard: str) -> bool:
        """Return whether a member is an ordinary file; else it is left out, unless it is a folder."""
        name = f"{shard}: {member.name}"
        if member.isreg() and member.issparse():
            self.findings.leave_out("a sparse file in a shard: pack it without holes", name)
        elif member.isreg() and _HIDDEN.search(member.name):
            self.findings.leave_out("a hidden file in a shard", name)
        elif member.isreg():
            return True
        elif not member.isdir():
            self.findings.leave_out("an entry of a shard that is not a regular file", name)
        return False

    def _read_member(
        self, content: IO[bytes], member: tarfile.TarInfo, part: str, suffix: str, sample: _TarSample, shard: str
    ) -> None:
        name = f"{shard}: {member.name}"
        if is_video_name(f"x{suffix}"):
            if self.extractor.accept_path(sample.key):
                staged = self.extractor.stage_video(cast(VideoStream, content), member.size, name)
                sample.videos.append((part, suffix, staged))
        elif suffix in CAPTION_SUFFIXES:
            sample.files.append((part, CaptionFile(name, suffix, content.read(MAX_READ_BYTES))))
        elif suffix in _PICKLES:
            self.findings.leave_out("a file in a shard that was not read, since its format can hold code", name)
        else:
            self.findings.leave_out("a file in a shard that is neither a video nor a caption file", name)

    def _build_videos(self, sample: _TarSample, shard: str, folder: str) -> Iterator[CaptionedVideo]:
        """Yield the videos of a sample. Of several, a video gets the captions of its name and those that name none."""
        where = f"{shard}: {sample.key}"
        if sample.files and not sample.videos:
            self.findings.leave_out("a caption without a video", where, len(sample.files))
        if len(sample.videos) > 1:
            self.findings.add_guess(
                "where a sample of a shard has several videos, a video gets the captions of its own name and those "
                "that name no video"
            )
        parts = {part for part, _, _ in sample.videos}
        for part, suffix, staged in sample.videos:
            files = [file for name, file in sample.files if name == part or name not in parts]
            if not (captions := parse_caption_files(files, self.findings, self.column_names)):
                staged.discard()
                self.findings.leave_out("a video without a caption", f"{where}{suffix}")
                continue
            key = f"{sample.key}.{part}" if part and len(parts) > 1 else sample.key
            place = self.extractor.keep_video(staged, f"{folder}/{key}{suffix}", None, where)
            if place is not None:
                yield CaptionedVideo(place.video_id, place.path, captions)


def _open_unpacked(file: BinaryIO) -> _BoundedStream:
    """Return the tar in a file, which gzip may have packed."""
    most = _MOST_TIMES * _measure_disk_size(os.fstat(file.fileno())) + _MOST_MORE
    is_packed = file.read(2) == b"\x1f\x8b"
    file.seek(0)
    return _BoundedStream(cast(VideoStream, gzip.GzipFile(fileobj=file)) if is_packed else file, most)


def _measure_disk_size(state: os.stat_result) -> int:
    """Return the bytes that a file has on the disk, where one with holes is shorter than its stated size."""
    return min(state.st_size, state.st_blocks * 512)


def _drop_shard_suffix(shard: str) -> str:
    return next(shard[: -len(end)] for end in SHARD_SUFFIXES[::-1] if shard.lower().endswith(end))


def _split_member_name(name: str) -> tuple[str, str, str]:
    """Split the name of a member into its key, the part between key and suffix, and the suffix.

    As WebDataset does it, a key ends at the first dot of the file's name.

    >>> _split_member_name("train/000.left.MP4")
    ('train/000', 'left', '.mp4')
    """
    path = PurePosixPath(name)
    short, _, rest = path.name.partition(".")
    part, _, suffix = rest.rpartition(".")
    return name.removesuffix(path.name).removeprefix("./") + short, part, f".{suffix.lower()}" if suffix else ""
