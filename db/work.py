"""The work list: which samples of a shard a scorer still has to score, and what it needs to see of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

_SQL = Path(__file__).parent / "sql"

# What a score can depend on, each as an expression of type bytea over sample s and video v.
INPUT_DIGESTS = {
    "text": "s.text_sha256",
    "references": (
        "COALESCE((SELECT sha256(string_agg(sha256(convert_to(r.key, 'UTF8')) || r.text_sha256, '' "
        "ORDER BY r.key COLLATE \"C\")) FROM reference r WHERE r.video_id = s.video_id), '')"
    ),
    "video": "COALESCE(v.content_sha256, '')",
}


@dataclass(frozen=True, slots=True)
class ReferenceText:
    """A reference of a sample's video."""

    key: str
    text: str


@dataclass(frozen=True, slots=True)
class PendingSample:
    """A sample that is to be scored, with all that scorers look at."""

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
    references: tuple[ReferenceText, ...]


def pending_samples(
    connection: Connection, *, scorer_id: int | None, dataset_id: int, shard: int, inputs: Collection[str]
) -> list[int]:
    """Ids of the samples of a shard that lack a score of this scorer, changed since it, or failed; ascending.

    None is a scorer that is not registered yet: it lacks every score.
    """
    statement = sa.text(with_input_digest("pending_samples", inputs))
    values = {"scorer_id": scorer_id, "dataset_id": dataset_id, "shard": shard}
    return list(connection.scalars(statement, values))


def load_samples(connection: Connection, sample_ids: list[int], inputs: Collection[str]) -> list[PendingSample]:
    """The samples with their references, and the digest of `inputs` as of the same snapshot."""
    statement = sa.text(with_input_digest("samples_with_inputs", inputs))
    return [_pending(row) for row in connection.execute(statement, {"sample_ids": sample_ids}).mappings()]


def batches(sample_ids: list[int], size: int) -> Iterator[list[int]]:
    """Consecutive runs of at most `size` ids."""
    for start in range(0, len(sample_ids), size):
        yield sample_ids[start : start + size]


def _pending(row: Any) -> PendingSample:
    fields = {**row, "input_sha256": bytes(row["input_sha256"])}
    fields["references"] = tuple(ReferenceText(**reference) for reference in row["references"])
    return PendingSample(**fields)


def with_input_digest(name: str, inputs: Iterable[str]) -> str:
    """The statement of db/sql/NAME.sql with the digest over `inputs` put in its place."""
    chosen = sorted(inputs)
    unknown = [name for name in chosen if name not in INPUT_DIGESTS]
    if unknown or not chosen:
        raise ValueError(f"a scorer's inputs must be some of {sorted(INPUT_DIGESTS)}, got {chosen}")
    # Each part is hashed on its own, so that bytes never move from one part to the next unnoticed.
    parts = " || ".join(f"sha256({INPUT_DIGESTS[name]})" for name in chosen)
    return (_SQL / f"{name}.sql").read_text().replace("{input_sha256}", f"sha256({parts})")
