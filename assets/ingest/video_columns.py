"""The columns of table `video` that describe a video file: its place, its content, and whether it decodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from assets.home.settings import read_settings
from assets.ingest.hygiene import format_value
from assets.ingest.paths import PathRejected, resolve_inside
from assets.ingest.rejects import Code, Reject
from assets.ingest.rows import VideoRow
from assets.media.address import (
    Address,
    AddressRefused,
    MemberAddress,
    can_name_members,
    hide_address_credentials,
    is_address,
    is_member_address,
    parse_address,
    parse_member_address,
)
from assets.media.errors import MediaUnavailable, UnavailableKind
from assets.media.file_state import FileState
from assets.media.files import MediaPlace, fetch_state, hold_file, resolve_address
from assets.media.headers import probe_by_header
from assets.media.members import find_member
from assets.media.settings import MediaSettings
from metrics_core.frames import NotAVideo, get_shared_worker

_PLACE_COLUMNS = ("uri", "size_bytes", "mtime_ns", "ctime_ns", "inode", "etag", "member_offset")
_PROBED_COLUMNS = (
    "content_sha256",
    "identity",
    "duration_s",
    "fps",
    "n_frames",
    "width",
    "height",
    "codec",
    "status",
    "error",
)
# Requests to stores that run at a time: an answer takes long, and little work of this machine.
MAX_PARALLEL_REQUESTS = 8
# Where a link leads may have any name.
_UNNAMEABLE = (
    "the path of the {0} file, with links followed, does not end in .{0}, or has .{0}# or a control character in it: "
    "rename the file, or put a copy in place of the link"
)
_CODES: Mapping[UnavailableKind, Code] = {
    "missing": "file_missing",
    "escape": "path_escape",
    "unusable": "not_a_file",
    "trouble": "media_unavailable",
}


class MediaAccess:
    """The settings of media, and a cache of the states with an etag of tar files, Lance tables and objects. Every state
    is asked for once: all that is read afterwards must have its etag or version.
    """

    def __init__(self) -> None:
        self.settings = read_settings(MediaSettings)
        self._states: dict[Path | Address, FileState] = {}

    def fetch_state(self, place: MediaPlace) -> FileState:
        """Return the state of a place, which may be that of an earlier call. Raises as that of media/files.py."""
        state = self._states.get(place.holder) or fetch_state(place, self.settings)
        if state.etag is not None:
            self._states[place.holder] = state
        return state


def inspect_videos(folder: Path, rows: Sequence[VideoRow], stored: Mapping[str, Any]) -> list[dict[str, Any] | Reject]:
    """Return for every video row, in order, the columns of table `video` that describe its file, by name, or a Reject.
    New or changed files are read and probed, those at addresses in parallel. folder: that of the manifest. stored: the
    videos of the database by key, whose unchanged files are not read again.
    """

    access = MediaAccess()

    def inspect(n: int) -> dict[str, Any] | Reject:
        return inspect_video(folder, rows[n], stored.get(rows[n].video_id), access)

    # The headers of a few tar files are remembered, so that the members of one are best looked for together.
    order = sorted(range(len(rows)), key=lambda n: _find_member_path(rows[n]))
    if any(row.path is not None and _is_elsewhere(row.path) for row in rows):
        with ThreadPoolExecutor(MAX_PARALLEL_REQUESTS, thread_name_prefix="media") as pool:
            inspected = dict(zip(order, pool.map(inspect, order), strict=True))
    else:
        inspected = {n: inspect(n) for n in order}
    return [inspected[n] for n in range(len(rows))]


def _find_member_path(row: VideoRow) -> str:
    """Return the address of a video in a tar file or Lance table; empty for another video."""
    return row.path if row.path is not None and is_member_address(row.path) else ""


def inspect_video(
    folder: Path, row: VideoRow, stored: Any | None, access: MediaAccess | None = None
) -> dict[str, Any] | Reject:
    """Return the columns of table `video` that describe a row's file, by name, or a Reject where the file cannot be
    used. A new or changed file is read and probed. folder: that of the manifest. stored: the video as the database has
    it, or None.

    access: shared by the videos of a batch; None for a video of its own.

    A file with the stored path, size, times and inode is not read, nor is an object with the stored address, size and
    etag, nor a member of a tar file or Lance table with the stored times, etag or version. A file with other times or
    another place but the stored content is not probed again. A file that cannot be read or contains no video is
    refused. A file that is damaged or cannot be decoded is kept with its status and error. A row without a path has
    the status text_only.
    """
    if row.path is None:
        empty = dict.fromkeys((*_PLACE_COLUMNS, *_PROBED_COLUMNS))
        return {**empty, "duration_s": row.duration_s, "status": "text_only"}
    subject = f"field 'path' is {format_value(hide_address_credentials(row.path))}"
    access = access or MediaAccess()
    try:
        uri, place = _find_place(folder, row.path, access.settings)
        return _inspect_place(uri, place, stored, access)
    except PathRejected as refused:
        return Reject(refused.code, refused.reason)
    except AddressRefused as refused:
        return Reject("path_url", f"{subject}: {refused}")
    except MediaUnavailable as error:
        return Reject(_CODES[error.kind], f"{subject}: {error}")
    except NotAVideo as refused:
        return Reject("not_a_video", f"{subject}: {refused.reason}" if is_address(row.path) else str(refused))
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        return Reject("file_missing", f"{subject}: {why}: make the file readable")


def _is_elsewhere(path: str) -> bool:
    """Return whether a store may have to be asked for a file, which takes long and little memory of this machine."""
    return is_address(path.partition("://")[2] if is_member_address(path) else path)


def _find_place(folder: Path, path: str, settings: MediaSettings) -> tuple[str, MediaPlace]:
    """Return the address to be stored for a row's path, and the place that it leads to."""
    if not is_member_address(path):
        if is_address(path):
            address = parse_address(path)
            return str(address), MediaPlace(resolve_address(address, settings))
        file = resolve_inside(folder, path)
        return str(file), MediaPlace(file)
    member = parse_member_address(path)
    if is_address(member.container):
        return str(member), MediaPlace(resolve_address(parse_address(member.container), settings), member)
    container = resolve_container(folder, member, settings)
    if not can_name_members(member.scheme, str(container)):
        raise MediaUnavailable("unusable", _UNNAMEABLE.format(member.scheme))
    return str(replace(member, container=str(container))), MediaPlace(container, member)


