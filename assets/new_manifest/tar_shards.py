"""WebDataset shards: tar files whose members 000.mp4, 000.txt and 000.json belong together by their name.

Videos stay in their tar file, and the manifest has their addresses in it. Only a compressed one is unpacked.
"""

from __future__ import annotations

import gzip
import os
import re
import tarfile
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import IO, BinaryIO, NamedTuple, cast

from assets.ingest.files import open_file_inside
from assets.ingest.lines import ByteReader
from assets.ingest.paths import PathRejected
from assets.media.tar_index import TAR_ERRORS, check_size, format_damage, read_tar_index
from assets.new_manifest.caption_files import MAX_READ_BYTES, CaptionFile, parse_caption_files
from assets.new_manifest.extract import VIDEO_FOLDER, StagedVideo
from assets.new_manifest.findings import KEPT_FOR_FACTS, CaptionedVideo, Findings, NoManifest, Reason
from assets.new_manifest.folder import (
    CAPTION_SUFFIXES,
    SHARD_SUFFIXES,
    FileKind,
    SourceFolder,
    guess_file_kind,
    is_video_name,
)
from assets.new_manifest.source import UNREAD_REASONS, FoundRows, Source
from assets.new_manifest.videos import VideoEntry

# Members that other loaders unpickle. No part of a shard is ever run.
_PICKLES = frozenset((".pkl", ".pickle", ".pyd", ".pth", ".pt", ".npy", ".npz"))
_HIDDEN = re.compile(r"(^|/)\.[^./]")
# Videos hardly shrink: what unpacks to more than this holds none.
_MOST_TIMES, _MOST_MORE = 100, 2**26
_UNREAD: Mapping[FileKind, Reason] = {
    **UNREAD_REASONS,
    "video": Reason.VIDEO_BY_SHARDS,
    "caption": Reason.CAPTION_FILE_BY_SHARDS,
    "table": Reason.TABLE_BY_SHARDS,
}


def find_shards(source: Source) -> FoundRows | None:
    """Find the tar shards of a folder, or the only file of a source where it is one. None where there is none."""
    reader, file = _TarShardReader(source), source.folder.file
    if file is not None:
        is_shard = guess_file_kind(file) == "shard"
        return FoundRows("a WebDataset shard", reader.read_videos([file]), {}) if is_shard else None
    if not (files := source.folder.list_files("shard")):
        return None
    kind = "WebDataset shards" if len(files) > 1 else "a WebDataset shard"
    return FoundRows(kind, reader.read_videos(files), _UNREAD)


class _BoundedStream:
    """A content that ends with an error where it is longer than a shard of videos can be."""

    def __init__(self, content: ByteReader, most: int) -> None:
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


class _MemberFile(NamedTuple):
    """A regular file of a shard: its name, its size in bytes, and what reads its content, which others follow.
    `is_in_place`: whether it can stay where it is; others are unpacked.
    """

    name: str
    size: int
    content: ByteReader
    is_in_place: bool


class _TarVideo(NamedTuple):
    """A video of a sample: the part of its name between key and suffix, its suffix, and the name of the member. staged:
    its unpacked bytes, None for a video that stays in the shard.
    """

    part: str
    suffix: str
    member: str
    staged: StagedVideo | None


