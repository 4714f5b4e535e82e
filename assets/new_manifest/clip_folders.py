"""Clips with captions, numbers and vectors in a folder of NeMo Curator or Cosmos-Curate: metas/v0/ID.json,
clips/ID.mp4, MODEL_embd_parquet/*.parquet.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Collection, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any, get_args

from assets.ingest import strict_json
from assets.ingest.hygiene import is_blank_text
from assets.ingest.lines import MAX_ROW_BYTES
from assets.ingest.rejects import CODES, Reject
from assets.ingest.rows import VideoRow
from assets.media.address import is_address, strip_address
from assets.new_manifest.findings import Caption, CaptionedVideo, Findings, NoManifest
from assets.new_manifest.folder import FileKind, SourceFolder
from assets.new_manifest.tool_fields import collect_tool_fields
from assets.new_manifest.tool_vectors import read_clip_vectors
from assets.new_manifest.videos import VideoEntry, VideoRegistry

# The metadata of a clip, in a folder that names the version of its form.
_CLIP_META = re.compile(r"metas/([^/]+)/[^/]+\.json")
_CAPTION, _FILTERED = "_caption", "filtered_clips"
# Fields of a clip's metadata that become something else than an own field of the same name.
_USED = frozenset(("span_uuid", "clip_location", "valid", "windows", "filtered_windows", "duration_span"))
_PICKLE = re.compile(r"[a-z0-9]+_embd(_[^/]+)?/[^/]+\.pickle")
_VIDEO_FIELDS = frozenset(VideoRow.model_fields)
# By the beginning of their path, files that are left out, and why.
_NOT_READ: Mapping[str, str] = {
    "previews/": "a preview of a clip",
    f"{_FILTERED}/": "a clip that the tool filtered out",
    "processed_": "a record about a whole video or chunk",
    "v0/": "a second list of the captions",
}


def read_clip_folder(tool: str, videos: VideoRegistry, findings: Findings) -> Iterator[CaptionedVideo]:
    """Return an iterator over the clips with captions of a folder: what the tool measured becomes own fields of the
    video, with the tool, the version of its metadata and their file. The same clips follow again with their vectors.
    Everything else is left out with the reason in `findings`. tool: its name. Raises NoManifest where the folder has no
    metadata of clips.
    """
    folder = videos.folder
    metas = {file: found[1] for file in folder.list_files("caption") if (found := _CLIP_META.fullmatch(file))}
    if not metas:
        raise NoManifest(
            f"{folder.path}: no metadata of clips in metas/v0, as {tool} writes it: give the folder that it wrote to, "
            "or leave --from out to read videos with captions next to them"
        )
    _leave_out_folders(folder, findings)
    return _read_clips(tool, videos, findings, metas)


def _read_clips(
    tool: str, videos: VideoRegistry, findings: Findings, metas: Mapping[str, str]
) -> Iterator[CaptionedVideo]:
    files, clips = frozenset(videos.folder.list_files("video")), dict[str, VideoEntry]()
    for file, version in metas.items():
        video = _read_clip(videos, findings, tool, files, file, version)
        if video is not None:
            clips[PurePosixPath(file).stem] = VideoEntry(video.video_id, video.path)
            yield video
    yield from read_clip_vectors(videos.folder, clips, findings)


def _leave_out_folders(folder: SourceFolder, findings: Findings) -> None:
    for kind in get_args(FileKind):
        for file in folder.list_files(kind):
            reason = next((why for beginning, why in _NOT_READ.items() if file.startswith(beginning)), None)
            if _PICKLE.fullmatch(file):
                reason = "a pickled vector of a clip, which is not opened: vectors come from the tool's Parquet files"
            if reason is not None:
                folder.mark_read(file)
                findings.leave_out(reason, file)


def _read_clip(
    videos: VideoRegistry, findings: Findings, tool: str, files: Collection[str], file: str, version: str
) -> CaptionedVideo | None:
    """Read the metadata of one clip; None where the clip has no caption or no usable file. files: those of videos."""
    meta = _read_object(videos.folder, findings, file)
    if meta is None:
        return None
    location = meta.get("clip_location")
    if not isinstance(location, str):
        findings.leave_out("metadata of a clip without clip_location", file)
        return None
    if f"/{_FILTERED}/" in f"/{location}":
        findings.leave_out("metadata of a clip that the tool filtered out", file)
        return None
    for window in _list_objects(meta, "filtered_windows"):
        findings.leave_out("a window that the tool filtered out", f"{file}: {window.get('start_frame')}")
    captions = tuple(
        caption
        for caption in _build_captions(meta)
        if findings.accept_row("caption", caption.build_row("v", "c"), file)
    )
    if not captions:
        findings.leave_out("a clip without a caption", file)
        return None
    place = _find_clip(videos, findings, files, location, file)
    if place is None:
        return None
    named = {"tool": tool, "tool_version": version, "tool_file": file}
    fields = collect_tool_fields(named, _list_measured(meta), _VIDEO_FIELDS, findings, file)
    return CaptionedVideo(place.video_id, place.path, captions, fields)


def _list_measured(meta: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is known about a clip: where it begins and ends in its source, that source's web address, and all
    other fields. The source's address is without user and query, which may be a signature.
    """
    measured = {name: value for name, value in meta.items() if name not in _USED}
    span, source = meta.get("duration_span"), meta.get("source_video")
    if isinstance(span, list) and len(span) == 2 and all(map(_is_number, span)):
        measured |= {"span_start_s": span[0], "span_end_s": span[1]}
    if isinstance(source, str):
        measured["source_video"] = strip_address(source)
        if source.startswith(("https://", "http://")):
            measured["source_url"] = measured["source_video"]
    return measured


