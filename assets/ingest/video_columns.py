"""The columns of table `video` that describe a video file: its place, its content, and whether it decodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
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
from assets.media.errors import CHANGED_MEANWHILE, MediaUnavailable, UnavailableKind
from assets.media.file_state import FileState, has_content
from assets.media.files import fetch_copy, is_same_object, resolve_address
from assets.media.members import ContainerPlace, fetch_container_state, hold_member, is_same_container
from assets.media.settings import MediaSettings
from assets.media.store import ObjectStore
from metrics_core.frames import NotAVideo, probe_video

PLACE_COLUMNS = ("uri", "size_bytes", "mtime_ns", "ctime_ns", "inode", "etag", "member_offset")
PROBED_COLUMNS = ("content_sha256", "duration_s", "fps", "n_frames", "width", "height", "codec", "status", "error")
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
    """The settings of media, and the states of the containers that were asked for: tar files with an etag, and Lance
    tables. A container is asked for once: whatever is read afterwards must have its etag or version.
    """

    def __init__(self) -> None:
        self.settings = read_settings(MediaSettings)
        self._states: dict[ContainerPlace, FileState] = {}

    def fetch_container_state(self, address: MemberAddress, place: ContainerPlace) -> FileState:
        """Return the state of a tar file or Lance table, which may be that of an earlier call. Raises like the function
        of this name.
        """
        state = self._states.get(place) or fetch_container_state(address, place, self.settings)
        if state.etag is not None:
            self._states[place] = state
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
    it, or None. access: shared by the videos of a batch; None for a video of its own.

    A file with the stored path, size, times and inode is not read, nor is an object with the stored address, size and
    etag, nor a member of a tar file or Lance table with the stored times, etag or version. A file with other times or
    another place but the stored content is not probed again. A file that cannot be read or contains no video is
    refused. A file that is damaged or cannot be decoded is kept with its status and error. A row without a path has
    the status text_only.
    """
    if row.path is None:
        empty = dict.fromkeys((*PLACE_COLUMNS, *PROBED_COLUMNS))
        return {**empty, "duration_s": row.duration_s, "status": "text_only"}
    subject = f"field 'path' is {format_value(hide_address_credentials(row.path))}"
    try:
        if is_member_address(row.path):
            return _inspect_member(folder, parse_member_address(row.path), stored, access or MediaAccess())
        if is_address(row.path):
            return _inspect_address(parse_address(row.path), stored, (access or MediaAccess()).settings)
        path = resolve_inside(folder, row.path)
        return _inspect_file(str(path), path, stored)
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


def _inspect_member(folder: Path, address: MemberAddress, stored: Any | None, access: MediaAccess) -> dict[str, Any]:
    settings = access.settings
    if is_address(address.container):
        uri, place = str(address), resolve_address(parse_address(address.container), settings)
    else:
        place = resolve_container(folder, address, settings)
        if not can_name_members(address.scheme, str(place)):
            raise MediaUnavailable("unusable", _UNNAMEABLE.format(address.scheme))
        uri = str(replace(address, container=str(place)))
    now = access.fetch_container_state(address, place)
    is_stored = stored is not None and stored.uri == uri
    if is_stored and is_same_container(place, now, FileState.build_from_video_row(stored)):
        return {name: getattr(stored, name) for name in (*PLACE_COLUMNS, *PROBED_COLUMNS)}
    with hold_member(address, place, settings, now) as copy:
        # A store has sent the bytes of this etag, or an error.
        is_certain = address.scheme == "tar" and now.etag is not None
        if not is_certain and fetch_container_state(address, place, settings) != now:
            raise MediaUnavailable("trouble", CHANGED_MEANWHILE)
        state = asdict(replace(now, size_bytes=copy.size_bytes))
        columns = {"uri": uri, **state, "member_offset": copy.member_offset}
        if stored is not None and stored.status != "undecodable" and stored.content_sha256 == copy.sha256:
            return {**columns, **_copy_probed_columns(stored)}
        return {**columns, **_probe_file(copy.path)}


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


def _inspect_address(address: Address, stored: Any | None, settings: MediaSettings) -> dict[str, Any]:
    place = resolve_address(address, settings)
    if isinstance(place, Path):
        return _inspect_file(str(address), place, stored)
    return _inspect_object(str(address), place, stored, settings)


def _inspect_file(uri: str, path: Path, stored: Any | None) -> dict[str, Any]:
    state = FileState.build_from_stat(path.stat())
    place = {"uri": uri, **asdict(state), "member_offset": None}
    if stored is not None and _is_known(uri, path, state, stored):
        return {**place, **_copy_probed_columns(stored)}
    return {**place, **_probe_file(path)}


def _is_known(uri: str, path: Path, state: FileState, stored: Any) -> bool:
    """Return whether the file is the one that was probed for the stored video."""
    if stored.uri is None:
        return False
    stored_state = FileState.build_from_video_row(stored)
    if stored.uri == uri and state.matches(stored_state):
        return True
    # A file that could not be decoded is probed again: perhaps the machine was busy.
    return stored.status != "undecodable" and has_content(path, state, stored_state, bytes(stored.content_sha256))


def _inspect_object(uri: str, address: Address, stored: Any | None, settings: MediaSettings) -> dict[str, Any]:
    now = ObjectStore(settings).fetch_state(address)
    if stored is not None and stored.uri == uri and is_same_object(now, FileState.build_from_video_row(stored)):
        return {name: getattr(stored, name) for name in (*PLACE_COLUMNS, *PROBED_COLUMNS)}
    with fetch_copy(address, now, settings) as copy:
        place = {"uri": uri, **asdict(FileState(copy.size_bytes, None, None, None, now.etag)), "member_offset": None}
        if stored is not None and stored.status != "undecodable" and stored.content_sha256 == copy.sha256:
            return {**place, **_copy_probed_columns(stored)}
        return {**place, **_probe_file(copy.path)}


def _copy_probed_columns(stored: Any) -> dict[str, Any]:
    return {name: getattr(stored, name) for name in PROBED_COLUMNS}


def _probe_file(path: Path) -> dict[str, Any]:
    probe = asdict(probe_video(path))
    probe["content_sha256"] = bytes.fromhex(probe["content_sha256"])
    return {name: probe[name] for name in PROBED_COLUMNS}
