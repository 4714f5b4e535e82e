"""Captions in the files that belong to one video: .txt, .json, .vtt and .srt, in a folder or in a tar shard."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from assets.ingest import strict_json
from assets.ingest.encodings import UTF_8, decode_text
from assets.ingest.hygiene import is_blank_text
from assets.ingest.lines import MAX_ROW_BYTES
from assets.ingest.rejects import Reject
from assets.new_manifest.columns import ColumnNames, guess_columns
from assets.new_manifest.findings import KEPT_FOR_FACTS, Caption, CaptionedVideo, Findings, Place, Reason
from assets.new_manifest.folder import CAPTION_SUFFIXES, FileKind, SourceFolder, strip_suffix
from assets.new_manifest.rows import parse_captions, parse_row_captions
from assets.new_manifest.source import UNREAD_REASONS, FoundRows, Source
from assets.new_manifest.subtitles import parse_subtitles

# One byte more than the limit shows a file that is too long.
MAX_READ_BYTES = MAX_ROW_BYTES + 1
_SPLITS = frozenset(("train", "training", "val", "valid", "validation", "dev", "test", "testing", "eval"))
# The name of a file's text among the fields of JSON objects of the same video.
_TEXT = "the text of the file"
_UNREAD: Mapping[FileKind, Reason] = {
    **UNREAD_REASONS,
    "caption": Reason.CAPTION_WITHOUT_VIDEO,
    "table": Reason.TABLE_BY_CAPTION_FILES,
}


class CaptionFile(NamedTuple):
    """A caption file that was read: its path or name for messages, its suffix in small letters such as `.txt`, and its
    first bytes, at most one more than the limit of 8 MiB.
    """

    name: str
    suffix: str
    data: bytes


def find_captioned_videos(source: Source) -> FoundRows | None:
    """Find the videos of a folder, with the caption files next to them if there are any. None where there is no video,
    and for a file.
    """
    folder = source.folder
    if folder.file is not None or not folder.list_files("video"):
        return None
    files = group_caption_files(folder)
    paired = set(chain.from_iterable(files.values()))
    for file in folder.list_files("caption"):
        if file.lower().endswith(".json") and file not in paired:
            folder.mark_read(file)
            source.findings.leave_out(Reason.JSON_OF_NO_VIDEO, file)
    kind = "videos with caption files" if files else "videos without captions"
    return FoundRows(kind, _read_videos(source, files), _UNREAD)


def group_caption_files(folder: SourceFolder) -> dict[str, list[str]]:
    """Return the paths of a folder's caption files as lists, by the path of their video without its suffix. Files of no
    video are not among them. `clip.en.vtt` belongs to `clip` where there is a `clip.mp4` and no `clip.en.mp4`. Where no
    video has any next to it, `metas/clip.txt` belongs to `videos/clip` if no other folder like `videos` has a `clip`.
    """
    stems = set(map(strip_suffix, folder.list_files("video")))
    paths_by_stem: dict[str, list[str]] = {}
    for path in folder.list_files("caption"):
        full, shorter = strip_suffix(path), strip_suffix(strip_suffix(path))
        stem = shorter if full not in stems and shorter in stems else full
        paths_by_stem.setdefault(stem, []).append(path)
    if of_videos := {stem: paths for stem, paths in paths_by_stem.items() if stem in stems}:
        return of_videos
    by_name: dict[str, list[str]] = {}
    for stem in sorted(stems):
        by_name.setdefault(PurePosixPath(stem).name, []).append(stem)
    apart: dict[str, list[str]] = {}
    for stem, paths in paths_by_stem.items():
        name = PurePosixPath(stem).name
        fitting = [
            video for video in by_name.get(name, by_name.get(strip_suffix(name), ())) if _is_sibling(video, stem)
        ]
        if len(fitting) == 1:
            apart.setdefault(fitting[0], []).extend(paths)
            folders = (PurePosixPath(path).parent.as_posix() for path in (stem, fitting[0]))
            folder.findings.add_guess("captions in folder {} are of the videos of these names in {}".format(*folders))
    return apart


def _is_sibling(video: str, caption: str) -> bool:
    """Return whether the folders of two files differ in the name of one folder, or one has a folder more, which is no
    other split of a dataset.
    """
    ours, theirs = PurePosixPath(video).parts[:-1], PurePosixPath(caption).parts[:-1]
    if len(ours) == len(theirs):
        pairs = [pair for pair in zip(ours, theirs, strict=True) if pair[0] != pair[1]]
        return len(pairs) == 1 and not _SPLITS.issuperset(map(str.lower, pairs[0]))
    short, long = sorted((ours, theirs), key=len)
    return any(long[:place] + long[place + 1 :] == short for place in range(len(long)))


def _read_videos(source: Source, files: Mapping[str, list[str]]) -> Iterator[CaptionedVideo]:
    """Yield every video of a folder, with all captions of the files next to it. files: by video, without its suffix."""
    folder, findings = source.folder, source.findings
    videos_of = Counter(map(strip_suffix, folder.list_files("video")))
    for video in folder.list_files("video"):
        paths = files.get(strip_suffix(video), [])
        if paths and videos_of[strip_suffix(video)] > 1:
            findings.add_guess(
                "videos whose names differ only in the suffix all get the captions of their shared caption files"
            )
        contents = [
            CaptionFile(path, PurePosixPath(path).suffix.lower(), data)
            for path in paths
            if (data := folder.read_file(path, MAX_READ_BYTES)) is not None
        ]
        captions = parse_caption_files(contents, findings, source.column_names)
        if not captions:
            findings.add_guess(KEPT_FOR_FACTS)
        folder.mark_read(video)
        if (place := source.videos.register_file(video)) is not None:
            yield CaptionedVideo(place.video_id, place.path, captions)


def parse_caption_files(files: list[CaptionFile], findings: Findings, column_names: ColumnNames) -> tuple[Caption, ...]:
    """Return the captions of one video, from its files of the most trusted kind that holds one: .txt, .json, .vtt,
    .srt. Other files are left out with the reason in `findings`, also those that cannot be read. Without any caption
    the tuple is empty.

    Where that kind is not JSON, the fields and references of the video's JSON objects go to the captions. column_names:
    names of fields that the user gave.
    """
    contents = [(file, content) for file in files if (content := _parse_content(file, findings)) is not None]
    kinds = {file.suffix for file, content in contents if file.suffix != ".json" or _is_caption(content, column_names)}
    chosen = next((suffix for suffix in CAPTION_SUFFIXES if suffix in kinds), ".json")
    texts = [content for file, content in contents if file.suffix == chosen == ".txt"]
    fields: dict[str, Any] = {}
    for file, content in contents:
        if file.suffix == ".json" != chosen and isinstance(content, dict):
            columns = guess_columns(content, column_names, is_caption_file=True)
            holding = {columns["caption"], columns["candidates"]}
            if any(key in holding and caption not in texts for key, caption in content.items()):
                findings.leave_out(Reason.LATER_CAPTION_FILE, file.name)
            fields |= {key: value for key, value in content.items() if key not in holding}
        elif file.suffix != chosen:
            findings.leave_out(Reason.LATER_CAPTION_FILE, file.name)
    captions: list[Caption] = []
    for file, content in contents:
        if file.suffix != chosen:
            continue
        if chosen == ".json":
            parsed = parse_captions(content, column_names, Place(findings, file.name))
        else:
            parsed = _add_fields(content, fields, file.name, findings, column_names)
            # A video with several captions has its reference only once.
            fields.pop(guess_columns(fields, column_names, is_caption_file=True)["reference"] or "", None)
        if not parsed:
            findings.leave_out(Reason.EMPTY_CAPTION_FILE, file.name)
        captions += parsed
    return tuple(captions)


def _parse_content(file: CaptionFile, findings: Findings) -> Any:
    """Return the text, JSON value or segments of a file that holds any; None for one that is left out."""
    if len(file.data) > MAX_ROW_BYTES:
        findings.leave_out(Reason.LONG_CAPTION_FILE, file.name)
        return None
    try:
        text, encoding = decode_text(file.data, may_be_cp1252=file.suffix != ".json")
    except UnicodeDecodeError:
        findings.leave_out(Reason.CAPTION_FILE_NOT_UTF_8, file.name)
        return None
    if encoding != UTF_8:
        findings.add_guess(f"caption files that are not UTF-8 are read as {encoding}")
    value: Any = text.strip()
    if file.suffix == ".json":
        value = strict_json.parse_json(text)
    elif file.suffix != ".txt":
        value, left_out = parse_subtitles(text)
        for reason in left_out:
            findings.leave_out(reason, file.name)
    if isinstance(value, Reject):
        findings.leave_out(Reason.BAD_JSON_CAPTION_FILE, file.name, code=value.code)
        return None
    if not value or (isinstance(value, str) and is_blank_text(value)):
        findings.leave_out(Reason.EMPTY_CAPTION_FILE, file.name)
        return None
    return value


def _is_caption(value: Any, column_names: ColumnNames) -> bool:
    """Return whether a JSON value holds captions, and not only fields about them."""
    if isinstance(value, dict):
        columns = guess_columns(value, column_names, is_caption_file=True)
        return columns["caption"] is not None or columns["candidates"] is not None
    return isinstance(value, str | list)


def _add_fields(
    content: Any, fields: Mapping[str, Any], name: str, findings: Findings, column_names: ColumnNames
) -> tuple[Caption, ...]:
    """Build the captions of a file of text or subtitles, with the fields of the video's JSON objects."""
    if isinstance(content, str):
        row = {**fields, _TEXT: content}
    else:
        row = {**fields, _TEXT: " ".join(segment["text"] for segment in content), "segments": content}
    columns = guess_columns(row, column_names, by_content={"caption": _TEXT}, is_caption_file=True)
    return parse_row_captions(row, columns, Place(findings, name))
