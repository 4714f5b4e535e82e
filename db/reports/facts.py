"""The facts of a dataset for its report: rows of videos and captions, how facts spread, what meets a condition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from db.manifest.datasets import Dataset
from db.reports.histograms import Histogram, bin_values
from db.schema import sample, text_fact, video, video_fact
from db.schema.facts import VIDEO_FACTS
from db.scores.present import FACT_COLUMNS, Column
from db.selection.filters import parse_filter

Of = Literal["video", "caption"]
_TABLES: dict[Of, str] = {"video": "described_videos", "caption": "described_captions"}
OF_VIDEOS = frozenset(VIDEO_FACTS)


@dataclass(frozen=True, slots=True)
class Extreme:
    """The least or the greatest value of a fact, and which video or caption has it; of several the first by its key."""

    value: float
    key: str
    row_id: int


@dataclass(frozen=True, slots=True)
class FactSummary:
    """How a fact with numbers spreads over the n videos or captions that have it."""

    n: int
    median: float
    least: Extreme
    greatest: Extreme
    histogram: Histogram


def collect_facts(connection: Connection, dataset: Dataset) -> dict[Of, int]:
    """Make the temporary tables `described_videos` and `described_captions`; returns their numbers of rows.

    A row is a video or a caption that has facts, those of its present content. Both are gone with the transaction.
    """
    of_content = sa.and_(
        video_fact.c.video_id == video.c.video_id, video_fact.c.content_sha256 == video.c.content_sha256
    )
    videos = (
        sa.select(video.c.video_id.label("row_id"), video.c.key, video_fact.c.signature, *_facts("video"))
        .select_from(video.join(video_fact, of_content))
        .where(video.c.dataset_id == dataset.dataset_id, video_fact.c.status == "ok")
    )
    captions = (
        sa.select(
            sample.c.sample_id.label("row_id"),
            sample.c.key,
            sample.c.text_sha256,
            sample.c.video_id,
            *_facts("caption"),
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
    return {of: connection.scalar(sa.select(sa.func.count()).select_from(_table(of))) or 0 for of in _TABLES}


def summary_of(connection: Connection, fact: str) -> FactSummary | None:
    """How a fact with numbers spreads; None where nothing has it. `collect_facts` must have run."""
    table = _table("video" if fact in OF_VIDEOS else "caption")
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
        n, median, least, greatest, bin_values(connection, shown, is_whole=isinstance(value.type, sa.Integer))
    )


def meeting(connection: Connection, of: Of, condition: str, most: int) -> tuple[int, list[str]]:
    """How many videos or captions meet a condition of the filter language on facts, and the first keys of them.

    Raises FilterError for a condition on anything else.
    """
    table = _table(of)
    columns = {name: table.c[name] for name in _names(of)}
    return _counted(connection, sa.select(table.c.key).where(parse_filter(condition, columns)), most)


def count_captions(connection: Connection, condition: str) -> int:
    """Return how many captions meet a condition of the filter language on their facts and on those of their videos.

    As with `select --where`, a caption without one of the facts does not meet it. `collect_facts` must have run. Raises
    FilterError for a condition on anything else.
    """
    captions, videos = _table("caption"), _table("video")
    columns = {name: (videos if name in OF_VIDEOS else captions).c[name] for name in FACT_COLUMNS}
    rows = captions.outerjoin(videos, videos.c.row_id == captions.c.video_id)
    query = sa.select(sa.func.count()).select_from(rows).where(parse_filter(condition, columns))
    return connection.scalar(query) or 0


def same_texts(connection: Connection, most: int) -> tuple[int, list[str]]:
    """How many captions have the text of another one, and the first keys of them."""
    table = _table("caption")
    n = sa.func.count().over(partition_by=table.c.text_sha256)
    shared = sa.select(table.c.key, n.label("n")).subquery()
    return _counted(connection, sa.select(shared.c.key).where(shared.c.n > 1), most)


def signatures(connection: Connection) -> tuple[list[str], list[bytes]]:
    """The keys and the signatures of the videos that have one, in order of the keys."""
    table = _table("video")
    query = sa.select(table.c.key, table.c.signature).where(table.c.signature.is_not(None))
    rows = connection.execute(query.order_by(sa.collate(table.c.key, "C"))).all()
    return [row.key for row in rows], [bytes(row.signature) for row in rows]


def commonest_language(connection: Connection) -> str | None:
    """The language of most captions."""
    language = _table("caption").c.language
    return connection.scalar(sa.select(sa.func.mode().within_group(language)))


def first_captions(connection: Connection, video_ids: Sequence[int]) -> dict[int, int]:
    """By video the id of its first caption; a video without one is left out."""
    query = sa.select(sample.c.video_id, sa.func.min(sample.c.sample_id))
    query = query.where(sample.c.kind == "caption", sample.c.video_id.in_(list(video_ids)))
    return {row[0]: row[1] for row in connection.execute(query.group_by(sample.c.video_id))}


def _counted(connection: Connection, keys: sa.Select[tuple[str]], most: int) -> tuple[int, list[str]]:
    n = connection.scalar(sa.select(sa.func.count()).select_from(keys.subquery())) or 0
    (key,) = keys.selected_columns
    return n, list(connection.scalars(keys.order_by(sa.collate(key, "C")).limit(most))) if n else []


def _names(of: Of) -> list[str]:
    return [name for name in FACT_COLUMNS if (name in OF_VIDEOS) == (of == "video")]


def _facts(of: Of) -> list[Column]:
    return [FACT_COLUMNS[name].label(name) for name in _names(of)]


def _table(of: Of) -> sa.TableClause:
    own: dict[Of, list[sa.ColumnClause[Any]]] = {
        "video": [sa.column("signature", sa.LargeBinary)],
        "caption": [sa.column("text_sha256", sa.LargeBinary), sa.column("video_id", sa.BigInteger)],
    }
    facts = [sa.column(name, FACT_COLUMNS[name].type) for name in _names(of)]
    return sa.table(_TABLES[of], sa.column("row_id", sa.BigInteger), sa.column("key", sa.Text), *own[of], *facts)
