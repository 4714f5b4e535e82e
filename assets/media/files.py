"""Every video as a file of this machine: where its address leads, in what state its file is, and its bytes.

Remote files are copied into the media cache. Members of tar files and rows of Lance tables are neither unpacked nor
copied to a disk: decoders, browsers and exports get the path of a file that only exists in memory, and open it like any
other.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, cast

from assets.home.settings import read_settings
from assets.media.address import (
    Address,
    MemberAddress,
    is_address,
    is_member_address,
    parse_address,
    parse_member_address,
)
from assets.media.cache import ByteSource, MediaCache
from assets.media.errors import CHANGED_MEANWHILE, MediaUnavailable
from assets.media.file_state import FileState, HeldFile
from assets.media.lance_tables import TABLE_SUFFIX, fetch_table_state, read_row
from assets.media.members import find_member, read_range
from assets.media.settings import MediaSettings
from assets.media.store import ObjectStore
from assets.media.tar_index import Member
from metrics_core.file_hash import compute_file_sha256


@dataclass(frozen=True, slots=True)
class MediaPlace:
    """Where the bytes of a video are: `holder` is its file or object, or the tar file or Lance table that holds it;
    `member` is the address inside that, None for a file or object of its own.
    """

    holder: Path | Address
    member: MemberAddress | None = None

    @property
    def is_table_row(self) -> bool:
        """Whether the video is a row of a Lance table."""
        return self.member is not None and self.member.scheme == "lance"


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


def fetch_state(place: MediaPlace, settings: MediaSettings) -> FileState:
    """Return the present state of a video's file, or of the tar file or Lance table that holds it. Raises
    MediaUnavailable, and OSError for a file of this machine.
    """
    if place.is_table_row:
        return fetch_table_state(place.holder, settings)
    if isinstance(place.holder, Path):
        return FileState.build_from_stat(place.holder.stat())
    return ObjectStore(settings).fetch_state(place.holder)


@contextmanager
def hold_file(
    place: MediaPlace, settings: MediaSettings, now: FileState | None = None, video: Any | None = None
) -> Iterator[HeldFile]:
    """Yield a video as a file of this machine, which may be removed after the block. An object is fetched where the
    media cache has no copy, and a member is read into memory.

    now: the present state of the place, which the bytes must have; None where their hash decides. video: a row of table
    `video` that the place is for, so that bytes known by their state or etag are not read again. Raises
    MediaUnavailable, and OSError for a file of this machine.
    """
    if place.member is not None:
        with _hold_member(place, place.member, settings, now, video) as held:
            yield held
        return
    now = now or fetch_state(place, settings)
    by_etag = None if video is None else _identify_ingested(now, video)
    known = bytes(video.content_sha256) if video is not None and now.matches(video) else by_etag
    if isinstance(place.holder, Path):
        digest = known or compute_file_sha256(place.holder)
        yield HeldFile(place.holder, digest, now.size_bytes or 0, is_hashed=by_etag is None)
        return
    cache, suffix = MediaCache(settings.cache_folder, settings.cache_bytes), PurePosixPath(place.holder.path).suffix
    with ExitStack() as stack:
        copy = None if known is None else stack.enter_context(cache.hold_copy(known, suffix))
        read = partial(ObjectStore(settings).fetch, place.holder, expected=now)
        held = copy or stack.enter_context(cache.add_copy(read, suffix, now.size_bytes, by_etag))
        yield replace(held, is_hashed=by_etag is None)


@contextmanager
def hold_ingested_file(video: Any) -> Iterator[HeldFile]:
    """Yield a video as a file on this machine; a remote file is fetched where the media cache has no copy, and
    a member of a tar file or Lance table is read into memory. video: a row of table `video`.

    Raises MediaUnavailable where the file is gone, out of reach, or not the one that was ingested. A local file is
    checked again at the end of the block.
    """
    with ExitStack() as stack:
        try:
            # A plain path needs no setting, and reading them for every file would take a millisecond.
            settings = read_settings(MediaSettings) if is_address(video.uri) else MediaSettings.model_construct()
            place = _find_ingested_place(video.uri, settings)
            is_local = place.member is None and isinstance(place.holder, Path)
            now = fetch_state(place, settings) if is_local else None
            held = stack.enter_context(hold_file(place, settings, now, video))
            if held.digest != bytes(video.content_sha256):
                raise MediaUnavailable("unusable", "the file has changed since it was ingested")
        except (MediaUnavailable, OSError) as error:
            raise _explain_unreadable(error, video) from None
        yield held
        # Minutes may have passed: what was read must not come from a file changed meanwhile.
        if is_local:
            try:
                is_still = FileState.build_from_stat(held.path.lstat()) == now
            except OSError:
                is_still = False  # gone, or out of reach: what was read cannot be trusted either
            if not is_still:
                raise _explain_unreadable(MediaUnavailable("unusable", "the file changed while it was read"), video)


def read_ingested_part(video: Any, start: int, size_bytes: int) -> bytes | None:
    """Return `size_bytes` bytes of a video inside a tar file, from byte `start` of the video on, without reading the
    others. video: a row of table `video`. None for other videos, and where the tar file cannot be read or its times,
    inode or etag are not those at ingest: then `hold_ingested_file` compares contents, and raises any error.
    """
    if video.member_offset is None:
        return None
    settings, blocks = read_settings(MediaSettings), list[bytes]()
    try:
        place = _find_ingested_place(video.uri, settings)
        read_range(place.holder, Member(video.member_offset + start, size_bytes), settings, blocks.append)
        # Asked afterwards, so that it holds for the bytes.
        is_same = fetch_state(place, settings).matches(video)
    except (MediaUnavailable, OSError):
        return None
    return b"".join(blocks) if is_same else None


def _explain_unreadable(error: MediaUnavailable | OSError, video: Any) -> MediaUnavailable:
    if isinstance(error, MediaUnavailable) and error.kind == "trouble":
        return error
    reason = (error.strerror or str(error)).lower() if isinstance(error, OSError) else str(error)
    again = f"put the file back or ingest the folder of video {video.key} again"
    remedy = "make it readable" if isinstance(error, PermissionError) else again
    return MediaUnavailable("unusable", f"{reason}: {remedy}")


def _find_ingested_place(uri: str, settings: MediaSettings) -> MediaPlace:
    """Return where the stored address of a video leads. Raises MediaUnavailable for a path that is not that of a
    regular file any more, and OSError.
    """
    member = parse_member_address(uri) if is_member_address(uri) else None
    text = uri if member is None else member.container
    place = MediaPlace(resolve_address(parse_address(text), settings) if is_address(text) else Path(text), member)
    if isinstance(place.holder, Path) and not place.is_table_row:
        _require_regular_file(place.holder)
    return place


def _require_regular_file(path: Path) -> None:
    """Raise MediaUnavailable where a path that ingest stored leads elsewhere now, or to no regular file: reading a pipe
    would never end.
    """
    try:
        # Ingest stores paths without links, so a link on this path was made later and may lead anywhere.
        target = path.resolve(strict=True)
    except RuntimeError:  # how pathlib before Python 3.13 reports links in a circle
        raise MediaUnavailable(
            "unusable", "the path leads nowhere, through a link made since it was ingested"
        ) from None
    if target != path:
        raise MediaUnavailable("unusable", f"the path leads to {target} through a link made since it was ingested")
    if not stat.S_ISREG(path.stat().st_mode):
        raise MediaUnavailable("unusable", "it is no longer a regular file")


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


@contextmanager
def _hold_member(
    place: MediaPlace, address: MemberAddress, settings: MediaSettings, now: FileState | None, video: Any | None
) -> Iterator[HeldFile]:
    with ExitStack() as stack:
        held = None if video is None else _hold_known_member(place, settings, video, stack)
        if held is None and place.is_table_row:

            def read_blocks(write: Any) -> None:
                for block in read_row(place.holder, address.name, settings):
                    write(block)

            held = stack.enter_context(_hold_bytes(read_blocks, None))
        elif held is None:
            state = now or fetch_state(place, settings)
            member = find_member(place.holder, state, address.name, settings)
            read = partial(read_range, place.holder, member, settings, etag=state.etag)
            held = stack.enter_context(_hold_bytes(read, member.offset))
            held = held if video is None else _recognise(held, place, settings, video)
        # A store has sent the bytes of an etag, or an error.
        if now is not None and (place.is_table_row or now.etag is None) and fetch_state(place, settings) != now:
            raise MediaUnavailable("trouble", CHANGED_MEANWHILE)
        yield held


def _hold_known_member(place: MediaPlace, settings: MediaSettings, video: Any, stack: ExitStack) -> HeldFile | None:
    """Return what lies where ingest read a member of a tar file, held by the stack, if it is the video; else None. A
    rewritten tar file may have it at another place.
    """
    if video.member_offset is None:
        return None
    member = Member(video.member_offset, video.size_bytes)
    with ExitStack() as attempt:
        try:
            read = partial(read_range, place.holder, member, settings)
            held = attempt.enter_context(_hold_bytes(read, member.offset))
            held = _recognise(held, place, settings, video)
        except MediaUnavailable:
            return None  # the tar file is shorter now, or out of reach, which its headers will show
        if held.digest != bytes(video.content_sha256):
            return None
        stack.push(attempt.pop_all())
        return held


def _recognise(held: HeldFile, place: MediaPlace, settings: MediaSettings, video: Any) -> HeldFile:
    """Return the held bytes of a member with the digest of a video that has it by etag, if they are that video's."""
    if held.member_offset is None or held.digest == bytes(video.content_sha256):
        return held
    # Asked after the bytes were read, so that it holds for them.
    state, member = fetch_state(place, settings), Member(held.member_offset, held.size_bytes)
    by_etag = _identify_ingested(state, video, member)
    return held if by_etag is None else replace(held, digest=by_etag, is_hashed=False)