@dataclass(slots=True)
class _TarSample:
    """The members of one key that were read so far; caption files with the part of their name between key and
    suffix.
    """

    key: str
    names: set[str] = field(default_factory=set)
    videos: list[_TarVideo] = field(default_factory=list)
    files: list[tuple[str, CaptionFile]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _TarShardReader:
    """A reader of videos with captions from the tar shards of a source."""

    source: Source

    def read_videos(self, shards: Sequence[str]) -> Iterator[CaptionedVideo]:
        """Yield every video of the shards with the captions of its sample. Those of a compressed shard are extracted to
        the manifest's folder. shards: their paths relative to the source folder. A damaged shard is read up to the
        damage. Raises NoManifest where the disk has no room for the extracted videos.
        """
        plain = set(filter(self._is_readable_in_place, shards))
        if packed := [shard for shard in shards if shard not in plain]:
            self._check_room(packed)
            self.source.findings.add_guess(
                "compressed tar files are unpacked, since only the videos of plain ones can stay where they are; so "
                "are those whose path, with links followed, does not end in .tar or has .tar# in it"
            )
        n_by_name = Counter(map(_strip_shard_suffix, shards))
        for shard in shards:
            self.source.folder.mark_read(shard)
            # Where there is a.tar and a.tar.gz, both keep their whole names.
            name = _strip_shard_suffix(shard)
            yield from self._read_shard(shard, name if n_by_name[name] == 1 else shard, is_plain=shard in plain)

    def _check_room(self, shards: Sequence[str]) -> None:
        extractor, folder = self.source.extractor, self.source.folder.path
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

    def _is_readable_in_place(self, shard: str) -> bool:
        """Return whether members of a shard can have addresses: it is not compressed, and its path says so. A damaged
        one may be.
        """
        try:
            with open_file_inside(self.source.folder.path, shard) as file:
                return self.source.videos.has_member_addresses(shard) and not _is_gzip(file)
        except (PathRejected, OSError):
            return True  # reading it says why it cannot be read

    def _read_shard(self, shard: str, folder: str, *, is_plain: bool) -> Iterator[CaptionedVideo]:
        sample = _TarSample("")
        try:
            with open_file_inside(self.source.folder.path, shard) as file:
                list_members = self._list_members if is_plain else self._unpack_members
                for member in list_members(file, shard):
                    key, part, suffix = _split_member_name(member.name)
                    if key != sample.key or member.name in sample.names:
                        yield from self._build_videos(sample, shard, folder, is_plain=is_plain)
                        sample = _TarSample(key)
                    sample.names.add(member.name)
                    self._read_member(member, part, suffix, sample, shard)
        except PathRejected as refused:
            self.source.findings.leave_out_refused("file", refused.code, shard)
        except (*TAR_ERRORS, OSError, zlib.error) as error:
            if isinstance(error, NoManifest):
                raise
            self._leave_out_rest(format_damage(error), shard)
        yield from self._build_videos(sample, shard, folder, is_plain=is_plain)

    def _list_members(self, file: BinaryIO, shard: str) -> Iterator[_MemberFile]:
        """Yield the files of a plain tar file, those of a key together. Their bytes stay where they are."""
        index = read_tar_index(file, os.fstat(file.fileno()).st_size)
        for name, reason in index.refused.items():
            self.source.findings.leave_out(Reason.REFUSED_MEMBER, f"{shard}: {name}", why=reason)
        places: dict[str, int] = {}
        for name in index.members:
            places.setdefault(_split_member_name(name)[0], len(places))
        for name in sorted(index.members, key=lambda name: places[_split_member_name(name)[0]]):
            if self._accept_name(name, shard):
                member = index.members[name]
                file.seek(member.offset)
                yield _MemberFile(name, member.size_bytes, file, is_in_place=True)
        if index.damage is not None:
            self._leave_out_rest(index.damage, shard)

    def _unpack_members(self, file: BinaryIO, shard: str) -> Iterator[_MemberFile]:
        """Yield the files of a compressed tar file; their contents come in this order, once."""
        with tarfile.open(fileobj=cast(IO[bytes], unpacked := _open_unpacked(file)), mode="r|") as tar:
            for member in tar:
                # Python keeps every member, for looks that a stream does not allow.
                tar.members = []  # type: ignore[attr-defined]  # the stub does not know it
                check_size(member)
                if not self._is_file(member, shard):
                    continue
                unpacked.check_size(member.size)
                content = cast(ByteReader, tar.extractfile(member))
                yield _MemberFile(member.name, member.size, content, is_in_place=False)

    def _leave_out_rest(self, damage: str, shard: str) -> None:
        self.source.findings.leave_out(Reason.REST_OF_SHARD, shard, damage=damage)

    def _accept_name(self, name: str, shard: str) -> bool:
        is_hidden = _HIDDEN.search(name) is not None
        if is_hidden:
            self.source.findings.leave_out(Reason.HIDDEN_MEMBER, f"{shard}: {name}")
        return not is_hidden

    def _is_file(self, member: tarfile.TarInfo, shard: str) -> bool:
        """Return whether a member is an ordinary file; else it is left out, unless it is a folder."""
        name = f"{shard}: {member.name}"
        if member.isreg() and member.issparse():
            self.source.findings.leave_out(Reason.SPARSE_MEMBER, name)
        elif member.isreg():
            return self._accept_name(member.name, shard)
        elif not member.isdir():
            self.source.findings.leave_out(Reason.IRREGULAR_MEMBER, name)
        return False

    def _read_member(self, member: _MemberFile, part: str, suffix: str, sample: _TarSample, shard: str) -> None:
        name = f"{shard}: {member.name}"
        if is_video_name(f"x{suffix}"):
            if member.is_in_place:
                sample.videos.append(_TarVideo(part, suffix, member.name, None))
            elif self.source.extractor.accept_path(sample.key):
                staged = self.source.extractor.stage_video(member.content, member.size, name)
                sample.videos.append(_TarVideo(part, suffix, member.name, staged))
        elif suffix in CAPTION_SUFFIXES:
            data = member.content.read(min(member.size, MAX_READ_BYTES))
            sample.files.append((part, CaptionFile(name, suffix, data)))
        elif suffix in _PICKLES:
            self.source.findings.leave_out(Reason.CODE_MEMBER, name)
        else:
            self.source.findings.leave_out(Reason.OTHER_MEMBER, name)

    def _build_videos(self, sample: _TarSample, shard: str, folder: str, *, is_plain: bool) -> Iterator[CaptionedVideo]:
        """Yield the videos of a sample. Of several, a video gets the captions of its name and those that name none."""
        where = f"{shard}: {sample.key}"
        if sample.files and not sample.videos:
            reason = Reason.CAPTION_WITHOUT_MEMBER if is_plain else Reason.CAPTION_APART
            self.source.findings.leave_out(reason, where, len(sample.files))
        if len(sample.videos) > 1:
            self.source.findings.add_guess(
                "where a sample of a shard has several videos, a video gets the captions of its own name and those "
                "that name no video"
            )
        parts = {video.part for video in sample.videos}
        for video in sample.videos:
            files = [file for name, file in sample.files if name == video.part or name not in parts]
            if not (captions := parse_caption_files(files, self.source.findings, self.source.column_names)):
                self.source.findings.add_guess(KEPT_FOR_FACTS)
            key = f"{sample.key}.{video.part}" if video.part and len(parts) > 1 else sample.key
            place = self._place_video(video, shard, f"{folder}/{key}{video.suffix}", where)
            if place is not None:
                yield CaptionedVideo(place.video_id, place.path, captions)

    def _place_video(self, video: _TarVideo, shard: str, name: str, where: str) -> VideoEntry | None:
        if video.staged is None:
            return self.source.videos.register_member("tar", shard, video.member, name, None, where)
        return self.source.extractor.keep_video(video.staged, name, None, where)


def _is_gzip(file: BinaryIO) -> bool:
    """Return whether gzip packed a file, of which nothing was read yet."""
    is_packed = file.read(2) == b"\x1f\x8b"
    file.seek(0)
    return is_packed


def _open_unpacked(file: BinaryIO) -> _BoundedStream:
    """Return the tar in a file, which gzip may have packed."""
    most = _MOST_TIMES * _measure_disk_size(os.fstat(file.fileno())) + _MOST_MORE
    return _BoundedStream(cast(ByteReader, gzip.GzipFile(fileobj=file)) if _is_gzip(file) else file, most)


def _measure_disk_size(state: os.stat_result) -> int:
    """Return the bytes that a file has on the disk, where one with holes is shorter than its stated size."""
    return min(state.st_size, state.st_blocks * 512)


def _strip_shard_suffix(shard: str) -> str:
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