def resolve_container(folder: Path, address: MemberAddress, settings: MediaSettings) -> Path:
    """Return the path of the tar file or Lance table of an address, given as a manifest does: relative to its folder,
    or absolute, there or below a media root. Raises PathRejected.
    """
    path, is_table = address.container, address.scheme == "lance"
    roots = [folder, *(Path(place) for place in settings.media_roots.values() if not is_address(place))]
    for root in map(Path.resolve, roots):
        if path.startswith(f"{root}/"):
            return resolve_inside(root, path.removeprefix(f"{root}/"), may_be_folder=is_table)
    return resolve_inside(folder, path, may_be_folder=is_table)


def _inspect_place(uri: str, place: MediaPlace, stored: Any | None, access: MediaAccess) -> dict[str, Any]:
    now = access.fetch_state(place)
    if stored is not None and stored.uri == uri and now.matches(stored):
        return {name: getattr(stored, name) for name in (*_PLACE_COLUMNS, *_PROBED_COLUMNS)}
    # A stored video keeps its way of being recognised, or a setting would make its scores stale.
    identity = (stored and stored.identity) or access.settings.identity
    by_etag = _identify_by_etag(uri, place, now, access.settings) if identity == "etag" else None
    if by_etag is not None and (known := _find_known_columns(by_etag, stored)):
        return {**by_etag, **known}
    if by_etag is not None and (probe := probe_by_header(place, now, by_etag, access.settings)):
        return {**by_etag, **asdict(probe)}
    with hold_file(place, access.settings, now, by_etag and SimpleNamespace(**by_etag)) as held:
        if by_etag is not None:
            return {**by_etag, **asdict(get_shared_worker().probe_video(held.path))}
        state = asdict(replace(now, size_bytes=held.size_bytes))
        columns = {"uri": uri, **state, "member_offset": held.member_offset}
        columns |= {"content_sha256": held.digest, "identity": "sha256"}
        known = _find_known_columns(columns, stored)
        return {**columns, **(known or asdict(get_shared_worker().probe_video(held.path)))}


def _identify_by_etag(uri: str, place: MediaPlace, now: FileState, settings: MediaSettings) -> dict[str, Any] | None:
    """Return the columns that describe a file's place and content, without a look at its bytes; None where its store
    gives no etag or no size, and for a row of a Lance table, whose version is that of all rows.
    """
    member = None
    if place.member is not None and not place.is_table_row:
        member = find_member(place.holder, now, place.member.name, settings)
    if (digest := now.identify(uri, member)) is None:
        return None
    state = asdict(replace(now, size_bytes=member.size_bytes if member else now.size_bytes))
    columns = {"uri": uri, **state, "member_offset": member.offset if member else None}
    return {**columns, "content_sha256": digest, "identity": "etag"}


def _find_known_columns(columns: Mapping[str, Any], stored: Any | None) -> dict[str, Any] | None:
    """Return what probing found out about the stored video, if it is the same. A file that could not be decoded is
    probed again: perhaps the machine was busy.
    """
    if stored is None or stored.status == "undecodable" or stored.content_sha256 != columns["content_sha256"]:
        return None
    return {name: getattr(stored, name) for name in _PROBED_COLUMNS}
