"""Clips with captions, numbers and vectors in a folder of NeMo Curator or Cosmos-Curate: metas/v0/ID.json or
metas_jsonl/v0/*.jsonl, clips/ID.mp4, MODEL_embd_parquet/*.parquet.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import PurePosixPath
from typing import Any, get_args

from assets.ingest.files import open_text_file
from assets.ingest.hygiene import is_blank_text
from assets.ingest.json_lines import read_numbered_objects
from assets.ingest.lines import MAX_ROW_BYTES
from assets.ingest.paths import resolve_inside
from assets.ingest.rejects import Reject
from assets.ingest.strict_json import read_json
from assets.media.address import has_address_user, is_address
from assets.new_manifest.findings import Caption, CaptionedVideo, Findings, NoManifest, Reason
from assets.new_manifest.folder import FileKind, SourceFolder
from assets.new_manifest.tool_fields import collect_tool_fields
from assets.new_manifest.tool_vectors import read_clip_vectors
from assets.new_manifest.videos import VideoEntry, VideoRegistry

# The metadata of a clip, or of the clips of a video in lines, in a folder that names the version of its form.
CLIP_META = re.compile(r"(?:metas/([^/]+)/[^/]+\.json|metas_jsonl/([^/]+)/[^/]+\.jsonl)")
_META, _CAPTION, _FILTERED = "metadata", "_caption", "filtered_clips"
# Fields of a clip's metadata that become something else than an own field of the same name.
_TIMES = frozenset(("start_ns", "end_ns", "start_frame", "end_frame"))
_USED = frozenset(("span_uuid", "clip_location", "valid", "windows", "filtered_windows", "duration_span")) | _TIMES
_STATUS, _REASON = "caption_status", "caption_failure_reason"
# What the tools write in place of a caption that failed.
_PLACEHOLDER = "unknown caption"
_TOKENS = ("_prompt_tokens", "_output_tokens")
_PICKLE = re.compile(r"[a-z0-9]+_embd(_[^/]+)?/[^/]+\.pickle")
_LANCE = re.compile(r"((processed_)?lance(_fragments)?|[^/]+_embd(_[^/]+)?_lance(_fragments(_processed)?)?)/.+")
# By the beginning of their path, files that are left out, and why.
_NOT_READ: Mapping[str, Reason] = {
    "previews/": Reason.PREVIEW,
    f"{_FILTERED}/": Reason.FILTERED_CLIP,
    "processed_": Reason.RECORD_OF_WHOLE,
    "video_errors/": Reason.RECORD_OF_WHOLE,
    "v0/": Reason.SECOND_LIST,
    "cds_parquet/": Reason.SECOND_LIST,
    "cosmos_predict2_video2world_dataset/": Reason.SECOND_COPY,
    "sam3_": Reason.SAM_3,
}


def read_clip_folder(tool: str, videos: VideoRegistry, findings: Findings) -> Iterator[CaptionedVideo]:
    """Return an iterator over the clips with captions of a folder: what the tool measured becomes own fields of the
    video, with the tool, the version of its metadata and their file. The same clips follow again with their vectors.
    Everything else is left out with the reason in `findings`. tool: its name.

    Raises NoManifest where the folder has no metadata of clips.
    """
    folder = videos.folder
    files = [*folder.list_files("caption"), *folder.list_files("table")]
    metas = {file: found[1] or found[2] for file in files if (found := CLIP_META.fullmatch(file))}
    if not metas and any(map(_LANCE.fullmatch, folder.list_files("lance"))):
        raise NoManifest(
            f"{folder.path}: its metadata of clips is in a Lance table, which is not read: let {tool} write it to "
            "metas/v0 or metas_jsonl/v0, without --upload-clip-info-in-lance"
        )
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
        for where, meta in _read_metas(videos.folder, findings, file):
            clip = str(meta.get("span_uuid"))
            if clip in clips:
                findings.leave_out(Reason.SECOND_RECORD, where)
                continue
            named = {"tool": tool, "tool_version": version, "tool_file": file}
            video = _read_clip(videos, findings, named, files, meta, where)
            if video is not None:
                clips[clip] = VideoEntry(video.video_id, video.path)
                yield video
    yield from read_clip_vectors(videos.folder, clips, findings)


def _read_metas(folder: SourceFolder, findings: Findings, file: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the metadata of the clips in a file, with where it is."""
    if not file.endswith(".jsonl"):
        meta = _read_object(folder, findings, file)
        if meta is not None:
            yield file, meta
        return
    folder.mark_read(file)
    with open_text_file(resolve_inside(folder.path, file)) as opened:
        for number, row in read_numbered_objects(opened):
            if isinstance(row, Reject):
                findings.leave_out_unreadable(_META, row.code, f"{file}:{number}")
            else:
                yield f"{file}:{number}", row


