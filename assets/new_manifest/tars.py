"""WebDataset shards: tar files whose members 000.mp4, 000.txt and 000.json belong together by their name."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from assets.new_manifest.caption_files import CAPTION_SUFFIXES, READ_BYTES, CaptionFile, captions_of
from assets.new_manifest.extract import Extracted
from assets.new_manifest.found import Clip, Findings
from assets.new_manifest.media_files import Place, files_below, is_video

SHARD_SUFFIXES = (".tar", ".tar.gz", ".tgz")
# Members that other loaders unpickle. Nothing of a shard is ever run.
_PICKLES = frozenset((".pkl", ".pickle", ".pyd", ".pth", ".pt", ".npy", ".npz"))


def shards_below(folder: Path) -> list[str]:
    """The tar files of a folder."""
    return [path for path in files_below(folder) if path.lower().endswith(SHARD_SUFFIXES)]


@dataclass(slots=True)
class _Sample:
    """The members of one name that were read so far."""

    key: str
    place: Place | None = None
    size: int = 0
    files: list[CaptionFile] = field(default_factory=list)


def clips_of_shard(path: Path, shard: str, extracted: Extracted, findings: Findings) -> Iterator[Clip]:
    """Every sample of a shard that has a video and a caption; its video is written to the manifest's folder.

    A shard that is damaged is read as far as it goes.
    """
    sample = _Sample("")
    try:
        with tarfile.open(path, "r|*") as tar:
            for member in tar:
                if not member.isreg():
                    if not member.isdir():
                        findings.leave_out("a member of a shard that is no regular file", f"{shard}: {member.name}")
                    continue
                key, suffix = _split(member.name)
                if key != sample.key:
                    yield from _finished(sample, shard, extracted, findings)
                    sample = _Sample(key)
                _read(tar, member, suffix, sample, shard, extracted, findings)
    except (tarfile.TarError, EOFError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        findings.leave_out(f"the rest of a damaged shard ({error})", shard)
    yield from _finished(sample, shard, extracted, findings)


def _read(
    tar: tarfile.TarFile,
    member: tarfile.TarInfo,
    suffix: str,
    sample: _Sample,
    shard: str,
    extracted: Extracted,
    findings: Findings,
) -> None:
    content = tar.extractfile(member)
    if content is None:
        return
    name = f"{shard}: {member.name}"
    if is_video(f"x{suffix}"):
        folder = next(shard[: -len(end)] for end in SHARD_SUFFIXES[::-1] if shard.lower().endswith(end))
        sample.place = extracted.store(f"{folder}/{sample.key}{suffix}", content, member.size)  # type: ignore[arg-type]
        sample.size = member.size
    elif suffix in CAPTION_SUFFIXES:
        sample.files.append(CaptionFile(name, suffix, content.read(READ_BYTES)))
    elif suffix in _PICKLES:
        findings.leave_out("a member that could hold code, and is not read", name)


def _finished(sample: _Sample, shard: str, extracted: Extracted, findings: Findings) -> Iterator[Clip]:
    if sample.place is None:
        if sample.files:
            findings.leave_out("a caption without a video", f"{shard}: {sample.key}")
    elif captions := captions_of(sample.files, findings):
        yield Clip(sample.place.video_id, sample.place.path, captions)
    else:
        extracted.forget(sample.place, sample.size)
        findings.leave_out("a video without a caption", f"{shard}: {sample.key}")


def _split(name: str) -> tuple[str, str]:
    """The key and the suffix of a member: as WebDataset does it, a key ends at the first dot of the file's name.

    >>> _split("train/000.left.MP4")
    ('train/000', '.mp4')
    """
    path = PurePosixPath(name)
    short, _, rest = path.name.partition(".")
    key = name.removesuffix(path.name) + short
    return key.removeprefix("./"), f".{rest.rpartition('.')[2].lower()}" if rest else ""
