"""The videos of a source: how the manifest names them, and which of them a cell of a table means."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import NamedTuple

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
from assets.new_manifest.findings import Findings, Reason, shorten_id
from assets.new_manifest.folder import SourceFolder, is_video_name, strip_suffix
from assets.new_manifest.video_cells import VideoFiles, match_cells, parse_cell

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


class JudgedCells(NamedTuple):
    """The meaning of the cells of a column of videos: the file of each one that means a file, None for one that fits
    several. has_usable: whether any cell is a name, or an address that ingest takes.
    """

    files: Mapping[str, str | None]
    has_usable: bool


class VideoRegistry:
    """A registry of the videos of a source that were named so far. It gives every video an id that no other video has,
    and notes in the findings what is left out.
    """

    def __init__(self, folder: SourceFolder, places: PathNaming, findings: Findings) -> None:
        self.folder = folder
        self._places = places
        self._findings = findings
        self._files = VideoFiles(folder.path, [*folder.list_files("video"), *folder.refused_videos])
        self._is_any_named = False
        # The path of the video that has an id; the name where it is text only.
        self._owners: dict[str, str] = {}

    def register_file(self, file: str) -> VideoEntry | None:
        """Register a video file of the source and return its id and path in the manifest. Where ingest would refuse it,
        return None and count it as left out. file: its path relative to the source.
        """
        return self.register_video(file, self._places.prefix + file, None, file)

    def has_member_addresses(self, tar: str) -> bool:
        """Return whether files inside a tar file of the source, if uncompressed, can have addresses. tar: path relative
        to the source.
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

    def judge_cells(self, cells: Collection[str], table_folder: str) -> JudgedCells:
        """Return what the cells of a column of videos mean, judged by all of them. table_folder: the table's folder,
        relative to the source.
        """
        names = [cell for cell in cells if not is_address(parse_cell(cell))]
        files = match_cells(names, table_folder, self._files)
        self._is_any_named |= bool(files)
        return JudgedCells(files, bool(names) or any(isinstance(_parse_address(cell), str) for cell in cells))

    def register_cell(self, cell: str, judged: JudgedCells, own_id: str | None, where: str) -> VideoEntry | None:
        """Register the video that a cell of a table means, and return its id and path in the manifest. Where it means
        no usable file, return None and count the row as left out.

        Where no cell of its column means a file, its name stands for a video that is text only, unless it names a file
        and another column does so too.

        judged: the cells of the column. own_id: the table's id for the video. where: how people find the row.
        """
        if hygiene.find_fault({"video": cell}) is not None:
            self._findings.leave_out(Reason.BAD_VIDEO_NAME, where)
            return None
        if is_address(path := parse_cell(cell)):
            return self.register_address(cell, own_id, where)
        if (address := self._places.find_root_address(path)) is not None:
            return self.register_video(address, address, own_id, where)
        row, names_file = f"{where}: {cell}", is_video_name(path) or "/" in path
        if cell in judged.files:
            return self._register_named(path, judged.files[cell], own_id, row)
        if judged.files or (self._is_any_named and names_file):
            is_outside = os.path.isabs(path) and os.path.isfile(path)
            self._findings.leave_out(Reason.VIDEO_OUTSIDE if is_outside else Reason.VIDEO_NOT_IN_FOLDER, row)
            return None
        if names_file:
            self._findings.leave_out(Reason.FILE_NOT_IN_FOLDER, row)
        else:
            self._findings.add_guess("no name of a video is that of a file in the folder, so the videos are text only")
        return self.register_video(path if is_video_name(cell) else cell, None, own_id, where)

    def register_address(self, cell: str, own_id: str | None, where: str) -> VideoEntry | None:
        """Register the video at an address, and return its id and path in the manifest. Where ingest would refuse the
        address, return None and count it as left out. own_id, where: as in `register_cell`.
        """
        address = self._take_address(cell)
        return None if address is None else self.register_video(address, address, own_id, where)

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
            self._findings.leave_out(Reason.TAKEN_VIDEO_ID, f"{where}: {video_id}")
            return None
        return VideoEntry(video_id, path)

    def _find_free_id(self, name: str, owner: str) -> str:
        """Return the name without its suffix, or with it, or with a number: the first that no other video has."""
        plain = name.partition("://")[2] if is_address(name) else name
        short = strip_suffix(plain) if is_video_name(plain) else plain
        return next(video_id for video_id in _list_ids(short, name) if self._owners.get(video_id, owner) == owner)

    def _accept_path(self, path: str, where: str) -> bool:
        if is_address(path):
            return self._take_address(path) is not None
        if (code := find_path_fault(path)) is not None:
            self._findings.leave_out_refused("file", code, where)
        return code is None

    def _take_address(self, cell: str) -> str | None:
        address = _parse_address(cell)
        if isinstance(address, str):
            return address
        self._findings.leave_out(Reason.REFUSED_ADDRESS, hide_address_credentials(cell), error=str(address))
        return None

    def _register_named(self, path: str, file: str | None, own_id: str | None, where: str) -> VideoEntry | None:
        """Register the file that the path of a cell means, None for several; those and a refused one are left out."""
        if file is None:
            self._findings.leave_out(Reason.AMBIGUOUS_VIDEO, where)
            return None
        if (fault := self.folder.refused_videos.get(file)) is not None:
            self._findings.leave_out(Reason.REFUSED_VIDEO, where, fault=fault)
            return None
        if not any(name.startswith(path) for name in (file, f"{self.folder.path}/{file}")):
            self._findings.add_guess("video files are recognised by the ends of their paths, in all subfolders")
        self.folder.mark_read(file)
        return self.register_video(file, self._places.prefix + file, own_id, where)


def _parse_address(cell: str) -> str | AddressRefused:
    """Return an address as ingest stores it, or why it refuses the cell."""
    try:
        return str(parse_member_address(cell) if is_member_address(cell) else parse_address(cell))
    except AddressRefused as refused:
        return refused


def _list_ids(*names: str) -> Iterator[str]:
    yield from map(shorten_id, names)
    yield from (shorten_id(f"{names[0]}_{n}") for n in count(2))
