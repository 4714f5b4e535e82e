"""Clips with captions, numbers and vectors in a folder of NeMo Curator or Cosmos-Curate: metas/v0/ID.json or
metas_jsonl/v0/*.jsonl, clips/ID.mp4, MODEL_embd_parquet/*.parquet.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import PurePosixPath
from typing import Any, get_args

from assets.ingest.files import open_table
from assets.ingest.hygiene import is_blank_text
from assets.ingest.json_lines import read_objects
from assets.ingest.lines import MAX_ROW_BYTES
from assets.ingest.parquet_reader import read_arrow_rows
from assets.ingest.paths import resolve_inside
from assets.ingest.rejects import ManifestError, Reject
from assets.ingest.strict_json import read_json
from assets.media.address import has_address_user, is_address
from assets.new_manifest.findings import Caption, CaptionedVideo, Findings, NoManifest, Place, Reason
from assets.new_manifest.folder import FileKind, SourceFolder
from assets.new_manifest.tool_fields import build_vector_row, collect_tool_fields
from assets.new_manifest.videos import VideoEntry, VideoRegistry

# The metadata of a clip, or of the clips of a video in lines, in a folder that names the version of its form.
CLIP_META = re.compile(r"(?:metas/([^/]+)/[^/]+\.json|metas_jsonl/([^/]+)/[^/]+\.jsonl)")
_CAPTION, _FILTERED = "_caption", "filtered_clips"
# Fields of a clip's metadata that become something else than an own field of the same name.
_TIMES = frozenset(("start_ns", "end_ns", "start_frame", "end_frame"))
_USED = frozenset(("span_uuid", "clip_location", "valid", "windows", "filtered_windows", "duration_span")) | _TIMES
_STATUS, _REASON = "caption_status", "caption_failure_reason"
# What the tools write in place of a caption that failed.
_PLACEHOLDER = "unknown caption"
_TOKENS = ("_prompt_tokens", "_output_tokens")
# The model, and what the tool calls its variant if it names one.
_VECTORS = re.compile(r"([a-z0-9]+)_embd(?:_(.+))?_parquet/[^/]+\.parquet")
_ENCODERS = {"iv2": "InternVideo2", "ce1": "Cosmos-Embed1"}
_LANCE = r"((processed_)?lance(_fragments)?|[^/]+_embd(_[^/]+)?_lance(_fragments(_processed)?)?)/"
# Files that are left out, by the beginning of their path, and why; the first that fits counts.
_NOT_READ: Mapping[str, Reason] = {
    _LANCE: Reason.PART_OF_LANCE,
    r"[a-z0-9]+_embd(_[^/]+)?/[^/]+\.pickle$": Reason.PICKLED_VECTOR,
    "previews/": Reason.PREVIEW,
    f"{_FILTERED}/": Reason.FILTERED_CLIP,
    "processed_|video_errors/": Reason.RECORD_OF_WHOLE,
    "v0/|cds_parquet/": Reason.SECOND_LIST,
    "cosmos_predict2_video2world_dataset/": Reason.SECOND_COPY,
    "sam3_": Reason.SAM_3,
}


def read_clip_folder(tool: str, videos: VideoRegistry, findings: Findings) -> Iterator[CaptionedVideo]:
    """Yield the clips with captions of a folder: what the tool measured becomes own fields of the video, with the tool,
    the version of its metadata and their file. The same clips follow again with their vectors. Everything else is left
    out with the reason in `findings`. tool: its name.

    Raises NoManifest where the folder has no metadata of clips.
    """
    folder = videos.folder
    for kind in get_args(FileKind):
        for file in folder.list_files(kind):
            if reason := next((why for path, why in _NOT_READ.items() if re.match(path, file)), None):
                folder.mark_read(file)
                findings.leave_out(reason, file)
    files = [*folder.list_files("caption"), *folder.list_files("table")]
    metas = {file: found[1] or found[2] for file in files if (found := CLIP_META.fullmatch(file))}
    if not metas and any(re.match(_LANCE, file) for file in folder.list_files("lance")):
        raise NoManifest(
            f"{folder.path}: its metadata of clips is in a Lance table, which is not read: let {tool} write it to "
            "metas/v0 or metas_jsonl/v0, without --upload-clip-info-in-lance"
        )
    if not metas:
        raise NoManifest(
            f"{folder.path}: no metadata of clips in metas/v0, as {tool} writes it: give the folder that it wrote to, "
            "or leave --from out to read videos with captions next to them"
        )
    clip_files, clips = frozenset(folder.list_files("video")), dict[str, VideoEntry]()
    for file, version in metas.items():
        named = {"tool": tool, "tool_version": version, "tool_file": file}
        for where, meta in _read_metas(folder, findings, file):
            if isinstance(meta, Reject):
                findings.leave_out_unreadable("metadata", meta.code, where)
            elif (clip := str(meta.get("span_uuid"))) in clips:
                findings.leave_out(Reason.SECOND_RECORD, where)
            elif (video := _read_clip(videos, clip_files, Place(findings, where), meta, named)) is not None:
                clips[clip] = VideoEntry(video.video_id, video.path)
                yield video
    yield from _read_vectors(folder, clips, findings)


def _read_metas(folder: SourceFolder, findings: Findings, file: str) -> Iterator[tuple[str, dict[str, Any] | Reject]]:
    """Yield the metadata of the clips in a file, with where it is."""
    if file.endswith(".jsonl"):
        folder.mark_read(file)
        with open_table(resolve_inside(folder.path, file)) as opened:
            for line, row in read_objects(opened):
                yield f"{file}:{line.number}", row
    elif (data := folder.read_file(file, MAX_ROW_BYTES + 1)) is not None:
        meta = read_json(BytesIO(data), MAX_ROW_BYTES)
        if isinstance(meta, Reject) and meta.code == "too_long":
            findings.leave_out(Reason.LONG_METADATA, file)
        else:
            yield file, meta if isinstance(meta, dict | Reject) else Reject("not_an_object", "it is no object")


def _read_clip(
    videos: VideoRegistry, files: Collection[str], place: Place, meta: Mapping[str, Any], named: Mapping[str, str]
) -> CaptionedVideo | None:
    """Read the metadata of one clip; None where the clip has no caption or no usable file. files: those of videos.
    named: the own fields that name the tool.
    """
    location = meta.get("clip_location")
    if not isinstance(location, str):
        place.leave_out(Reason.NO_LOCATION)
        return None
    if f"/{_FILTERED}/" in f"/{location}":
        place.leave_out(Reason.FILTERED_METADATA)
        return None
    for window in _list_objects(meta, "filtered_windows"):
        place.leave_out(Reason.FILTERED_WINDOW, _name_window(window))
    built = _build_captions(meta, place)
    captions = tuple(each for each in built if place.accept_row("caption", each.build_row("v", "c")))
    if not captions:
        place.leave_out(Reason.CLIP_WITHOUT_CAPTION)
        return None
    # Whatever place the tool wrote it to.
    here = f"clips/{PurePosixPath(location).name}"
    if here in files:
        videos.folder.mark_read(here)
        video = videos.register_file(here)
    elif is_address(location):
        video = videos.register_address(location, None, place.where)
    else:
        place.leave_out(Reason.CLIP_NOT_THERE, here)
        return None
    if video is None:
        return None
    fields = collect_tool_fields("video", _list_measured(meta), place.findings, place.where, named)
    return CaptionedVideo(video.video_id, video.path, captions, fields)


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


def _build_captions(meta: Mapping[str, Any], place: Place) -> Iterator[Caption]:
    """Yield a caption of the clip for every model that wrote any: the texts of its windows in order, with their times
    where there are several, and what the tool noted about them. Failed captions are left out.
    """
    windows = _list_objects(meta, "windows")
    usable = [window for window in windows if _accept_window(window, place)]
    rate = meta.get("framerate", meta.get("framerate_source"))
    for name in dict.fromkeys(name for window in usable for name in window if name.endswith(_CAPTION)):
        if not (texts := [window for window in usable if _has_text(window, name, place)]):
            continue
        segments = [
            {"start_s": span[0], "end_s": span[1], "text": window[name]}
            for window in texts
            if (span := _find_times(window, rate)) is not None
        ]
        is_timed = len(segments) == len(texts) > 1
        text, system = "\n".join(window[name] for window in texts), name.removesuffix(_CAPTION)
        noted = _merge_windows(texts, system, place)
        noted["windows_left_out"] = len(windows) - len(texts) or None
        extra = collect_tool_fields("caption", noted, place.findings, place.where)
        yield Caption(text, system=system, segments=segments if is_timed else None, extra=extra)


def _accept_window(window: Mapping[str, Any], place: Place) -> bool:
    """Return whether the tool counts a window's captions as whole; else leave it out with the reason."""
    status = window.get(_STATUS)
    if status in (None, "success"):
        return True
    reason = Reason.TRUNCATED_WINDOW if status == "truncated" else Reason.FAILED_WINDOW
    why = f", {_REASON} {window[_REASON]!r:.80}" if window.get(_REASON) is not None else ""
    place.leave_out(reason, _name_window(window), status=f"{_STATUS} {status!r:.80}{why}")
    return False


