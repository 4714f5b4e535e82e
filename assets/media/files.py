"""Every video as a file of this machine: where its address leads, and whether the ingested file is unchanged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from assets.home.settings import read_settings
from assets.media.address import (
    Address,
    MemberAddress,
    is_address,
    is_member_address,
    parse_address,
    parse_member_address,
)
from assets.media.cache import CachedCopy, MediaCache
from assets.media.errors import CHANGED_MEANWHILE, MediaUnavailable
from assets.media.file_state import FileState, IngestedFileChanged, require_ingested_file, require_regular_file
from assets.media.lance_tables import TABLE_SUFFIX
from assets.media.members import (
    ContainerPlace,
    MemoryFile,
    fetch_container_state,
    hold_member,
    hold_range,
    is_same_container,
    read_range,
)
from assets.media.settings import MediaSettings
from assets.media.store import ObjectState, ObjectStore
from assets.media.tar_index import Member

_CHANGED = "the file has changed since it was ingested"


class IngestedFileUnreadable(Exception):
    """Raised when the file of a video cannot be read, or is not the ingested one; the message has the remedy."""


def resolve_address(address: Address, settings: MediaSettings) -> Path | Address:
    """Return what an address leads to on this machine: the path of an existing file or Lance table below a root, or the
    address of a store's object. Raises MediaUnavailable where the settings have no such root, where the root has no
    such file, and where the path leads out of the root. Asks no store.
    """
    if address.scheme != "root":
        return address
    if (place := settings.media_roots.get(address.host)) is None:
        raise MediaUnavailable(
            "trouble", f"this machine has no media root {address.host!r}: name its place in REELSIEVE_MEDIA_ROOTS"
        )
    if is_address(place):
        if ".." in PurePosixPath(address.path).parts:
            raise MediaUnavailable("escape", "it leads out of the media root: write a path without ..")
        return parse_address(f"{place.rstrip('/')}/{address.path}")
    return _require_file_in_root(Path(place), address.path)


@contextmanager
def fetch_copy(address: Address, expected: ObjectState, settings: MediaSettings) -> Iterator[CachedCopy]:
    """Fetch an object of a store into the media cache and yield its copy, which stays during the block. expected: the
    state of the object a moment ago. Raises MediaUnavailable, also where the object's state is another one after the
    fetch.
    """
    store = ObjectStore(settings)
    cache = MediaCache(settings.cache_folder, settings.cache_bytes)
    size = expected.size_bytes
    with cache.add_copy(lambda write: store.fetch_bytes(address, size, write), _suffix(address), size) as copy:
        if store.fetch_state(address) != expected:
            raise MediaUnavailable("trouble", CHANGED_MEANWHILE)
        yield copy


def is_same_object(now: ObjectState, stored: FileState) -> bool:
    """Return whether an object has the size and etag that ingest stored; False where the store gives no etag."""
    return now.etag is not None and (now.size_bytes, now.etag) == (stored.size_bytes, stored.etag)


@contextmanager
def hold_ingested_file(video: Any) -> Iterator[Path]:
    """Yield the path of a video's file on this machine; a remote file is fetched where the media cache has no copy, and
    a member of a tar file or Lance table is read into memory. video: a row of table `video`. Raises
    IngestedFileUnreadable unless it is the file that was ingested; a local file is checked again at the end of the
    block.

    Raises:
        IngestedFileUnreadable: the file is gone, out of reach, or another one.
    """
    try:
        with _hold_file(video) as path:
            yield path
    except IngestedFileChanged as other:
        raise IngestedFileUnreadable(_with_remedy(str(other), video)) from None
    except MediaUnavailable as error:
        reason = str(error) if error.kind == "trouble" else _with_remedy(str(error), video)
        raise IngestedFileUnreadable(reason) from None


def read_ingested_part(video: Any, start: int, size_bytes: int) -> bytes | None:
    """Return `size_bytes` bytes of a video inside a tar file from its byte `start` on, without reading the others.
    video: a row of table `video`. None for other videos, and where times, inode or etag do not show that the tar file
    is the ingested one: `hold_ingested_file` compares the content then, and gives the reason for an error.
    """
    if video.member_offset is None:
        return None
    settings, blocks, address = read_settings(MediaSettings), list[bytes](), parse_member_address(video.uri)
    try:
        place = _resolve_container(address, settings)
        read_range(place, Member(video.member_offset + start, size_bytes), settings, blocks.append)
        # Asked afterwards, so that it holds for the bytes.
        now = fetch_container_state(address, place, settings)
        is_same = is_same_container(place, now, FileState.build_from_video_row(video))
    except (MediaUnavailable, IngestedFileChanged, OSError):
        return None
    return b"".join(blocks) if is_same else None


def _with_remedy(reason: str, video: Any) -> str:
    return f"{reason}: put the file back or ingest the folder of video {video.key} again"


@contextmanager
def _hold_file(video: Any) -> Iterator[Path]:
    stored, content = FileState.build_from_video_row(video), bytes(video.content_sha256)
    if not is_address(video.uri):
        with _hold_unchanged_file(Path(video.uri), stored, content) as path:
            yield path
        return
    settings = read_settings(MediaSettings)
    if is_member_address(video.uri):
        with _hold_ingested_member(parse_member_address(video.uri), video, content, settings) as copy:
            yield copy.path
        return
    place = resolve_address(parse_address(video.uri), settings)
    opened = (
        _hold_unchanged_file(place, stored, content)
        if isinstance(place, Path)
        else _hold_copy(place, stored, content, settings)
    )
    with opened as path:
        yield path


@contextmanager
def _hold_unchanged_file(path: Path, stored: FileState, content: bytes) -> Iterator[Path]:
    state = require_ingested_file(str(path), stored, content)
    yield path
    # Minutes may have passed: what was read must not come from a file changed meanwhile.
    try:
        is_still = FileState.build_from_stat(path.lstat()) == state
    except OSError:
        is_still = False  # gone, or out of reach: what was read cannot be trusted either
    if not is_still:
        raise IngestedFileChanged("the file changed while it was read")


@contextmanager
def _hold_copy(address: Address, stored: FileState, content: bytes, settings: MediaSettings) -> Iterator[Path]:
    now = ObjectStore(settings).fetch_state(address)
    if is_same_object(now, stored):
        cache = MediaCache(settings.cache_folder, settings.cache_bytes)
        with cache.hold_copy(content, _suffix(address)) as path:
            if path is not None:
                yield path
                return
    with fetch_copy(address, now, settings) as copy:
        if copy.sha256 != content:
            raise IngestedFileChanged(_CHANGED)
        yield copy.path


@contextmanager
def _hold_ingested_member(
    address: MemberAddress, video: Any, content: bytes, settings: MediaSettings
) -> Iterator[MemoryFile]:
    """Yield the member with the ingested content. A rewritten tar file may have it at another place."""
    place = _resolve_container(address, settings)
    with ExitStack() as stack:
        try:
            copy = _find_ingested_copy(place, video, content, settings, stack)
            if copy is None:
                copy = stack.enter_context(hold_member(address, place, settings))
        except OSError as error:
            raise IngestedFileChanged((error.strerror or str(error)).lower()) from error
        if copy.sha256 != content:
            raise IngestedFileChanged(_CHANGED)
        yield copy


def _resolve_container(address: MemberAddress, settings: MediaSettings) -> ContainerPlace:
    container = address.container
    place = resolve_address(parse_address(container), settings) if is_address(container) else Path(container)
    if isinstance(place, Path) and address.scheme == "tar":
        # Reading a pipe would never end.
        require_regular_file(place)
    return place


def _find_ingested_copy(
    place: ContainerPlace, video: Any, content: bytes, settings: MediaSettings, stack: ExitStack
) -> MemoryFile | None:
    """Return what lies where ingest read the member, held by the stack, if it is the content; else None."""
    if video.member_offset is None:
        return None
    with ExitStack() as attempt:
        try:
            copy = attempt.enter_context(hold_range(place, Member(video.member_offset, video.size_bytes), settings))
        except MediaUnavailable:
            return None  # the tar file is shorter now, or out of reach, which its headers will show
        if copy.sha256 != content:
            return None
        stack.push(attempt.pop_all())
        return copy


def _require_file_in_root(root: Path, relative: str) -> Path:
    try:
        root = root.resolve()
        target = (root / relative).resolve()
        if not target.is_relative_to(root):
            raise MediaUnavailable(
                "escape", "it leads out of the media root: keep the file, and what links point to, inside"
            )
        if target.is_file() or (target.is_dir() and target.suffix.lower() == TABLE_SUFFIX):
            return target
    except (OSError, RuntimeError, ValueError):
        pass  # a name that the system cannot look up names no file
    raise MediaUnavailable("missing", "there is no such file below the media root")


def _suffix(address: Address) -> str:
    return PurePosixPath(address.path).suffix