def _leave_out_folders(folder: SourceFolder, findings: Findings) -> None:
    for kind in get_args(FileKind):
        for file in folder.list_files(kind):
            reason = next((why for beginning, why in _NOT_READ.items() if file.startswith(beginning)), None)
            if _PICKLE.fullmatch(file):
                reason = Reason.PICKLED_VECTOR
            if _LANCE.fullmatch(file):
                reason = Reason.PART_OF_LANCE
            if reason is not None:
                folder.mark_read(file)
                findings.leave_out(reason, file)


def _read_clip(
    videos: VideoRegistry,
    findings: Findings,
    named: Mapping[str, str],
    files: Collection[str],
    meta: Mapping[str, Any],
    file: str,
) -> CaptionedVideo | None:
    """Read the metadata of one clip; None where the clip has no caption or no usable file. named: the own fields that
    name the tool. files: those of videos. file: where the metadata is.
    """
    location = meta.get("clip_location")
    if not isinstance(location, str):
        findings.leave_out(Reason.NO_LOCATION, file)
        return None
    if f"/{_FILTERED}/" in f"/{location}":
        findings.leave_out(Reason.FILTERED_METADATA, file)
        return None
    for window in _list_objects(meta, "filtered_windows"):
        findings.leave_out(Reason.FILTERED_WINDOW, _name_window(window, file))
    captions = tuple(
        caption
        for caption in _build_captions(meta, findings, file)
        if findings.accept_row("caption", caption.build_row("v", "c"), file)
    )
    if not captions:
        findings.leave_out(Reason.CLIP_WITHOUT_CAPTION, file)
        return None
    place = _find_clip(videos, findings, files, location, file)
    if place is None:
        return None
    fields = collect_tool_fields("video", _list_measured(meta), findings, file, named)
    return CaptionedVideo(place.video_id, place.path, captions, fields)


