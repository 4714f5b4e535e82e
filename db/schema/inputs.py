"""Inputs: everything that a score can depend on. A record states how an input is digested and how it is read.

Triggers keep digests of references and keypoints on their video, and digests of questions, answers and times are
columns that Postgres computes with the sample. So a comparison reads stored bytes instead of hashing all texts again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Generic, TypeVar

from db.sql import read_sql

T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class TimedText:
    """A part of a caption with its start and end in seconds from the beginning of the video; `text` is None if only the
    times are known.
    """

    start_s: float
    end_s: float
    text: str | None


@dataclass(frozen=True, slots=True)
class ReferenceText:
    """A reference of a sample's video: its key and text."""

    key: str
    text: str


@dataclass(frozen=True, slots=True)
class VideoState:
    """The status that ingest gave a sample's video: ok, damaged, undecodable or text_only. `error` is the reason if the
    file does not decode from end to end, else None.
    """

    status: str
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Segments:
    """The timed parts of a caption, and those of the references of its video, a tuple for every reference, ordered by
    the references' keys. A text without times has an empty tuple. `parse_error` is why the caption has no times
    although its system was asked for them; else None.
    """

    caption: tuple[TimedText, ...] = ()
    references: tuple[tuple[TimedText, ...], ...] = ()
    parse_error: str | None = None


@dataclass(frozen=True, slots=True)
class KeypointText:
    """A keypoint of a sample's video. `dimension` is the group of keypoints that it belongs to; `segment_index` is its
    timed segment of the reference, from 0, or None.
    """

    keypoint_id: int
    key: str
    dimension: str
    text: str
    segment_index: int | None


@dataclass(frozen=True, eq=False)
class Input(Generic[T_co]):
    """A kind of data that scores can depend on, such as the references. `digest` is an SQL expression that changes with
    the data, `value` an SQL expression that reads it, and `decode` makes Python objects of that value. `label` is the
    input's name in sentences.

    digest: 32 bytes, over sample s and video v. value: of type jsonb, over s and v. In both expressions `{scorer_id}`
    is replaced by the scorer. tables: what the digest reads in addition to columns of s and v and the thresholds in
    force; triggers on them then notice a change. Rows of a table with a column sample_id, video_id or dataset_id
    concern these samples, and rows of another table concern all.
    """

    name: str
    label: str
    digest: str
    value: str
    decode: Callable[[Any], T_co]
    tables: tuple[str, ...] = ()


def _parse_timed_texts(segments: list[dict[str, Any]] | None) -> tuple[TimedText, ...]:
    return tuple(
        TimedText(float(segment["start_s"]), float(segment["end_s"]), segment.get("text")) for segment in segments or ()
    )


def _parse_segments(value: Mapping[str, Any]) -> Segments:
    references = tuple(_parse_timed_texts(segments) for segments in value["references"] or ())
    return Segments(_parse_timed_texts(value["caption"]), references, value["parse_error"])


# Every sample has the caption's text, or question and answer. They are hashed separately, so that a word that moves
# from the question to the answer is a change.
TEXT: Input[None] = Input(
    "text",
    "text",
    "COALESCE(s.pair_sha256, sha256(s.text_sha256))",
    "NULL::jsonb",
    lambda _: None,
)
REFERENCES: Input[tuple[ReferenceText, ...]] = Input(
    "references",
    "reference",
    "sha256(COALESCE(v.references_sha256, ''))",
    "(SELECT jsonb_agg(jsonb_build_object('key', r.key, 'text', r.text) ORDER BY r.key COLLATE \"C\") "
    "FROM reference r WHERE r.video_id = s.video_id)",
    lambda rows: tuple(ReferenceText(**row) for row in rows or ()),
)
VIDEO: Input[VideoState] = Input(
    "video",
    "video",
    "sha256(COALESCE(v.content_sha256, ''))",
    "jsonb_build_object('status', v.status, 'error', v.error)",
    lambda state: VideoState(**state),
)
SEGMENTS: Input[Segments] = Input(
    "segments",
    "time",
    "sha256(COALESCE(s.segments_sha256, sha256('')) "
    "|| COALESCE(v.reference_segments_digest, '') "
    "|| convert_to(COALESCE(s.extra->>'parse_error', ''), 'UTF8'))",
    "jsonb_build_object('caption', s.segments, 'parse_error', s.extra->>'parse_error', 'references', "
    '(SELECT jsonb_agg(r.segments ORDER BY r.key COLLATE "C") FROM reference r WHERE r.video_id = s.video_id))',
    _parse_segments,
)
KEYPOINTS: Input[tuple[KeypointText, ...]] = Input(
    "keypoints",
    "keypoint",
    "COALESCE(v.keypoints_sha256, sha256(''))",
    "(SELECT jsonb_agg(jsonb_build_object('keypoint_id', k.keypoint_id, 'key', k.key, 'dimension', k.dimension, "
    "'text', k.text, 'segment_index', k.segment_index) ORDER BY k.key COLLATE \"C\") "
    "FROM keypoint k WHERE k.video_id = s.video_id)",
    lambda rows: tuple(KeypointText(**row) for row in rows or ()),
)
THRESHOLDS: Input[dict[str, float]] = Input(
    "thresholds",
    "threshold",
    "sha256(COALESCE((SELECT string_agg(sha256(convert_to(t.dimension, 'UTF8')) || float8send(t.threshold), '' "
    'ORDER BY t.dimension COLLATE "C") FROM threshold_in_force t '
    "WHERE t.scorer_id = {scorer_id} AND t.dataset_id = s.dataset_id), ''))",
    "(SELECT jsonb_object_agg(t.dimension, t.threshold) FROM threshold_in_force t "
    "WHERE t.scorer_id = {scorer_id} AND t.dataset_id = s.dataset_id)",
    lambda by_dimension: {name: float(value) for name, value in (by_dimension or {}).items()},
)