def _find_clip(
    videos: VideoRegistry, findings: Findings, files: Collection[str], location: str, file: str
) -> VideoEntry | None:
    """Find the file of a clip: in folder clips, whatever place the tool wrote it to, or else at its address."""
    here = f"clips/{PurePosixPath(location).name}"
    if here in files:
        videos.folder.mark_read(here)
        return videos.register_file(here)
    if is_address(location):
        return videos.register_cell(location, "", None, file)
    findings.leave_out("a clip whose file is not in folder clips", f"{file}: {here}")
    return None


def _build_captions(meta: Mapping[str, Any]) -> Iterator[Caption]:
    """Yield a caption of the clip for every model that wrote any: the texts of its windows in order, with their times
    where there are several.
    """
    windows = _list_objects(meta, "windows")
    rate = meta.get("framerate", meta.get("framerate_source"))
    for name in dict.fromkeys(name for window in windows for name in window if name.endswith(_CAPTION)):
        texts = [window for window in windows if isinstance(window.get(name), str) and not is_blank_text(window[name])]
        if texts:
            segments = [_build_segment(window, name, rate) for window in texts]
            is_timed = len(texts) > 1 and None not in segments
            text = "\n".join(window[name] for window in texts)
            timed = [segment for segment in segments if segment is not None] if is_timed else None
            yield Caption(text, system=name.removesuffix(_CAPTION), segments=timed)


def _build_segment(window: Mapping[str, Any], name: str, rate: Any) -> dict[str, Any] | None:
    """Return a window as a segment of a caption; None where its times are not known."""
    start, end = window.get("start_frame"), window.get("end_frame")
    if not all(_is_number(number) for number in (start, end, rate)) or rate <= 0:
        return None
    return {"start_s": start / rate, "end_s": end / rate, "text": window[name]}


def _list_objects(meta: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """List the objects in a field that is a list; empty for any other field."""
    found = meta.get(name)
    return [window for window in found if isinstance(window, dict)] if isinstance(found, list) else []


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _read_object(folder: SourceFolder, findings: Findings, file: str) -> dict[str, Any] | None:
    data = folder.read_file(file, MAX_ROW_BYTES + 1)
    if data is None:
        return None
    if len(data) > MAX_ROW_BYTES:
        findings.leave_out(f"metadata of more than {MAX_ROW_BYTES} bytes", file)
        return None
    parsed = strict_json.parse_json_bytes(data.removeprefix(BOM_UTF8))
    if isinstance(parsed, dict):
        return parsed
    code = parsed.code if isinstance(parsed, Reject) else "not_an_object"
    findings.leave_out(f"metadata that cannot be read ({code}): {CODES[code]}", file)
    return None
