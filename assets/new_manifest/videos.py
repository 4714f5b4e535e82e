"""The videos of a source: how the manifest names them, and which of them a cell of a table means."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path, PurePosixPath

from assets.ingest import hygiene
from assets.ingest.paths import find_path_fault
from assets.media.address import (
    AddressRefused,
    MemberAddress,
    can_name_members,
    hide_address_credentials,
    is_address,
    is_member_address,
    parse_address,
    parse_member_address,
)
from assets.new_manifest.findings import Findings, shorten_id
from assets.new_manifest.folder import SourceFolder, drop_suffix, is_video_name

_NO_ROOT_NAME = re.compile(r"[^a-z0-9_-]+|^[^a-z]+")


@dataclass(frozen=True, slots=True)
class PathNaming:
    """The way in which a manifest names the files of a source: a prefix, empty or ending with a slash, before their
    paths relative to `source`. `new_root` is the named root that a machine needs to find files outside the manifest's
    folder, or None. `roots` are the folders of this machine by root name.
    """

    source: Path
    prefix: str
    new_root: str | None = None
    roots: Mapping[str, Path] = field(default_factory=dict)

    @classmethod
    def choose(cls, source: Path, target: Path, roots: Mapping[str, str]) -> PathNaming:
        """Choose how to name the files below `source`: by relative paths where the manifest's folder `target` holds
        them, else by addresses below a named root. A new root gets its name from the source folder. roots: places of
        the known roots by name, as settings have them.
        """
        folders = {name: Path(place).expanduser().resolve() for name, place in roots.items() if not is_address(place)}
        if source.is_relative_to(target):
            inner = source.relative_to(target).as_posix()
            return cls(source, "" if inner == "." else f"{inner}/", roots=folders)
        if (known := _find_root_address(source, folders)) is not None:
            return cls(source, f"{known}/", roots=folders)
        name = _NO_ROOT_NAME.sub("", re.sub("[ .]", "_", source.name.lower())) or "clips"
        while name in roots:
            name += "_2"
        return cls(source, f"root://{name}/", name, folders)

    def find_root_address(self, path: str) -> str | None:
        """Return the address `root://NAME/...` of an existing file on this machine, with links followed. None where the
        file is below no named root, or does not exist.
        """
        # A link may lead out of the root.
        return (
            _find_root_address(Path(os.path.realpath(path)), self.roots)
            if self.roots and os.path.isfile(path)
            else None
        )


def _find_root_address(path: Path, roots: Mapping[str, Path]) -> str | None:
    for name, folder in roots.items():
        if path.is_relative_to(folder):
            inner = path.relative_to(folder).as_posix()
            return f"root://{name}" if inner == "." else f"root://{name}/{inner}"
    return None


@dataclass(frozen=True, slots=True)
class VideoEntry:
    """An entry of table `videos`: the video's id, and its path or address, None for a video that is text only."""

    video_id: str
    path: str | None