DRAW_NAME = "draw"
"""The name of the input that draws decide."""
NOT_DRAWN_DIGEST = "sha256('not drawn')"
"""The SQL of this input's digest for a sample that no draw has reached."""


def build_draw_input(metric: str) -> Input[bool]:
    """Return the input of a metric that is computed only for drawn samples: True for a sample that a draw of the metric
    reached, and for every sample of a dataset without a draw of the metric. metric: never a user's text.

    A change of table `sample_draw` marks no score: the first draw of a dataset also keeps all samples with a score.
    """
    is_asked = (
        f"(EXISTS (SELECT FROM drawn_sample a WHERE a.sample_id = s.sample_id AND a.metric = '{metric}') OR "
        f"NOT EXISTS (SELECT FROM sample_draw b WHERE b.dataset_id = s.dataset_id AND b.metric = '{metric}'))"
    )
    digest = f"CASE WHEN {is_asked} THEN sha256('asked') ELSE {NOT_DRAWN_DIGEST} END"
    return Input(DRAW_NAME, "draw", digest, f"to_jsonb({is_asked})", bool, ("drawn_sample",))


def sort_inputs(inputs: Collection[Input[Any]]) -> list[Input[Any]]:
    """Return the inputs sorted by name, the order in which digests combine them. Raises ValueError if there are none,
    or if two have the same name.
    """
    ordered = sorted(inputs, key=lambda item: item.name)
    names = [item.name for item in ordered]
    if not names:
        raise ValueError("a score has no inputs: give one")
    if repeated := [name for name, following in pairwise(names) if name == following]:
        raise ValueError(f"two inputs are named {repeated[0]!r}: give each its own name")
    return ordered


def build_digest_sql(inputs: Collection[Input[Any]], scorer_id: str = "CAST(:scorer_id AS bigint)") -> str:
    """Return an SQL expression that computes one digest of 32 bytes over all inputs of sample s and its video v.
    `scorer_id` is an SQL expression for the scorer's id. Raises ValueError without an input, or if two have the same
    name.

    Every part has 32 bytes, so that bytes never move from one part to the next unnoticed.
    """
    parts = " || ".join(item.digest.replace("{scorer_id}", scorer_id) for item in sort_inputs(inputs))
    return f"sha256({parts})"


def build_marks_sql(inputs: Collection[Input[Any]], scorer_id: str = "CAST(:scorer_id AS bigint)") -> str:
    """Return an SQL expression that computes a jsonb object: by name of an input of sample s and video v, the first 8
    hexadecimal digits of its digest. Comparing two such objects shows which input changed. `scorer_id` is an SQL
    expression for the scorer's id.
    """
    pairs = ", ".join(
        f"'{item.name}', left(encode({item.digest.replace('{scorer_id}', scorer_id)}, 'hex'), 8)"
        for item in sort_inputs(inputs)
    )
    return f"jsonb_build_object({pairs})"


def build_statement(name: str, inputs: Collection[Input[Any]]) -> str:
    """Read the statement in db/sql/NAME.sql, and return it with its placeholders filled for these inputs.
    {input_sha256} becomes their digest, {input_marks} their marks, and {values} a column `input_NAME` for every input.
    The statement must call samples s and videos v.

    The text put in is ours, never user input.
    """
    values = "".join(
        f",\n       {item.value.replace('{scorer_id}', 'CAST(:scorer_id AS bigint)')} AS input_{item.name}"
        for item in sort_inputs(inputs)
    )
    statement = read_sql(name)
    for placeholder, text in (
        ("{input_sha256}", build_digest_sql(inputs)),
        ("{input_marks}", build_marks_sql(inputs)),
        ("{values}", values),
    ):
        statement = statement.replace(placeholder, text)
    return statement