def _list_measured(meta: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is known about a clip: where it begins and ends in its source, that source's web address, and all
    other fields. The source's address is without user and query, which may be a signature.
    """
    measured = {name: value for name, value in meta.items() if name not in _USED}
    span, source = meta.get("duration_span"), meta.get("source_video")
    if isinstance(span, list) and len(span) == 2 and all(map(_is_number, span)):
        measured |= {"span_start_s": span[0], "span_end_s": span[1]}
    elif (times := _find_times(meta, None)) is not None:
        measured |= {"span_start_s": times[0], "span_end_s": times[1]}
    if isinstance(source, str):
        measured["source_video"] = _strip_address(source)
        if source.startswith(("https://", "http://")):
            measured["source_url"] = measured["source_video"]
    return measured


def _strip_address(address: str) -> str:
    """Return an address without user, password, query and fragment. Another text comes back unchanged."""
    plain = re.split("[?#]", address, maxsplit=1)[0]
    if not is_address(plain):
        return address
    return re.sub(r"://[^#]*@", "://", plain) if has_address_user(plain) else plain


def _find_clip(
    videos: VideoRegistry, findings: Findings, files: Collection[str], location: str, file: str
) -> VideoEntry | None:
    """Find the file of a clip: in folder clips, whatever place the tool wrote it to, or else at its address."""
    here = f"clips/{PurePosixPath(location).name}"
    if here in files:
        videos.folder.mark_read(here)
        return videos.register_file(here)
    if is_address(location):
        return videos.register_address(location, None, file)
    findings.leave_out(Reason.CLIP_NOT_THERE, f"{file}: {here}")
    return None


def _build_captions(meta: Mapping[str, Any], findings: Findings, where: str) -> Iterator[Caption]:
    """Yield a caption of the clip for every model that wrote any: the texts of its windows in order, with their times
    where there are several, and what the tool noted about them. Failed captions are left out.
    """
    windows = _list_objects(meta, "windows")
    usable = [window for window in windows if _accept_window(window, findings, where)]
    rate = meta.get("framerate", meta.get("framerate_source"))
    for name in dict.fromkeys(name for window in usable for name in window if name.endswith(_CAPTION)):
        texts = [window for window in usable if _has_text(window, name, findings, where)]
        if texts:
            times = [_find_times(window, rate) for window in texts]
            segments = [
                {"start_s": span[0], "end_s": span[1], "text": window[name]}
                for span, window in zip(times, texts, strict=True)
                if span is not None
            ]
            is_timed = len(segments) == len(texts) > 1
            text = "\n".join(window[name] for window in texts)
            noted = _merge_windows(texts, name.removesuffix(_CAPTION), findings, where)
            noted["windows_left_out"] = len(windows) - len(texts) or None
            extra = collect_tool_fields("caption", noted, findings, where)
            yield Caption(
                text, system=name.removesuffix(_CAPTION), segments=segments if is_timed else None, extra=extra
            )


def _accept_window(window: Mapping[str, Any], findings: Findings, where: str) -> bool:
    """Return whether the tool counts a window's captions as whole; else leave it out with the reason."""
    status = window.get(_STATUS)
    if status in (None, "success"):
        return True
    reason = Reason.TRUNCATED_WINDOW if status == "truncated" else Reason.FAILED_WINDOW
    why = f", {_REASON} {window[_REASON]!r:.80}" if window.get(_REASON) is not None else ""
    findings.leave_out(reason, _name_window(window, where), status=f"{_STATUS} {status!r:.80}{why}")
    return False


def _has_text(window: Mapping[str, Any], name: str, findings: Findings, where: str) -> bool:
    """Return whether a window has a caption under this name; a placeholder is left out with the reason."""
    text = window.get(name)
    if not isinstance(text, str) or is_blank_text(text):
        return False
    if text.strip().rstrip(".").casefold() != _PLACEHOLDER:
        return True
    findings.leave_out(Reason.PLACEHOLDER_WINDOW, f"{_name_window(window, where)}: {name}", text=text.strip())
    return False


def _merge_windows(windows: Sequence[Mapping[str, Any]], model: str, findings: Findings, where: str) -> dict[str, Any]:
    """Return what the tool noted about the windows of a caption by `model`: sums of tokens, whether any has a flag, and
    values that all have in common. Others are left out with the reason.
    """
    merged: dict[str, Any] = {}
    for name in dict.fromkeys(name for window in windows for name in window):
        values = [window[name] for window in windows if window.get(name) is not None]
        if not values or name in _TIMES or name.endswith(_CAPTION):
            continue
        if name.endswith(_TOKENS):
            if name.removeprefix(model) in _TOKENS and all(map(_is_number, values)):
                merged[name.removeprefix(f"{model}_")] = sum(values)
        elif all(isinstance(value, bool) for value in values):
            merged[name] = any(values)
        elif all(value == values[0] for value in values):
            merged[name] = values[0]
        else:
            findings.leave_out(Reason.FIELD_OF_WINDOWS, where, field=name)
    return merged


def _name_window(window: Mapping[str, Any], where: str) -> str:
    return f"{where}: {window.get('start_frame', window.get('start_ns'))}"


def _find_times(part: Mapping[str, Any], rate: Any) -> tuple[float, float] | None:
    """Return where a clip or window begins and ends in seconds, by its times or its frames at a rate; None where that
    is not known.
    """
    for start, end, by in (("start_ns", "end_ns", 1e9), ("start_frame", "end_frame", rate)):
        if all(map(_is_number, (part.get(start), part.get(end), by))) and by > 0:
            return part[start] / by, part[end] / by
    return None


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
    parsed = read_json(BytesIO(data), MAX_ROW_BYTES)
    if isinstance(parsed, dict):
        return parsed
    if isinstance(parsed, Reject) and parsed.code == "too_long":
        findings.leave_out(Reason.LONG_METADATA, file)
        return None
    findings.leave_out_unreadable(_META, parsed.code if isinstance(parsed, Reject) else "not_an_object", file)
    return None
