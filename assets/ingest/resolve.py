"""From valid manifest rows to database rows: videos, captions and questions.

A resolver takes a batch of rows of one table and asks the database once or twice for the rows that they point to. It
gives one database row or one refusal for every row, in the order of the rows. assets/ingest/batches.py has the
resolvers of the other tables.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from assets.ingest.files import PathRejected, resolve_inside
from assets.ingest.hygiene import shown
from assets.ingest.rejects import Code, Reject
from assets.ingest.rows import CaptionRow, QARow, VideoRow
from assets.media.address import Address, AddressRefused, is_address, parse_address, without_credentials
from assets.media.files import fetched, is_same_object, place_of
from assets.media.remote import Kind, MediaUnavailable, Store
from assets.media.settings import MediaSettings
from assets.media_file import FileState, has_content
from assets.settings import read_settings
from db.manifest.store import IngestStore
from metrics_core.frames import NotAVideo, probe_video

# The columns of table `video` that describe a video file: its place, its content, and whether it decodes.

PLACE = ("uri", "size_bytes", "mtime_ns", "ctime_ns", "inode", "etag")
PROBED = ("content_sha256", "duration_s", "fps", "n_frames", "width", "height", "codec", "status", "error")
# Objects of stores that are asked for at a time: an answer takes long, and little of this machine.
AT_A_TIME = 8
_CODES: Mapping[Kind, Code] = {"missing": "file_missing", "escape": "path_escape", "trouble": "media_unavailable"}


def media_of_rows(folder: Path, rows: Sequence[VideoRow], stored: Mapping[str, Any]) -> list[dict[str, Any] | Reject]:
    """`media_columns` of every row, in the order of the rows. `stored` are the videos of the database by key."""
    if not any(row.path is not None and is_address(row.path) for row in rows):
        return [media_columns(folder, row, stored.get(row.video_id)) for row in rows]
    with ThreadPoolExecutor(AT_A_TIME, thread_name_prefix="media") as pool:
        return list(pool.map(lambda row: media_columns(folder, row, stored.get(row.video_id)), rows))


def media_columns(folder: Path, row: VideoRow, stored: Any | None) -> dict[str, Any] | Reject:
    """The media columns of a video row, or the refusal of its file. `stored` is the video as the database has it.

    A file with the stored path, size, times and inode is not read, nor is an object with the stored address, size and
    etag. A file with other times or another place but the stored content is not probed again. A file that cannot be
    read or contains no video is refused. A file that is damaged or cannot be decoded is kept with its status and error.
    """
    if row.path is None:
        empty = dict.fromkeys((*PLACE, *PROBED))
        return {**empty, "duration_s": row.duration_s, "status": "text_only"}
    named = f"field 'path' is {shown(without_credentials(row.path))}"
    try:
        if is_address(row.path):
            return _at_address(parse_address(row.path), stored)
        path = resolve_inside(folder, row.path)
        return _of_file(str(path), path, stored)
    except PathRejected as refused:
        return Reject(refused.code, refused.reason)
    except AddressRefused as refused:
        return Reject("path_url", f"{named}: {refused}")
    except MediaUnavailable as error:
        return Reject(_CODES[error.kind], f"{named}: {error}")
    except NotAVideo as refused:
        return Reject("not_a_video", f"{named}: {refused.reason}" if is_address(row.path) else str(refused))
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        return Reject("file_missing", f"{named}: {why}: make the file readable")


def _at_address(address: Address, stored: Any | None) -> dict[str, Any]:
    settings = read_settings(MediaSettings)
    place = place_of(address, settings)
    if isinstance(place, Path):
        return _of_file(str(address), place, stored)
    return _of_object(str(address), place, stored, settings)


def _of_file(uri: str, path: Path, stored: Any | None) -> dict[str, Any]:
    state = FileState.of(path.stat())
    place = {"uri": uri, **asdict(state)}
    if stored is not None and _is_known(uri, path, state, stored):
        return {**place, **_known(stored)}
    return {**place, **_probed(path)}


def _is_known(uri: str, path: Path, state: FileState, stored: Any) -> bool:
    """Whether the file is the one that was probed for the stored video."""
    if stored.uri is None:
        return False
    known = FileState.stored(stored)
    if stored.uri == uri and state.agrees_with(known):
        return True
    # A file that could not be decoded is probed again: perhaps the machine was busy.
    return stored.status != "undecodable" and has_content(path, state, known, bytes(stored.content_sha256))


def _of_object(uri: str, address: Address, stored: Any | None, settings: MediaSettings) -> dict[str, Any]:
    now = Store(settings).look(address)
    if stored is not None and stored.uri == uri and is_same_object(now, FileState.stored(stored)):
        return {name: getattr(stored, name) for name in (*PLACE, *PROBED)}
    with fetched(address, now, settings) as copy:
        place = {"uri": uri, **asdict(FileState(copy.size_bytes, None, None, None, now.etag))}
        if stored is not None and stored.status != "undecodable" and stored.content_sha256 == copy.content:
            return {**place, **_known(stored)}
        return {**place, **_probed(copy.path)}


def _known(stored: Any) -> dict[str, Any]:
    return {name: getattr(stored, name) for name in PROBED}


def _probed(path: Path) -> dict[str, Any]:
    probe = asdict(probe_video(path))
    probe["content_sha256"] = bytes.fromhex(probe["content_sha256"])
    return {name: probe[name] for name in PROBED}


# A segment may end this long after its video: containers round durations, and annotators round times.
SEGMENT_TOLERANCE_S = 1.0
DEFAULT_QA_SYSTEM = "qa"


class TableRow(NamedTuple):
    """A row that is ready to be written to a table of the database."""

    table: str
    columns: dict[str, Any]


Resolved = TableRow | Reject


def no_such(target: str, field: str, key: str) -> Reject:
    """The refusal of a row whose field points to a target, such as a video, that is not in the dataset."""
    return Reject(
        "dangling_reference", f"field '{field}' is {key!r}: there is no such {target}; add it before this row"
    )


def resolve_videos(store: IngestStore, folder: Path, rows: Sequence[VideoRow]) -> list[Resolved]:
    """Rows of table `video`. A file is probed unless it is the file that was probed before."""
    stored = store.videos_before([row.video_id for row in rows])
    resolved: list[Resolved] = []
    for row, media in zip(rows, media_of_rows(folder, rows, stored), strict=True):
        if isinstance(media, Reject):
            resolved.append(media)
            continue
        extra = row.extra if row.note is None else {"note": row.note, **row.extra}
        columns = {
            "dataset_id": store.dataset.dataset_id,
            "shard": store.dataset.shard_of(row.video_id),
            "key": row.video_id,
            **media,
            "extra": extra or None,
            "row_sha256": row.content_sha256,
        }
        resolved.append(TableRow("video", columns))
    return resolved


def resolve_captions(store: IngestStore, _folder: Path, rows: Sequence[CaptionRow]) -> list[Resolved]:
    """Rows of table `reference` for references, and of table `sample` for candidates."""
    videos = store.videos([row.video_id for row in rows])
    taken = {
        "candidate": store.references_before([row.caption_id for row in rows if row.role == "candidate"]),
        "reference": store.captions_before([row.caption_id for row in rows if row.role == "reference"]),
    }
    resolved: list[Resolved] = []
    for row in rows:
        video = videos.get(row.video_id)
        if video is None:
            resolved.append(no_such("video", "video_id", row.video_id))
        elif row.caption_id in taken[row.role]:
            resolved.append(_other_role(row))
        elif fault := _segments_outside(_segments(row), video.duration_s):
            resolved.append(fault)
        elif row.role == "reference":
            resolved.append(TableRow("reference", _reference_columns(store, row, video)))
        else:
            resolved.append(TableRow("sample", _caption_columns(store, row, video)))
    return resolved


def resolve_qa(store: IngestStore, _folder: Path, rows: Sequence[QARow]) -> list[Resolved]:
    """Rows of table `sample`, whose text is question and answer joined by a space (EVQAScore's Concat)."""
    videos = store.videos([row.video_id for row in rows])
    resolved: list[Resolved] = []
    for row in rows:
        video = videos.get(row.video_id)
        if video is None:
            resolved.append(no_such("video", "video_id", row.video_id))
            continue
        columns = {
            **_sample_columns(store, video, row.qa_id, "qa", row.system or DEFAULT_QA_SYSTEM, qa_text(row)),
            "question": row.question,
            "answer": row.answer,
            "segments": None,
            "extra": ({"quality": row.quality, **row.extra} if row.quality else row.extra) or None,
            "row_sha256": row.content_sha256,
        }
        resolved.append(TableRow("sample", columns))
    return resolved


def qa_text(row: QARow) -> str:
    """The text of a question-answer pair as metrics read it."""
    return f"{row.question.strip()} {row.answer.strip()}"


def _reference_columns(store: IngestStore, row: CaptionRow, video: Any) -> dict[str, Any]:
    return {
        "dataset_id": store.dataset.dataset_id,
        "video_id": video.video_id,
        "key": row.caption_id,
        "annotator": row.system,
        "text": row.text,
        "segments": _segments(row),
        "text_sha256": hashlib.sha256(row.text.encode()).digest(),
        "extra": _extra(row),
        "row_sha256": row.content_sha256,
    }


def _caption_columns(store: IngestStore, row: CaptionRow, video: Any) -> dict[str, Any]:
    return {
        **_sample_columns(store, video, row.caption_id, "caption", row.system, row.text),
        "question": None,
        "answer": None,
        "segments": _segments(row),
        "extra": _extra(row),
        "row_sha256": row.content_sha256,
    }


def _extra(row: CaptionRow) -> dict[str, Any] | None:
    return (row.extra if row.parse_error is None else {"parse_error": row.parse_error, **row.extra}) or None


def _sample_columns(store: IngestStore, video: Any, key: str, kind: str, system: str, text: str) -> dict[str, Any]:
    return {
        "dataset_id": store.dataset.dataset_id,
        "shard": video.shard,
        "video_id": video.video_id,
        "key": key,
        "kind": kind,
        "system": system,
        "text": text,
        "text_sha256": hashlib.sha256(text.encode()).digest(),
    }


def _segments(row: CaptionRow) -> list[dict[str, Any]] | None:
    """The segments as plain data."""
    return None if row.segments is None else row.content["segments"]


def _segments_outside(segments: list[dict[str, Any]] | None, duration_s: float | None) -> Reject | None:
    if segments and duration_s is not None:
        last = max(segment["end_s"] for segment in segments)
        if last > duration_s + SEGMENT_TOLERANCE_S:
            reason = f"a segment ends at {last:g} s but the video lasts {duration_s:.2f} s: correct the segment's times"
            return Reject("segment_outside_clip", reason)
    return None


def _other_role(row: CaptionRow) -> Reject:
    other = "candidate" if row.role == "reference" else "reference"
    reason = f"caption_id {row.caption_id!r} is already a {other}: give the {row.role} an id of its own"
    return Reject("duplicate_conflict", reason)
