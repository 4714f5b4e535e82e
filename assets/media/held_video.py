"""The names that a user may give a video: its key, any path or address of its file, or its source."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from assets.media.address import AddressRefused, is_address, is_member_address, parse_member_address
from assets.media.settings import MediaSettings
from db.selection.holders import HeldVideo
from metrics_core.file_hash import compute_file_sha256


def find_held_video(name: str, settings: MediaSettings) -> HeldVideo:
    """Return all by which the database may know the video that a user calls `name`: the name itself, the addresses of a
    path on this machine with links followed, also below a media root, and the content of an existing file. Reads that
    file; raises OSError where it cannot be read.
    """
    container, member = name, None
    if is_member_address(name):
        try:
            address = parse_member_address(name)
        except AddressRefused:
            return HeldVideo(name)
        container, member = address.container, address
    if not name or is_address(container):
        return HeldVideo(name)
    path = Path(os.path.realpath(container))
    # Not Path.is_file, which raises for a name that is too long for a file.
    sha256 = compute_file_sha256(path) if member is None and os.path.isfile(path) else None
    files = _list_addresses(path, settings)
    uris = files if member is None else (str(replace(member, container=file)) for file in files)
    return HeldVideo(name, tuple(uris), sha256)


def _list_addresses(path: Path, settings: MediaSettings) -> Iterator[str]:
    """Yield the path of a file, and its addresses below the media roots that are folders."""
    yield str(path)
    for root, place in settings.media_roots.items():
        if not is_address(place) and path.is_relative_to(folder := Path(place).expanduser().resolve()):
            yield f"root://{root}/{path.relative_to(folder).as_posix()}"
