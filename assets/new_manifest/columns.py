"""Which columns of a table, or fields of a JSON object, hold the video, the caption and what is known about them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from assets.ingest import strict_json
from assets.ingest.hygiene import is_blank
from assets.ingest.rows import CaptionRow
from assets.new_manifest.found import Caption, Findings, NoManifest

# Names in the order of trust; small and capital letters are alike.
VIDEO_NAMES = (
    "video", "video_path", "video_file", "path", "file_name", "filename", "file_path", "filepath", "file",
    "clip", "clip_path", "mp4", "video_url", "url", "video_id", "videoid",
)  # fmt: skip
CAPTION_NAMES = ("caption", "captions", "text", "description", "caption_text", "txt", "sentence")
REFERENCE_NAMES = ("reference", "references", "reference_caption", "ground_truth")
SYSTEM_NAMES = ("system", "model", "captioner")
_OWN_FIELDS = frozenset(CaptionRow.model_fields)


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns by their meaning; None where a table has no such column."""

    video: str | None
    caption: str | None
    reference: str | None = None
    system: str | None = None
    role: str | None = None
    video_id: str | None = None
    caption_id: str | None = None
    segments: str | None = None

    @property
    def taken(self) -> dict[str, str]:
        """The meaning by column."""
        return {getattr(self, meaning): meaning for meaning in self.__slots__ if getattr(self, meaning)}

    @property
    def are_complete(self) -> bool:
        """Whether a table has a video and a text about it."""
        return self.video is not None and (self.caption is not None or self.reference is not None)

    def sentence(self) -> str:
        """The guess for people."""
        return ", ".join(f"{meaning} in column {column!r}" for column, meaning in self.taken.items())


def guess_columns(names: Collection[str], video: str | None = None, caption: str | None = None) -> Columns:
    """The columns by their names. video, caption: what the user says these columns are called.

    >>> guess_columns(["Video", "caption", "fps"]).sentence()
    "video in column 'Video', caption in column 'caption'"
    """
    videos, captions = (video,) if video else VIDEO_NAMES, (caption,) if caption else CAPTION_NAMES
    chosen = _named(names, videos)
    video_id = _named(names, ("video_id", "videoid"))
    return Columns(
        video=chosen,
        caption=_named(names, captions),
        reference=_named(names, REFERENCE_NAMES),
        system=_named(names, SYSTEM_NAMES),
        role=_named(names, ("role",)),
        video_id=video_id if video_id != chosen else None,
        caption_id=_named(names, ("caption_id",)),
        segments=_named(names, ("segments",)),
    )


def require_columns(where: str, names: Collection[str], columns: Columns) -> None:
    """Raise NoManifest, which says how to name the column, unless a table has both a video and a text about it."""
    shown = ", ".join(repr(name) for name in names)
    if columns.video is None:
        raise NoManifest(f"{where}: which column holds the videos? It has {shown}: name it with --video-column")
    if columns.caption is None and columns.reference is None:
        raise NoManifest(f"{where}: which column holds the captions? It has {shown}: name it with --caption-column")


def captions_in(fields: Mapping[str, Any], columns: Columns, where: str, findings: Findings) -> tuple[Caption, ...]:
    """The captions of a row: one for each text in its caption and its reference columns."""
    extra = fields_of_its_own(fields, columns, findings)
    role = (_text(fields, columns.role) or "").strip().lower()
    segments = fields.get(columns.segments) if columns.segments else None
    texts = _texts(fields, columns.caption)
    references = [Caption(text, "reference") for text in _texts(fields, columns.reference)]
    if columns.caption and not texts:
        findings.leave_out("a row whose caption has no text", where)
    own = [
        Caption(
            text,
            "reference" if role == "reference" else "candidate",
            _text(fields, columns.system),
            _text(fields, columns.caption_id),
            segments if isinstance(segments, list) else None,
            extra,
        )
        for text in texts
    ]
    return (*own, *references)


def _texts(fields: Mapping[str, Any], column: str | None) -> list[str]:
    """The texts with a visible character in a cell, which may hold one text or a list of them."""
    value = fields.get(column) if column else None
    if isinstance(value, str) and value.startswith("["):
        # A cell of CSV has no lists of its own.
        parsed = strict_json.parse(value)
        value = parsed if isinstance(parsed, list) else value
    each = value if isinstance(value, list) else [value]
    return [text.strip() for text in each if isinstance(text, str) and not is_blank(text)]


def fields_of_its_own(fields: Mapping[str, Any], columns: Columns, findings: Findings) -> dict[str, Any]:
    """Every other field, unchanged; not those whose name means something else in a manifest."""
    kept = {}
    for name, value in fields.items():
        if name in columns.taken or value is None:
            continue
        if name in _OWN_FIELDS:
            findings.guess(f"column {name!r} is left out: a manifest has a field of this name with another meaning")
        else:
            kept[name] = value
    return kept


def _text(fields: Mapping[str, Any], column: str | None) -> str | None:
    value = fields.get(column) if column else None
    return None if value is None else str(value)


def _named(names: Collection[str], wanted: Collection[str]) -> str | None:
    by_name = {name.strip().lower(): name for name in names}
    return next((by_name[name.lower()] for name in wanted if name.lower() in by_name), None)
