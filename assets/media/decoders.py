"""How many videos this machine decodes at once: by its cores, its GPUs and its memory, or by the setting."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from assets.home.settings import read_settings
from assets.media.address import is_member_address
from assets.media.settings import MediaSettings
from assets.progress import LineWriter
from assets.words.text import format_count
from db.evidence.frames import StoredVideo
from metrics_core.frames.memory import FACT_MODELS_BYTES, PROCESS_BYTES, estimate_video_bytes
from metrics_core.frames.pool import DecoderPool

# The part of the free memory that decoders may take; the rest is for models and the database.
_MEMORY_SHARE = 0.5


@dataclass(slots=True)
class _MemorySharing:
    """The number of processes of this machine that decode at the same time, this one included, and so share what
    decoders may take of its free memory. An actor on Ray sets it.
    """

    n_processes: int = 1


MEMORY_SHARING = _MemorySharing()


def count_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def count_cores_per_encoder(cores: int, drivers: Path = Path("/proc/driver/nvidia/gpus")) -> int:
    """Return how many of this machine's cores decode for one image encoder: an equal part for every GPU, or half of
    them where there is no GPU, since the encoder then takes the others. At least 1.

    drivers: the folder in which the NVIDIA driver has an entry for every GPU, also for those of other processes.
    """
    n_gpus = len(list(drivers.iterdir())) if drivers.is_dir() else 0
    return max(1, cores // (n_gpus or 2))


def choose_decoder_pool(
    default: int, videos: Sequence[StoredVideo], tell: LineWriter, *, with_models: bool = False
) -> DecoderPool:
    """Return the pool that decodes these videos: as many decoders as the setting `decoders` says, else `default`, and
    no more than videos. They take at most half of the free memory, or an equal part of that half where several
    processes share it (`MEMORY_SHARING`).

    If so many decoders of the largest frame take more, `tell` gets a line before the first video is decoded; some
    decoders then wait while large frames are decoded. with_models: whether each decoder holds the models for text on
    screen and speech.
    """
    n = max(1, min(read_settings(MediaSettings).decoders or default, len(videos)))
    free = read_free_memory()
    if free is None:
        return DecoderPool(n)
    memory = int(free * _MEMORY_SHARE / MEMORY_SHARING.n_processes)
    process_bytes = PROCESS_BYTES + (FACT_MODELS_BYTES if with_models else 0)
    if line := explain_memory(DecoderPool(n, memory), videos, process_bytes):
        tell(line)
    return limit_decoders(DecoderPool(n, memory), videos, process_bytes)


def limit_decoders(pool: DecoderPool, videos: Sequence[StoredVideo], process_bytes: int = PROCESS_BYTES) -> DecoderPool:
    """Return as many decoders of a pool as its memory holds while they decode the smallest frame of these videos, at
    least one, with the memory that they leave for videos: idle decoders take memory too. process_bytes: the memory of a
    decoder without a video.
    """
    smallest = min(map(_estimate_picture_bytes, videos), default=0)
    n = min(pool.n, max(1, pool.memory_bytes // (process_bytes + smallest)))
    return DecoderPool(n, max(0, pool.memory_bytes - n * process_bytes))


def explain_memory(pool: DecoderPool, videos: Sequence[StoredVideo], process_bytes: int = PROCESS_BYTES) -> str | None:
    """Return a sentence for a pool whose decoders cannot all hold the largest frame of these videos at once, with the
    number that can; None where they all can. A frame of unknown size counts as the largest that is decoded.
    process_bytes: the memory of a decoder without a video.
    """
    largest = max(videos, key=_estimate_picture_bytes, default=None)
    if largest is None:
        return None
    needed = process_bytes + _estimate_picture_bytes(largest)
    n_fitting = max(1, pool.memory_bytes // needed)
    if n_fitting >= pool.n:
        return None
    size = f"{largest.width} x {largest.height}" if count_pixels(largest) else "unknown size"
    return (
        f"{format_count(n_fitting, 'decoder')} instead of {pool.n} can decode frames of {size} at once, as in "
        f"{largest.key}: one takes {needed / 1e9:.2f} GB, and {pool.memory_bytes / 1e9:.1f} GB of memory may be used; "
        f"set REELSIEVE_DECODERS to {n_fitting}, or scale the largest videos down"
    )


def _estimate_picture_bytes(video: StoredVideo) -> int:
    return estimate_video_bytes(count_pixels(video), 0, None)


def count_held_bytes(video: StoredVideo) -> int:
    """Return the bytes of a video's file that are held in memory while it is decoded: all of them for a member of a tar
    file or a row of a Lance table, else none.
    """
    return video.size_bytes if is_member_address(video.uri) else 0


def count_pixels(video: StoredVideo) -> int | None:
    """Return the number of pixels of a video's frame, None where its size is unknown."""
    return video.width * video.height if video.width and video.height else None


def read_free_memory(meminfo: Path = Path("/proc/meminfo"), group: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Return the bytes of memory that are free for this process: those of the machine, or of its container if fewer.
    None where the system does not say. meminfo, group: files of Linux and its control group.
    """
    try:
        lines = dict(line.split(":", 1) for line in meminfo.read_text().splitlines())
        free = int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return None
    try:
        # "max" where there is no limit.
        limit, used = (int((group / name).read_text()) for name in ("memory.max", "memory.current"))
    except (OSError, ValueError):
        return free
    return max(0, min(free, limit - used))
