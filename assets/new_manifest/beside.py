"""A folder of videos with captions beside them: clip.mp4 with clip.txt, clip.json, clip.vtt or clip.srt."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from assets.ingest.files import readable
from assets.new_manifest.caption_files import CAPTION_SUFFIXES, READ_BYTES, CaptionFile, captions_of
from assets.new_manifest.found import Clip, Findings
from assets.new_manifest.media_files import MediaFiles, files_below, is_video


def captions_beside(folder: Path) -> dict[str, list[str]]:
    """The caption files of a folder by the video's path without its suffix.

    `clip.en.vtt` belongs to `clip` where there is a `clip.mp4` and no `clip.en.mp4`.
    """
    files = list(files_below(folder))
    stems = {_stem(path) for path in files if is_video(path)}
    found: dict[str, list[str]] = {}
    for path in files:
        if PurePosixPath(path).suffix.lower() in CAPTION_SUFFIXES:
            own, shorter = _stem(path), _stem(_stem(path))
            found.setdefault(shorter if own not in stems and shorter in stems else own, []).append(path)
    return found


def clips_beside(folder: Path, media: MediaFiles, findings: Findings) -> Iterator[Clip]:
    """Every video of a folder that has a caption beside it, with all its captions."""
    files = captions_beside(folder)
    for video in media:
        paths = files.pop(_stem(video), [])
        captions = captions_of([CaptionFile.of(path, _beginning(folder / path)) for path in paths], findings)
        if captions:
            yield Clip(media.video_id(video), media.as_written(video), captions)
        elif not paths:
            findings.leave_out("a video without a caption beside it", video)
    for paths in files.values():
        findings.leave_out("a caption file without a video beside it", paths[0], len(paths))


def _stem(path: str) -> str:
    return path.removesuffix(PurePosixPath(path).suffix)


def _beginning(path: Path) -> bytes:
    with readable(path), path.open("rb") as file:
        return file.read(READ_BYTES)
