"""Facts about texts and videos: which are still missing, storing them, and their quantiles over a dataset."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from typing import Any, NamedTuple

import psycopg
import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from db.evidence.frames import Status, StoredVideo
from db.schema import sample, text_fact, video, video_fact
from db.schema.facts import FACTS_BY_MODELS, TEXT_FACTS, VIDEO_FACTS
from db.scores.sample_scores import FACT_COLUMNS, Column, is_number_column
from db.server.bulk import upsert
from db.server.engine import open_psycopg_transaction
from db.server.locking import lock_ids_for_copy

# The videos `v` of a dataset without samples, with their present facts `f`.
_LONE_VIDEOS = """
    FROM video v
    JOIN dataset d USING (dataset_id)
    LEFT JOIN video_fact f ON f.video_id = v.video_id AND f.content_sha256 = v.content_sha256
    WHERE d.name = :dataset AND NOT EXISTS (SELECT FROM sample s WHERE s.dataset_id = d.dataset_id)
"""


class FactSpread(NamedTuple):
    """The spread of one fact over the `n` samples of a dataset that have it; in a dataset without samples, over its
    videos. A fact that is a number has a lowest, median and highest value, and `commonest` is None. Another fact, such
    as the language, has only its commonest value. All four are None if n is 0.
    """

    fact: str
    n: int
    least: float | None
    median: float | None
    greatest: float | None
    commonest: str | None


def list_undescribed_texts(
    connection: Connection, rule: str, dataset_id: int, shard: int, limit: int
) -> dict[bytes, str]:
    """Return {SHA-256 of the text: text} of distinct texts of a shard's samples that have no facts by these rules; {}
    if none is left. rule: the version of the rules for text facts. At most `limit` texts are returned, in the order of
    their hashes.
    """
    query = (
        sa.select(sample.c.text_sha256, sa.func.min(sample.c.text).label("text"))
        .outerjoin(text_fact, text_fact.c.text_sha256 == sample.c.text_sha256)
        .where(sample.c.dataset_id == dataset_id, sample.c.shard == shard)
        .where(text_fact.c.rule.is_distinct_from(rule))
        .group_by(sample.c.text_sha256)
        .order_by(sample.c.text_sha256)
        .limit(limit)
    )
    return {bytes(row.text_sha256): row.text for row in connection.execute(query)}


def store_text_facts(engine: Engine, rule: str, facts: Mapping[bytes, Mapping[str, Any]]) -> None:
    """Store the facts of texts in one transaction, in place of older ones of the same texts. rule: the version of the
    rules that made them. facts: by SHA-256 of the text, the values of all TEXT_FACTS by name.
    """
    columns = ["rule", *TEXT_FACTS]
    rows = [(key, rule, *(values[name] for name in TEXT_FACTS)) for key, values in facts.items()]
    with open_psycopg_transaction(engine) as connection:
        upsert(connection, text_fact, ["text_sha256", *columns], rows, compare=columns, touch=["described_at"])


class VideoFacts(NamedTuple):
    """The measurement of one video file. facts: values of VIDEO_FACTS and "signature" by name; empty unless the status
    is "ok", and without those that were not measured. error: the reason for a status of "unreadable" or "failed".
    content_sha256: the digest of the measured file.
    """

    video_id: int
    content_sha256: bytes
    facts: Mapping[str, Any]
    status: Status = "ok"
    error: str | None = None


def list_unmeasured_videos(
    connection: Connection, rule: str, models: str | None, dataset_id: int, shard: int
) -> list[StoredVideo]:
    """List the decodable videos of a shard, by id, that have no facts of their present file by these rules and models.
    A video whose measurement failed is listed again. rule: the version of the rules for video facts. models: the models
    behind FACTS_BY_MODELS; None if there are none, and then facts made with any models count, too.
    """
    columns = [video.c[name.name] for name in fields(StoredVideo)]
    query = _select_unmeasured(columns, rule, models).where(video.c.dataset_id == dataset_id, video.c.shard == shard)
    rows = connection.execute(query.order_by(video.c.video_id)).mappings()
    return [StoredVideo(**{**row, "content_sha256": bytes(row["content_sha256"])}) for row in rows]


def count_unmeasured(connection: Connection, rule: str, models: str | None, dataset_id: int) -> int:
    """Count the videos that `list_unmeasured_videos` would list for all shards of a dataset."""
    query = _select_unmeasured([sa.func.count()], rule, models).where(video.c.dataset_id == dataset_id)
    return connection.scalar(query) or 0


def find_unmeasured_videos(
    connection: Connection, rule: str, models: str | None, video_ids: Collection[int]
) -> set[int]:
    """Return those ids of the given videos that `list_unmeasured_videos` would list for their shards."""
    query = _select_unmeasured([video.c.video_id], rule, models).where(video.c.video_id == sa.func.any(list(video_ids)))
    return set(connection.scalars(query))


def _select_unmeasured(columns: Sequence[Column], rule: str, models: str | None) -> sa.Select[Any]:
    """Select columns of the decodable videos that have no facts of their present file by these rules and models."""
    is_done = sa.and_(
        video_fact.c.video_id == video.c.video_id,
        video_fact.c.content_sha256 == video.c.content_sha256,
        video_fact.c.rule == rule,
        video_fact.c.status != "failed",
        sa.true() if models is None else video_fact.c.models == models,
    )
    return (
        sa.select(*columns)
        .outerjoin(video_fact, is_done)
        .where(video.c.status.in_(["ok", "damaged"]), video_fact.c.video_id.is_(None))
    )


def store_video_facts(engine: Engine, rule: str, models: str | None, videos: Sequence[VideoFacts]) -> None:
    """Store the measurements of videos in one transaction, in place of older ones; a video deleted meanwhile is left
    out. rule: the version of the rules that measured them. models: the models behind FACTS_BY_MODELS; None if these
    were not measured: then older ones of the same file stay, unless it is unreadable now.
    """
    measured = [*VIDEO_FACTS, "signature"]
    columns = ["content_sha256", "rule", "models", "status", "error", *measured]
    with open_psycopg_transaction(engine) as connection:
        alive = lock_ids_for_copy(connection, video.c.video_id, [facts.video_id for facts in videos], is_exclusive=True)
        kept = {} if models else _load_facts_by_models(connection, alive)
        rows = []
        for one in videos:
            if one.video_id in alive:
                by, facts = models, one.facts
                earlier = kept.get((one.video_id, one.content_sha256))
                if earlier and one.status != "unreadable":
                    by, facts = earlier[0], {**facts, **earlier[1]}
                values = map(facts.get, measured)
                rows.append((one.video_id, one.content_sha256, rule, by, one.status, one.error, *values))
        upsert(connection, video_fact, ["video_id", *columns], rows, compare=columns, touch=["measured_at"])


def list_measurement_errors(connection: Connection, dataset: str) -> list[str]:
    """List why videos of the dataset of this name have no facts though they were measured: an error for every such
    video, by key. [] if there is no such dataset.
    """
    query = (
        "SELECT f.error FROM video_fact f JOIN video v USING (video_id, content_sha256) "
        "JOIN dataset d USING (dataset_id) WHERE d.name = :dataset AND f.status <> 'ok' ORDER BY v.key COLLATE \"C\""
    )
    return list(connection.scalars(sa.text(query), {"dataset": dataset}))


def _load_facts_by_models(
    connection: psycopg.Connection[Any], video_ids: Collection[int]
) -> dict[tuple[int, bytes], tuple[str, dict[str, Any]]]:
    """Return the models and the facts that they measured by (video id, digest of the measured file)."""
    names = ", ".join(FACTS_BY_MODELS)
    query = (
        f"SELECT video_id, content_sha256, models, {names} FROM video_fact "
        f"WHERE video_id = ANY(%s) AND models IS NOT NULL AND num_nonnulls({names}) > 0"
    )
    rows = connection.execute(query.encode(), [list(video_ids)])
    return {(key, digest): (by, dict(zip(FACTS_BY_MODELS, values, strict=True))) for key, digest, by, *values in rows}


def load_fact_spreads(connection: Connection, dataset: str) -> list[FactSpread]:
    """Return one spread per fact over all samples of the dataset of this name, in the order of FACT_COLUMNS. A fact of
    a video counts once for every sample of that video; in a dataset without samples, once. Runs one query per fact.
    """
    return [_load_spread(connection, dataset, name) for name in FACT_COLUMNS]


def load_first_samples(
    connection: Connection, dataset: str, columns: Sequence[str], limit: int
) -> list[dict[str, Any]]:
    """Load the first `limit` samples of the dataset of this name, ordered by key. Every dict has the key "sample", for
    the sample's key, and the given columns of view sample_scores. [] if there is no such dataset.
    """
    names = ", ".join(["sample", *columns])
    query = sa.text(
        f'SELECT {names} FROM sample_scores WHERE dataset = :dataset ORDER BY sample COLLATE "C" LIMIT :most'
    )
    return [dict(row) for row in connection.execute(query, {"dataset": dataset, "most": limit}).mappings()]


def load_first_videos(connection: Connection, dataset: str, columns: Sequence[str], limit: int) -> list[dict[str, Any]]:
    """Load the first `limit` videos of the dataset of this name, ordered by key. Every dict has the video's key as
    "video", its video_id, its status as "video_status", its content_sha256, and the facts in `columns`. [] if there is
    no such dataset, or if it has samples.
    """
    own = ("v.key AS video", "v.video_id", "v.status AS video_status", "v.content_sha256")
    names = ", ".join([*own, *(f"f.{name}" for name in columns)])
    query = sa.text(f'SELECT {names} {_LONE_VIDEOS} ORDER BY v.key COLLATE "C" LIMIT :most')
    return [dict(row) for row in connection.execute(query, {"dataset": dataset, "most": limit}).mappings()]


def load_facts(connection: Connection, sample_ids: Sequence[int]) -> dict[int, dict[str, Any]]:
    """Load the facts of samples and of their videos as {sample id: {fact: value}}. A fact without a value is left out,
    and so is an unknown id.
    """
    names = ", ".join(FACT_COLUMNS)
    query = sa.text(f"SELECT sample_id, {names} FROM sample_scores WHERE sample_id = ANY(:ids)")
    rows = connection.execute(query, {"ids": list(sample_ids)}).mappings()
    return {row["sample_id"]: {name: row[name] for name in FACT_COLUMNS if row[name] is not None} for row in rows}


def _load_spread(connection: Connection, dataset: str, fact: str) -> FactSpread:
    summary = (
        "percentile_cont(ARRAY[0, 0.5, 1]::float8[]) WITHIN GROUP (ORDER BY CAST({0} AS float8)), NULL"
        if is_number_column(FACT_COLUMNS[fact])
        else "NULL, mode() WITHIN GROUP (ORDER BY CAST({0} AS text))"
    ).format(fact)
    values = f"SELECT {fact} FROM sample_scores WHERE dataset = :dataset"
    if fact in VIDEO_FACTS:
        values += f" UNION ALL SELECT f.{fact} {_LONE_VIDEOS}"
    query = sa.text(f"SELECT count({fact}), {summary} FROM ({values}) facts")
    n, quantiles, commonest = connection.execute(query, {"dataset": dataset}).one()
    least, median, greatest = quantiles or (None, None, None)
    return FactSpread(fact, n, least, median, greatest, commonest)