def _has_text(window: Mapping[str, Any], name: str, place: Place) -> bool:
    """Return whether a window has a caption under this name; a placeholder is left out with the reason."""
    text = window.get(name)
    if not isinstance(text, str) or is_blank_text(text):
        return False
    if text.strip().rstrip(".").casefold() != _PLACEHOLDER:
        return True
    place.leave_out(Reason.PLACEHOLDER_WINDOW, f"{_name_window(window)}: {name}", text=text.strip())
    return False


def _merge_windows(windows: Sequence[Mapping[str, Any]], model: str, place: Place) -> dict[str, Any]:
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
            place.leave_out(Reason.FIELD_OF_WINDOWS, field=name)
    return merged


def _name_window(window: Mapping[str, Any]) -> str:
    return str(window.get("start_frame", window.get("start_ns")))


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


def _read_vectors(
    folder: SourceFolder, clips: Mapping[str, VideoEntry], findings: Findings
) -> Iterator[CaptionedVideo]:
    """Yield the clips again, each with a vector that a table has for it, row by row. clips: the videos by the tool's
    id. Rows that ingest would refuse by themselves, of other clips, or with a clip that has such a vector already, are
    left out.
    """
    seen: set[tuple[str, str]] = set()
    for file in folder.list_files("table"):
        if (model := _VECTORS.fullmatch(file)) is None:
            continue
        folder.mark_read(file)
        encoder = " ".join(filter(None, (_ENCODERS.get(model[1], model[1]), model[2])))
        number = 0
        try:
            path = resolve_inside(folder.path, file)
            with open_table(path) as opened:
                for number, row in read_arrow_rows(opened, path):
                    where = f"{file}:{number}"
                    if isinstance(row, Reject):
                        findings.leave_out_refused("vector", row.code, where)
                    elif (clip := clips.get(str(row.get("id")))) is None:
                        findings.leave_out(Reason.VECTOR_OF_NO_CLIP, where)
                    elif vector := build_vector_row(clip.video_id, encoder, row.get("embedding"), findings, where):
                        if (encoder, clip.video_id) in seen:
                            findings.leave_out(Reason.SECOND_VECTOR, where)
                            continue
                        seen.add((encoder, clip.video_id))
                        yield CaptionedVideo(clip.video_id, clip.path, (), vectors=(vector,))
        except ManifestError as error:
            findings.leave_out_table(error, f"{file}:{number + 1}", is_whole=number == 0)
