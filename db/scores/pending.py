"""The samples that a scorer still has to score, with their inputs, and counts of samples by shard and status."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from db.schema import sample, shard, shard_count, video
from db.schema.inputs import Input, build_statement, sort_inputs
from db.sql import read_sql

T = TypeVar("T")
ShardCounts = dict[tuple[int, int], Mapping[str, int]]
"""By (dataset_id, shard), the number of samples by status; statuses without samples are left out."""

# The statuses of samples that are still to be scored.
PENDING_STATUSES = ("unscored", "stale", "failed")


@dataclass(frozen=True, slots=True)
class PendingSample:
    """A sample to be scored, with the inputs that were loaded for it: `sample[REFERENCES]` returns its references.
    question, answer: None for a caption. input_sha256: the digest of those inputs. input_marks: by input name, a few
    digits of its own digest.
    """

    sample_id: int
    dataset: str
    key: str
    kind: str
    system: str
    text: str
    question: str | None
    answer: str | None
    video_id: int
    input_sha256: bytes = b""
    input_marks: Mapping[str, str] = field(default_factory=dict)
    inputs: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, key: Input[T]) -> T:
        value: T = self.inputs[key.name]
        return value


def list_pending_samples(connection: Connection, *, scorer_id: int | None, dataset_id: int, shard: int) -> list[int]:
    """List the ids, ascending, of a shard's samples without a score by this scorer, with a stale score, or with one of
    status "failed". scorer_id: None for a scorer that is not registered yet; then all samples are pending.
    """
    statement = sa.text(read_sql("pending_samples"))
    values = {"scorer_id": scorer_id, "dataset_id": dataset_id, "shard": shard}
    return list(connection.scalars(statement, values))


def list_shard_samples(connection: Connection, dataset_id: int, shard: int) -> list[int]:
    """List the ids of all samples of a shard, ascending."""
    query = sa.select(sample.c.sample_id).where(sample.c.dataset_id == dataset_id, sample.c.shard == shard)
    return list(connection.scalars(query.order_by(sample.c.sample_id)))


def list_samples_of_first_videos(connection: Connection, dataset_id: int, n_videos: int) -> list[int]:
    """List the ids, ascending, of all samples of a dataset's first `n_videos` videos. Videos are ordered by the code
    points of their keys.
    """
    first = sa.select(video.c.video_id).where(video.c.dataset_id == dataset_id)
    first = first.order_by(video.c.key.collate("C")).limit(n_videos)
    query = sa.select(sample.c.sample_id).where(sample.c.video_id.in_(first))
    return list(connection.scalars(query.order_by(sample.c.sample_id)))


def load_shard_digest(connection: Connection, dataset_id: int, shard: int) -> str | None:
    """Return an MD5 digest, as 32 hexadecimal digits, that changes with any sample of a shard and any input of its
    video. None if the shard has no samples.
    """
    query = sa.text(
        "SELECT md5(string_agg(md5(CAST((s.sample_id, s.row_sha256, s.video_id, v.content_sha256, v.references_sha256, "
        "v.reference_segments_digest, v.keypoints_sha256) AS text)), '' ORDER BY s.sample_id)) "
        "FROM sample s JOIN video v USING (video_id) WHERE s.dataset_id = :dataset_id AND s.shard = :shard"
    )
    state: str | None = connection.scalar(query, {"dataset_id": dataset_id, "shard": shard})
    return state


def load_samples(
    connection: Connection, sample_ids: list[int], inputs: Collection[Input[Any]], scorer_id: int | None = None
) -> list[PendingSample]:
    """Load samples with these inputs and a digest of them, ordered by id, all read at one moment; unknown ids are left
    out. scorer_id: the scorer whose keypoint thresholds are read as input THRESHOLDS; None reads none. Raises
    ValueError if `inputs` is empty.
    """
    chosen = sort_inputs(inputs)
    statement = sa.text(build_statement("samples_with_inputs", chosen))
    rows = connection.execute(statement, {"sample_ids": sample_ids, "scorer_id": scorer_id}).mappings()
    return [_build_pending(dict(row), chosen) for row in rows]


def sort_by_video(connection: Connection, sample_ids: Collection[int]) -> list[int]:
    """Return the ids of these samples in the order of their videos, and those of a video ascending; unknown ids are
    left out.
    """
    query = sa.select(sample.c.sample_id).where(sample.c.sample_id == sa.any_(sa.bindparam("sample_ids")))
    ordered = query.order_by(sample.c.video_id, sample.c.sample_id)
    return list(connection.scalars(ordered, {"sample_ids": list(sample_ids)}))


def split_ids(sample_ids: list[int], size: int) -> Iterator[list[int]]:
    """Yield consecutive parts of the list with `size` ids; the last one may be shorter. Yields nothing for an empty
    list.
    """
    for start in range(0, len(sample_ids), size):
        yield sample_ids[start : start + size]


def _build_pending(row: dict[str, Any], inputs: Collection[Input[Any]]) -> PendingSample:
    values = {item.name: item.decode(row.pop(f"input_{item.name}")) for item in inputs}
    digest = bytes(row.pop("input_sha256"))
    return PendingSample(**row, input_sha256=digest, inputs=values)


def load_shard_counts(connection: Connection, scorer_id: int | None, dataset_ids: Iterable[int]) -> ShardCounts:
    """Return {(dataset id, shard): {status: number of samples}} for the shards of these datasets. A status is
    "unscored", "stale", or that of a present score; statuses and shards without samples are left out. scorer_id: None
    for a scorer that is not registered yet; then all samples are unscored.
    """
    is_by_scorer = sa.and_(
        *(shard_count.c[name] == shard.c[name] for name in ("dataset_id", "shard")),
        shard_count.c.scorer_id == scorer_id,
    )
    query = (
        sa.select(shard, shard_count.c.status, shard_count.c.n)
        .outerjoin(shard_count, is_by_scorer)
        .where(shard.c.dataset_id.in_(list(dataset_ids)))
    )
    counts: dict[tuple[int, int], dict[str, int]] = {}
    for row in connection.execute(query):
        statuses = counts.setdefault((row.dataset_id, row.shard), {"unscored": row.n_samples})
        if row.status is not None:
            statuses[row.status] = row.n
            statuses["unscored"] -= row.n
    return {
        place: present
        for place, statuses in counts.items()
        if (present := {status: n for status, n in statuses.items() if n})
    }
