"""The work list: which samples of a shard a scorer still has to score, and what it needs to see of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

_SQL = Path(__file__).parent / "sql"

# What a score can depend on, each as an expression of type bytea over sample s and video v; :scorer_id is the scorer.
# Texts are hashed one by one, so that bytes never move from one part to the next unnoticed.
INPUT_DIGESTS = {
    "text": "s.text_sha256",
    "references": (
        "COALESCE((SELECT sha256(string_agg(sha256(convert_to(r.key, 'UTF8')) || r.text_sha256, '' "
        "ORDER BY r.key COLLATE \"C\")) FROM reference r WHERE r.video_id = s.video_id), '')"
    ),
    "video": "COALESCE(v.content_sha256, '')",
    "segments": (
        "sha256(convert_to(COALESCE(CAST(s.segments AS text), ''), 'UTF8')) || "
        "COALESCE((SELECT string_agg(sha256(convert_to(r.key, 'UTF8')) || "
        "sha256(convert_to(COALESCE(CAST(r.segments AS text), ''), 'UTF8')), '' "
        "ORDER BY r.key COLLATE \"C\") FROM reference r WHERE r.video_id = s.video_id), '')"
    ),
    "keypoints": (
        "COALESCE((SELECT string_agg(sha256(convert_to(k.key, 'UTF8')) || sha256(convert_to(k.dimension, 'UTF8')) || "
        "sha256(convert_to(k.text, 'UTF8')) || "
        "sha256(convert_to(COALESCE(CAST(k.segment_index AS text), ''), 'UTF8')), '' "
        "ORDER BY k.key COLLATE \"C\") FROM keypoint k WHERE k.video_id = s.video_id), '')"
    ),
    "thresholds": (
        "COALESCE((SELECT string_agg(sha256(convert_to(t.dimension, 'UTF8')) || float8send(t.value), '' "
        'ORDER BY t.dimension COLLATE "C") FROM threshold t WHERE t.scorer_id = CAST(:scorer_id AS bigint) '
        "AND t.dataset_id = s.dataset_id AND t.scope = 'dataset' AND t.method = 'keypoint_labels'), '')"
    ),
}


@dataclass(frozen=True, slots=True)
class TimedText:
    """A stretch of a caption, in seconds; without a text it says only when something happens."""

    start_s: float
    end_s: float
    text: str | None


@dataclass(frozen=True, slots=True)
class ReferenceText:
    """A reference of a sample's video; segments are () where it has none or the scorer does not look at them."""

    key: str
    text: str
    segments: tuple[TimedText, ...] = ()


@dataclass(frozen=True, slots=True)
class KeypointText:
    """A keypoint of a sample's video; segment_index counts the segments of the reference from 0."""

    keypoint_id: int
    key: str
    dimension: str
    text: str
    segment_index: int | None


@dataclass(frozen=True, slots=True)
class PendingSample:
    """A sample that is to be scored, with all that scorers look at.

    References, segments and keypoints are (), thresholds {}, where there are none and where the scorer's inputs do not
    name them. thresholds: those in force for this scorer, by dimension. parse_error: why the caption has no segments
    although its system was to write some.
    """

    sample_id: int
    key: str
    kind: str
    system: str
    text: str
    question: str | None
    answer: str | None
    video_id: int
    video_status: str
    video_error: str | None
    input_sha256: bytes
    references: tuple[ReferenceText, ...] = ()
    segments: tuple[TimedText, ...] = ()
    keypoints: tuple[KeypointText, ...] = ()
    thresholds: Mapping[str, float] = field(default_factory=dict)
    parse_error: str | None = None


def pending_samples(
    connection: Connection, *, scorer_id: int | None, dataset_id: int, shard: int, inputs: Collection[str]
) -> list[int]:
    """Ids of the samples of a shard that lack a score of this scorer, changed since it, or failed; ascending.

    None is a scorer that is not registered yet: it lacks every score.
    """
    statement = sa.text(with_input_digest("pending_samples", inputs))
    values = {"scorer_id": scorer_id, "dataset_id": dataset_id, "shard": shard}
    return list(connection.scalars(statement, values))


def load_samples(
    connection: Connection, sample_ids: list[int], inputs: Collection[str], scorer_id: int | None = None
) -> list[PendingSample]:
    """The samples with what `inputs` name of them, and the digest of it as of the same snapshot.

    `scorer_id` counts for the input "thresholds" alone; None has no thresholds. Input "segments" brings the texts of
    the references along, which its digest leaves out.
    """
    statement = sa.text(with_input_digest("samples_with_inputs", inputs))
    values = {"sample_ids": sample_ids, "inputs": sorted(inputs), "scorer_id": scorer_id}
    return [_pending(row) for row in connection.execute(statement, values).mappings()]


def batches(sample_ids: list[int], size: int) -> Iterator[list[int]]:
    """Consecutive runs of at most `size` ids."""
    for start in range(0, len(sample_ids), size):
        yield sample_ids[start : start + size]


def with_input_digest(name: str, inputs: Iterable[str]) -> str:
    """The statement of db/sql/NAME.sql with the digest over `inputs` put in its place; it needs a value for scorer_id.

    Raises ValueError for an input that does not exist and where there is none.
    """
    chosen = sorted(inputs)
    unknown = [name for name in chosen if name not in INPUT_DIGESTS]
    if unknown or not chosen:
        raise ValueError(f"a scorer's inputs must be some of {sorted(INPUT_DIGESTS)}, got {chosen}")
    # Each part is hashed on its own, so that bytes never move from one part to the next unnoticed.
    parts = " || ".join(f"sha256({INPUT_DIGESTS[name]})" for name in chosen)
    return (_SQL / f"{name}.sql").read_text().replace("{input_sha256}", f"sha256({parts})")


def _pending(row: Any) -> PendingSample:
    fields = {**row, "input_sha256": bytes(row["input_sha256"])}
    fields["references"] = tuple(
        ReferenceText(reference["key"], reference["text"], _timed(reference["segments"]))
        for reference in row["references"] or ()
    )
    fields["segments"] = _timed(row["segments"])
    fields["keypoints"] = tuple(KeypointText(**keypoint) for keypoint in row["keypoints"] or ())
    fields["thresholds"] = {name: float(value) for name, value in (row["thresholds"] or {}).items()}
    return PendingSample(**fields)


def _timed(segments: list[dict[str, Any]] | None) -> tuple[TimedText, ...]:
    return tuple(
        TimedText(float(segment["start_s"]), float(segment["end_s"]), segment.get("text")) for segment in segments or ()
    )
