"""Facts of a dataset for its report: spread of every fact, videos and captions that meet a condition, repeated
texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from db.manifest.datasets import Dataset
from db.reports.histograms import Histogram, load_histogram
from db.schema import sample, text_fact, video, video_fact
from db.schema.facts import VIDEO_FACTS
from db.scores.sample_scores import FACT_COLUMNS, Column
from db.selection.filters import parse_filter

FactSubject = Literal["video", "caption"]
_TABLES: dict[FactSubject, str] = {"video": "described_videos", "caption": "described_captions"}
VIDEO_FACT_NAMES = frozenset(VIDEO_FACTS)


@dataclass(frozen=True, slots=True)
class Extreme:
    """The lowest or highest value of a fact, with key and id (`row_id`) of the video or caption that has it. If several
    have this value, it is the one with the first key.
    """

    value: float
    key: str
    row_id: int


@dataclass(frozen=True, slots=True)
class FactSummary:
    """Median, lowest and highest value and histogram of one fact whose values are numbers. `n` is the number of videos
    or captions that have the fact.
    """

    n: int
    median: float
    least: Extreme
    greatest: Extreme
    histogram: Histogram


def create_fact_tables(connection: Connection, dataset: Dataset) -> dict[FactSubject, int]:
    """Create the temporary tables `described_videos` and `described_captions`, and return {"video": number of rows,
    "caption": number of rows}. They hold the videos and captions of a dataset that have facts of their present content,
    with these facts. Postgres drops the tables when the transaction ends.
    """
    is_present = sa.and_(
        video_fact.c.video_id == video.c.video_id, video_fact.c.content_sha256 == video.c.content_sha256
    )
    videos = (
        sa.select(video.c.video_id.label("row_id"), video.c.key, video_fact.c.signature, *_list_columns("video"))
        .select_from(video.join(video_fact, is_present))
        .where(video.c.dataset_id == dataset.dataset_id, video_fact.c.status == "ok")
    )
    captions = (
        sa.select(
            sample.c.sample_id.label("row_id"),
            sample.c.key,
            sample.c.text_sha256,
            sample.c.video_id,
            *_list_columns("caption"),
        )
        .select_from(
            sample.join(text_fact, text_fact.c.text_sha256 == sample.c.text_sha256).join(
                video, video.c.video_id == sample.c.video_id
            )
        )
        .where(sample.c.dataset_id == dataset.dataset_id, sample.c.kind == "caption")
    )
    for table, query in zip(_TABLES.values(), (videos, captions), strict=True):
        # CREATE TABLE takes no bound parameters.
        written = query.compile(connection, compile_kwargs={"literal_binds": True})
        connection.exec_driver_sql(f"CREATE TEMPORARY TABLE {table} ON COMMIT DROP AS {written}")
        connection.exec_driver_sql(f"ANALYZE {table}")
    return {
        subject: connection.scalar(sa.select(sa.func.count()).select_from(_describe_table(subject))) or 0
        for subject in _TABLES
    }


def load_fact_summary(connection: Connection, fact: str) -> FactSummary | None:
    """Return median, extremes and histogram of a fact whose values are numbers; None if no video or caption has it.
    Reads the tables that `create_fact_tables` made in this transaction.
    """
    table = _describe_table("video" if fact in VIDEO_FACT_NAMES else "caption")
    value = table.c[fact]
    n, median = connection.execute(
        sa.select(sa.func.count(value), sa.func.percentile_cont(0.5).within_group(value))
    ).one()
    if not n:
        return None
    least, greatest = (
        Extreme(*connection.execute(query.order_by(order, sa.collate(table.c.key, "C")).limit(1)).one())
        for query in [sa.select(value, table.c.key, table.c.row_id).where(value.is_not(None))]
        for order in (value, value.desc())
    )
    shown = sa.select(value.label("value"), sa.true().label("kept")).select_from(table)
    return FactSummary(
        n, median, least, greatest, load_histogram(connection, shown, is_whole=isinstance(value.type, sa.Integer))
    )


def list_matches(connection: Connection, subject: FactSubject, condition: str, limit: int) -> tuple[int, list[str]]:
    """Return (number, keys) of the videos or captions whose facts meet a condition: how many there are, and the first
    `limit` of their keys, sorted. `condition` is text in the filter language; raises FilterError if it is wrong or
    names anything but facts of the subject. Reads the tables that `create_fact_tables` made in this transaction.
    """
    table = _describe_table(subject)
    columns = {name: table.c[name] for name in _list_names(subject)}
    return _count_and_list(connection, sa.select(table.c.key).where(parse_filter(condition, columns)), limit)


def count_matching_captions(connection: Connection, condition: str) -> int:
    """Return how many captions meet a condition of the filter language on their facts and on those of their videos. As
    with `select --where`, a comparison with a missing fact is not met. Reads the tables that `create_fact_tables` made
    in this transaction; raises FilterError for a condition on anything but facts.
    """
    captions, videos = _describe_table("caption"), _describe_table("video")
    columns = {name: (videos if name in VIDEO_FACT_NAMES else captions).c[name] for name in FACT_COLUMNS}
    rows = captions.outerjoin(videos, videos.c.row_id == captions.c.video_id)
    query = sa.select(sa.func.count()).select_from(rows).where(parse_filter(condition, columns))
    return connection.scalar(query) or 0


def list_repeated_texts(connection: Connection, limit: int) -> tuple[int, list[str]]:
    """Return (number, keys) of the captions that share their text with another caption of the dataset: how many there
    are, and the first `limit` of their keys, sorted. Reads the tables that `create_fact_tables` made in this
    transaction.
    """
    table = _describe_table("caption")
    n = sa.func.count().over(partition_by=table.c.text_sha256)
    shared = sa.select(table.c.key, n.label("n")).subquery()
    return _count_and_list(connection, sa.select(shared.c.key).where(shared.c.n > 1), limit)


def load_signatures(connection: Connection) -> tuple[list[str], list[bytes]]:
    """Return two lists, keys and signatures of the videos that have a signature, both ordered by key. Reads the table
    that `create_fact_tables` made in this transaction.
    """
    table = _describe_table("video")
    query = sa.select(table.c.key, table.c.signature).where(table.c.signature.is_not(None))
    rows = connection.execute(query.order_by(sa.collate(table.c.key, "C"))).all()
    return [row.key for row in rows], [bytes(row.signature) for row in rows]


def find_commonest_language(connection: Connection) -> str | None:
    """Return the language code that most captions have; None if no caption has one. Reads the table that
    `create_fact_tables` made in this transaction.
    """
    language = _describe_table("caption").c.language
    return connection.scalar(sa.select(sa.func.mode().within_group(language)))


def load_first_captions(connection: Connection, video_ids: Sequence[int]) -> dict[int, int]:
    """Return by video id the id of the video's caption that was stored first, the one with the lowest sample id; a
    video without a caption is left out.
    """
    query = sa.select(sample.c.video_id, sa.func.min(sample.c.sample_id))
    query = query.where(sample.c.kind == "caption", sample.c.video_id.in_(list(video_ids)))
    return {row[0]: row[1] for row in connection.execute(query.group_by(sample.c.video_id))}


def _count_and_list(connection: Connection, keys: sa.Select[tuple[str]], most: int) -> tuple[int, list[str]]:
    n = connection.scalar(sa.select(sa.func.count()).select_from(keys.subquery())) or 0
    (key,) = keys.selected_columns
    return n, list(connection.scalars(keys.order_by(sa.collate(key, "C")).limit(most))) if n else []


def _list_names(subject: FactSubject) -> list[str]:
    return [name for name in FACT_COLUMNS if (name in VIDEO_FACT_NAMES) == (subject == "video")]


def _list_columns(subject: FactSubject) -> list[Column]:
    return [FACT_COLUMNS[name].label(name) for name in _list_names(subject)]


def _describe_table(subject: FactSubject) -> sa.TableClause:
    more_columns: dict[FactSubject, list[sa.ColumnClause[Any]]] = {
        "video": [sa.column("signature", sa.LargeBinary)],
        "caption": [sa.column("text_sha256", sa.LargeBinary), sa.column("video_id", sa.BigInteger)],
    }
    facts = [sa.column(name, FACT_COLUMNS[name].type) for name in _list_names(subject)]
    return sa.table(
        _TABLES[subject], sa.column("row_id", sa.BigInteger), sa.column("key", sa.Text), *more_columns[subject], *facts
    )
