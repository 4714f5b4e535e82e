"""Which video files the cells of a column mean, judged by all cells of the column at once, by the ends of paths."""

from __future__ import annotations

import os
import re
import unicodedata
from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from urllib.parse import unquote

from assets.media.address import is_address
from assets.new_manifest.folder import strip_suffix

_FILE_SCHEME = re.compile(r"file:(//(localhost)?)?(?=/)", re.IGNORECASE)
_SLASH_OF_DRIVE = re.compile(r"^/(?=[A-Za-z]:/)")
_ROOT = re.compile(r"[/~]|[A-Za-z]:/")

Parts = tuple[str, ...]


class VideoFiles:
    """An index of files below a folder by the ends of their absolute paths; `folder` has the parts of its path. files:
    their paths relative to the folder.
    """

    def __init__(self, folder: Path, files: Collection[str]) -> None:
        self.folder = folder.parts[1:]
        self._whole = sorted((self._build_key(file), file) for file in files)
        self._stems = sorted((self._build_key(strip_suffix(file)), file) for file in files)

    def find(self, tail: Sequence[str]) -> list[str]:
        """Return the files whose path ends with these parts, at most two; the suffix of the last part may be absent. A
        file with the whole name comes before those with another suffix.
        """
        key = _join_reversed(tail)
        for entries in (self._whole, self._stems):
            start = bisect_left(entries, (key,))
            if found := [file for end, file in entries[start : start + 2] if end.startswith(key)]:
                return found
        return []

    def _build_key(self, file: str) -> str:
        return _join_reversed((*self.folder, *file.split("/")))


def parse_cell(cell: str) -> str:
    """Return the path that a cell names, with slashes between its parts: also that of a `file:` URL or of Windows. Any
    other address is returned unchanged.

    >>> parse_cell("file:///clips/a%20b.mp4"), parse_cell("C:\\\\clips\\\\a.mp4"), parse_cell("./a.mp4")
    ('/clips/a b.mp4', 'C:/clips/a.mp4', 'a.mp4')
    """
    if matched := _FILE_SCHEME.match(cell):
        cell = unquote(cell[matched.end() :])
    elif is_address(cell):
        return cell
    return os.path.normpath(_SLASH_OF_DRIVE.sub("", cell.replace("\\", "/")))


def match_cells(cells: Iterable[str], table_folder: str, files: VideoFiles) -> dict[str, str | None]:
    """Return the file that each cell means, or None where it fits several; cells that mean none have no entry. A cell
    that names a folder never means a file of the same name in another one. table_folder: the table's, relative to the
    folder of `files`.

    Where no path fits as it is, all lose equally many first folders: as few as possible, and only where what is left
    still differs.
    """
    bases = ((*files.folder, *PurePosixPath(table_folder).parts), files.folder)
    found: dict[str, str | None] = {}
    with_folders: dict[bool, dict[str, Parts]] = {False: {}, True: {}}
    for cell in cells:
        path = parse_cell(cell)
        is_absolute = _ROOT.match(path) is not None
        hits: list[str] = []
        if not is_absolute:
            hits = files.find(os.path.normpath("/".join(("", *bases[0], path))).split("/")[1:])
        if not hits and "/" not in path:
            hits = files.find((*files.folder, path)) or files.find((path,))
        parts = tuple(part for part in unicodedata.normalize("NFC", path).split("/") if part not in ("", "..", "."))
        if hits:
            found[cell] = _choose(hits)
        elif len(parts) > 1:
            with_folders[is_absolute][cell] = parts
    for is_absolute, paths in with_folders.items():
        found |= _match_paths(paths, bases, files, is_absolute=is_absolute)
    return found


def _match_paths(
    paths: Mapping[str, Parts], bases: Sequence[Parts], files: VideoFiles, *, is_absolute: bool
) -> dict[str, str | None]:
    """Return the file of every cell whose path with folders fits one. bases: the folders to look in first."""
    n_before = [len(parts) - n for parts in paths.values() if (n := _count_shared(parts, files))]
    if n_before:
        n_lost = min(n_before)
    elif is_absolute and len({parts[:-1] for parts in paths.values()}) == 1:
        n_lost = len(next(iter(paths.values()))) - 1
    else:
        return {}
    # The files of one folder may lie here without it.
    shortest = 1 if len({parts[:n_lost] for parts in paths.values()}) == 1 else 2
    tails = {cell: parts[n_lost:] for cell, parts in paths.items() if len(parts) >= n_lost + shortest}
    if len(set(tails.values())) < len({paths[cell] for cell in tails}):
        return {}
    found: dict[str, str | None] = {}
    places = set[str]()
    for cell, tail in tails.items():
        hits = files.find((*bases[0], *tail)) or files.find((*bases[1], *tail))
        if not hits and (n_lost == 0 or (is_absolute and len(tail) > 1)):
            hits = files.find(tail)
        if hits:
            found[cell] = _choose(hits)
            places.add("/".join(hits[0].split("/")[: -len(tail)]))
    return found if n_lost == 0 or len(places) == 1 else dict.fromkeys(found)


def _count_shared(parts: Parts, files: VideoFiles) -> int:
    """Count the last parts that a path shares with a file; 0 where it shares no folder."""
    n = 1
    while n < len(parts) and files.find(parts[-n - 1 :]):
        n += 1
    return n if n > 1 else 0


def _choose(hits: Sequence[str]) -> str | None:
    return hits[0] if len(hits) == 1 else None


def _join_reversed(parts: Sequence[str]) -> str:
    return unicodedata.normalize("NFC", "/".join(reversed(parts)) + "/")