class VideoRegistry:
    """A registry of the videos of a source that were named so far. It gives every video an id that no other video has,
    and notes in the findings what is left out.
    """

    def __init__(self, folder: SourceFolder, places: PathNaming, findings: Findings) -> None:
        self.folder = folder
        self._places = places
        self._findings = findings
        self._paths = set(folder.list_files("video"))
        # A short name that two files have means neither.
        self._by_name: dict[str, str | None] = {}
        for path in folder.list_files("video"):
            for short in _list_short_names(path):
                self._by_name[short] = path if short not in self._by_name else None
        self._refused = {short for path in folder.refused_videos for short in _list_short_names(path)}
        # The path of the video that has an id; the name where it is text only.
        self._owners: dict[str, str] = {}

    def register_file(self, file: str) -> VideoEntry | None:
        """Register a video file of the source and return its id and path in the manifest. Where ingest would refuse it,
        return None and count it as left out. file: its path relative to the source.
        """
        return self.register_video(file, self._places.prefix + file, None, file)

    def has_member_addresses(self, tar: str) -> bool:
        """Return whether files inside a tar file of the source have addresses, if it is not compressed. tar: path
        relative to the source.
        """
        path = self._places.prefix + tar
        # Ingest stores the path that a link leads to.
        stored = path if is_address(path) else os.path.realpath(self.folder.path / tar)
        return can_name_members("tar", path) and can_name_members("tar", stored)

    def register_member(
        self, scheme: str, container: str, member: str, name: str, own_id: str | None, where: str
    ) -> VideoEntry | None:
        """Register a video inside a tar file or Lance table of the source (scheme tar or lance), and return its id and
        its address in the manifest. The id is `own_id`, or is made from `name` where that is None. Where ingest would
        refuse it, return None and count it as left out. container: path relative to the source.
        """
        address = MemberAddress(scheme, self._places.prefix + container, member)
        return self.register_video(name, str(address), own_id, where)

    def register_cell(self, cell: str, table_folder: str, own_id: str | None, where: str) -> VideoEntry | None:
        """Register the video that a cell of a table means, and return its id and path in the manifest. Where it means
        no usable file, return None and count the row as left out. In a source without any video file a name that is no
        address stands for a video that is text only.

        table_folder: the table's folder, relative to the source. own_id: the table's id for the video. where: how
        people find the row.
        """
        if hygiene.find_fault({"video": cell}) is not None:
            self._findings.leave_out("a row whose video's name has control characters or is not valid Unicode", where)
            return None
        if is_address(cell):
            address = self._parse_address(cell, where)
            return None if address is None else self.register_video(address, address, own_id, where)
        if (address := self._places.find_root_address(cell)) is not None:
            return self.register_video(address, address, own_id, where)
        if not self._paths and self._refused.isdisjoint(
            (_normalise_name(cell), _normalise_name(PurePosixPath(cell).name))
        ):
            self._findings.add_guess("there are no video files in the folder, so the videos are text only")
            return self.register_video(os.path.normpath(cell) if is_video_name(cell) else cell, None, own_id, where)
        file = self._find_file(cell, table_folder, where)
        if file is None:
            return None
        self.folder.mark_read(file)
        return self.register_video(file, self._places.prefix + file, own_id, where)

    def register_video(self, name: str, path: str | None, own_id: str | None, where: str) -> VideoEntry | None:
        """Register a video and return its id and its path in the manifest. The id is `own_id`, or is made from `name`
        where that is None. Where ingest would refuse the video, or another video has `own_id`, return None and count it
        as left out.

        path: as the manifest writes it; None for a video that is text only. where: how people find the row.
        """
        owner = name if path is None else path
        video_id = own_id or self._find_free_id(name, owner)
        if self._owners.get(video_id) == owner:
            return VideoEntry(video_id, path)
        row = {"video_id": video_id} if path is None else {"video_id": video_id, "path": path}
        if not self._findings.accept_row("video", row, where) or (
            path is not None and not self._accept_path(path, where)
        ):
            return None
        if self._owners.setdefault(video_id, owner) != owner:
            self._findings.leave_out("a row with the video_id of another video", f"{where}: {video_id}")
            return None
        return VideoEntry(video_id, path)

    def _find_free_id(self, name: str, owner: str) -> str:
        """Return the name without its suffix, or with it, or with a number: the first that no other video has."""
        plain = name.partition("://")[2] if is_address(name) else name
        short = drop_suffix(plain) if is_video_name(plain) else plain
        return next(video_id for video_id in _list_ids(short, name) if self._owners.get(video_id, owner) == owner)

    def _accept_path(self, path: str, where: str) -> bool:
        if is_address(path):
            return self._parse_address(path, where) is not None
        if (code := find_path_fault(path)) is not None:
            self._findings.leave_out_refused("file", code, where)
        return code is None

    def _find_file(self, cell: str, table_folder: str, row: str) -> str | None:
        """Find the file that a cell means: from the table's folder, from the source, or only by its name; None where
        none fits.
        """
        path = self._find_relative_path(cell)
        if path is None:
            self._findings.leave_out(
                "a row whose video is outside the folder: name its folder in REELSIEVE_MEDIA_ROOTS", row
            )
            return None
        for candidate in ((PurePosixPath(table_folder) / path).as_posix(), path):
            if candidate in self._paths:
                return candidate
        # Systems write the same accented name in several ways.
        name = next(
            (name for name in map(_normalise_name, (path, PurePosixPath(path).name)) if name in self._by_name), None
        )
        if name is None:
            self._findings.leave_out("a row whose video file is not in the folder", f"{row}: {cell}")
            return None
        if self._by_name[name] is None:
            self._findings.leave_out(
                "a row whose video name fits several files: write the file's path", f"{row}: {cell}"
            )
        else:
            self._findings.add_guess("video files are recognised by their names, in all subfolders")
        return self._by_name[name]

    def _parse_address(self, cell: str, row: str) -> str | None:
        try:
            return str(parse_member_address(cell) if is_member_address(cell) else parse_address(cell))
        except AddressRefused as refused:
            self._findings.leave_out(f"an address that ingest would refuse: {refused}", hide_address_credentials(cell))
            return None

    def _find_relative_path(self, cell: str) -> str | None:
        """Return the path relative to the source; None where it leads out of it."""
        path = os.path.normpath(cell.replace("\\", "/"))
        if path.startswith("/"):
            source = f"{self._places.source.as_posix()}/"
            return path.removeprefix(source) if path.startswith(source) else None
        return None if path.split("/")[0] == ".." else path


def _list_short_names(path: str) -> set[str]:
    """Return the names by which a cell may call a file: its path or its name, with the suffix or without."""
    return {_normalise_name(short) for full in (path, PurePosixPath(path).name) for short in (full, drop_suffix(full))}


def _normalise_name(name: str) -> str:
    return unicodedata.normalize("NFC", name)


def _list_ids(*names: str) -> Iterator[str]:
    yield from map(shorten_id, names)
    yield from (shorten_id(f"{names[0]}_{n}") for n in count(2))