def _identify_ingested(state: FileState, video: Any, member: Member | None = None) -> bytes | None:
    """Return the digest of a video that has it by etag, if a file of this state is that video; else None."""
    digest = state.identify(video.uri, member)
    return digest if digest == bytes(video.content_sha256) else None


@contextmanager
def _hold_bytes(read: ByteSource, member_offset: int | None) -> Iterator[HeldFile]:
    """Yield the bytes that `read` hands over, as a file in memory that is gone after the block."""
    digest = hashlib.sha256()
    with open_memory_file() as (path, file):

        def write(block: bytes) -> None:
            digest.update(block)
            file.write(block)

        read(write)
        file.flush()
        yield HeldFile(path, digest.digest(), file.tell(), member_offset)


@contextmanager
def open_memory_file() -> Iterator[tuple[Path, BinaryIO]]:
    """Yield a new file without a name in any folder, and a path that leads to it."""
    if hasattr(os, "memfd_create"):
        with os.fdopen(os.memfd_create("reelsieve"), "wb") as file:
            # Of this process, since the decoding worker and others open it too.
            yield Path(f"/proc/{os.getpid()}/fd/{file.fileno()}"), file
        return
    # Systems other than Linux have no such files.
    with tempfile.NamedTemporaryFile() as named:
        yield Path(named.name), cast(BinaryIO, named.file)
