"""Tell where the header of a video file says that it ends, and whether the file reaches that far."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from av.container import InputContainer

# Containers whose header states the duration (others only estimate it); in the first ones it counts from 0, in the
# others from the first time stamp.
FROM_ZERO = ("matroska", "asf")
FORMATS_WITH_DURATION = (*FROM_ZERO, "mov", "avi", "flv")

_TAIL = 1 << 16
_SEGMENT = b"\x18\x53\x80\x67"  # of Matroska
_FILE_PROPERTIES = bytes.fromhex("a1dcab8c47a9cf118ee400c00c205365")  # of ASF
_FLV_TAGS = (8, 9, 18)


def find_promised_end(container: InputContainer) -> float | None:
    """Return the second of the container's clock at which a file should end by its header; None if no header has it."""
    if container.duration is None or not container.format.name.startswith(FORMATS_WITH_DURATION):
        return None
    start = 0 if container.format.name.startswith(FROM_ZERO) else container.start_time or 0
    return (start + container.duration) / 1e6


def ends_as_declared(path: Path, format_name: str) -> bool:
    """Whether a Matroska, ASF or FLV file is as long as it states itself, and its end is not all zeros, as after a
    download that stopped. False for other formats, and where the file does not state its length.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(_TAIL)
        file.seek(max(0, size - _TAIL))
        tail = file.read()
    if not any(tail):
        return False
    if format_name.startswith("matroska"):
        place = head.find(_SEGMENT) + len(_SEGMENT)
        n = 9 - head[place].bit_length()  # bytes of the number; its first bit set says how many
        length = int.from_bytes(head[place : place + n], "big") - (1 << 7 * n)
        return place + n + length <= size
    if format_name.startswith("asf"):
        place = head.find(_FILE_PROPERTIES) + 40
        return int.from_bytes(head[place : place + 8], "little") <= size
    if format_name.startswith("flv"):
        n = int.from_bytes(tail[-4:], "big")
        tag = tail[-4 - n : -4]
        return len(tag) == n >= 11 and tag[0] in _FLV_TAGS and int.from_bytes(tag[1:4], "big") == n - 11
    return False
