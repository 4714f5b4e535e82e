"""Counts and quantiles of a dataset for its report and its summary."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from db.evidence.verdicts import MANIFEST_LABEL_SOURCE
from db.reports.judgements import current_label
from db.schema import ingest_reject, sample, video

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True, slots=True)
class Spread:
    """Quantiles of the `n` defined values of one group, such as a system or a shard. They are the 5, 25, 50, 75 and 95
    % quantiles (QUANTILES), in this order.
    """

    group: str
    n: int
    quantiles: tuple[float, ...]


def load_dataset_summary(connection: Connection, name: str) -> dict[str, Any]:
    """Load the row of view dataset_summary for the dataset of this name as a dict: its numbers of shards, videos,
    texts, judgements, rejects and scores. Raises sqlalchemy.exc.NoResultFound if there is no such dataset.
    """
    row = connection.execute(sa.text("SELECT * FROM dataset_summary WHERE dataset = :name"), {"name": name})
    return dict(row.mappings().one())


def count_labelled_samples(connection: Connection, dataset_id: int) -> int:
    """Return the number of a dataset's samples with a person's label on a keypoint. Labels by chat models, and labels
    of texts that have changed since, do not count.
    """
    query = (
        sa.select(sa.func.count(current_label.c.sample_id.distinct()))
        .join(sample, sample.c.sample_id == current_label.c.sample_id)
        .where(sample.c.dataset_id == dataset_id, current_label.c.source == MANIFEST_LABEL_SOURCE)
    )
    return connection.scalar(query) or 0


def count_video_statuses(connection: Connection, dataset_id: int) -> dict[str, int]:
    """Return the number of a dataset's videos by status (ok, damaged, undecodable or text_only), sorted by status; a
    status that no video has is left out.
    """
    query = sa.select(video.c.status, sa.func.count()).where(video.c.dataset_id == dataset_id)
    rows = connection.execute(query.group_by(video.c.status).order_by(video.c.status))
    return {row[0]: row[1] for row in rows}


class Origins(NamedTuple):
    """Where the videos of a dataset come from. licences: how many videos have each licence, the commonest first, None
    for those without one. n_with_source: videos with a web address that they were collected from. n_opted_out: videos
    whose owner asked to leave them out. first, last: the earliest and the latest `collected_at`, None without any.
    """

    licences: dict[str | None, int]
    n_with_source: int
    n_opted_out: int
    first: str | None
    last: str | None


def count_origins(connection: Connection, dataset_id: int) -> Origins | None:
    """Count a dataset's videos by licence and origin; None where no video has any field of an origin."""
    licence, n, in_dataset = video.c.licence, sa.func.count(), video.c.dataset_id == dataset_id
    query = sa.select(licence, n).where(in_dataset).group_by(licence)
    licences = {row[0]: row[1] for row in connection.execute(query.order_by(n.desc(), sa.collate(licence, "C")))}
    collected = sa.collate(video.c.collected_at, "C")
    others = sa.select(
        sa.func.count(video.c.source_url),
        n.filter(video.c.opt_out),
        sa.func.min(collected),
        sa.func.max(collected),
        sa.func.count(video.c.opt_out),
    )
    n_with_source, n_opted_out, first, last, n_asked = connection.execute(others.where(in_dataset)).one()
    if not (licences.keys() - {None} or n_with_source or n_asked or first):
        return None
    return Origins(licences, n_with_source, n_opted_out, first, last)


class OwnNumber(NamedTuple):
    """An own field of videos that is a number: its name, how many videos have it, and its lowest, middle and highest
    value.
    """

    field: str
    n: int
    least: float
    median: float
    greatest: float


def load_own_numbers(connection: Connection, dataset_id: int) -> list[OwnNumber]:
    """Describe the own fields of a dataset's videos that are numbers, sorted by name. Values of another type, and those
    beyond double precision, do not count.
    """
    query = sa.text(
        "SELECT f.key, count(*), min(n), percentile_cont(0.5) WITHIN GROUP (ORDER BY n), max(n) FROM video "
        "CROSS JOIN LATERAL jsonb_each(extra) f CROSS JOIN LATERAL (SELECT CASE WHEN jsonb_typeof(f.value) = 'number' "
        "AND abs(CAST(f.value AS numeric)) <= 1.7e308 THEN CAST(f.value AS double precision) END AS n) c "
        "WHERE dataset_id = :dataset_id AND jsonb_typeof(extra) = 'object' AND n IS NOT NULL "
        'GROUP BY f.key ORDER BY f.key COLLATE "C"'
    )
    return [OwnNumber(*row) for row in connection.execute(query, {"dataset_id": dataset_id})]


def list_disallowed_licences(
    connection: Connection, dataset_id: int, allowed: Collection[str]
) -> list[tuple[str | None, int, str]]:
    """List the licences of a dataset's videos that are not among `allowed`, as (licence, number of videos, key of the
    first video), the commonest first. Licence None stands for the videos without one.
    """
    licence, n = video.c.licence, sa.func.count()
    is_refused = sa.or_(licence.is_(None), licence.not_in(list(allowed)))
    query = sa.select(licence, n, sa.func.min(sa.collate(video.c.key, "C")))
    query = query.where(video.c.dataset_id == dataset_id, is_refused).group_by(licence)
    return [tuple(row) for row in connection.execute(query.order_by(n.desc(), sa.collate(licence, "C")))]


def count_readable_videos(connection: Connection, dataset_id: int) -> int:
    """Return the number of a dataset's videos with a file that decodes at least in part: those with status ok or
    damaged.
    """
    is_readable = sa.and_(video.c.dataset_id == dataset_id, video.c.status.in_(["ok", "damaged"]))
    return connection.scalar(sa.select(sa.func.count()).where(is_readable)) or 0


class UnreadableVideo(NamedTuple):
    """A video that does not decode from end to end, with the place of its file and the reason."""

    key: str
    uri: str | None
    error: str


def list_unreadable_videos(connection: Connection, dataset_id: int) -> list[UnreadableVideo]:
    """List a dataset's videos that do not decode from end to end, with status damaged or undecodable, ordered by key.
    Videos without a file are left out.
    """
    is_bad = sa.and_(video.c.dataset_id == dataset_id, video.c.status.in_(["damaged", "undecodable"]))
    rows = connection.execute(sa.select(video.c.key, video.c.uri, video.c.error).where(is_bad).order_by(video.c.key))
    return [UnreadableVideo(*row) for row in rows]


def load_duration_spread(connection: Connection, dataset_id: int) -> Spread | None:
    """Return quantiles of the durations of a dataset's videos in seconds, as one group "videos"; None if no duration is
    known.
    """
    query = sa.text(
        "SELECT count(*), percentile_cont(CAST(:quantiles AS float8[])) WITHIN GROUP (ORDER BY duration_s) FROM video "
        "WHERE dataset_id = :dataset_id AND duration_s IS NOT NULL"
    )
    n, quantiles = connection.execute(query, {"dataset_id": dataset_id, "quantiles": list(QUANTILES)}).one()
    return Spread("videos", n, tuple(quantiles)) if n else None


def load_word_spreads(connection: Connection, dataset_id: int) -> list[Spread]:
    """Return quantiles of the lengths of captions in words, one `Spread` for every system, sorted by system. The number
    of words is the number of spaces within the text plus 1, or 0 for a blank text.
    """
    query = sa.text(
        "SELECT system, count(*), percentile_cont(CAST(:quantiles AS float8[])) WITHIN GROUP (ORDER BY words) "
        "FROM (SELECT system, CASE WHEN btrim(text) = '' THEN 0 "
        "ELSE 1 + octet_length(btrim(text)) - octet_length(replace(btrim(text), ' ', '')) END AS words FROM sample "
        "WHERE dataset_id = :dataset_id AND kind = 'caption') AS counted GROUP BY 1 ORDER BY system COLLATE \"C\""
    )
    rows = connection.execute(query, {"dataset_id": dataset_id, "quantiles": list(QUANTILES)})
    return [Spread(row[0], row[1], tuple(row[2])) for row in rows]


def find_rating_days(connection: Connection, dataset_id: int) -> tuple[str, str] | None:
    """Return (first day, last day) on which ratings of present texts or preferences were given, as YYYY-MM-DD; None
    without a recorded time. The days come from the own field `rated_at`, which the rating page fills and imported
    ratings may have.
    """
    query = sa.text(
        "SELECT min(day), max(day) FROM (SELECT sample_id, left(extra->>'rated_at', 10) AS day FROM current_rating "
        "UNION ALL SELECT sample_id, left(extra->>'rated_at', 10) FROM preference) AS given "
        "JOIN sample USING (sample_id) WHERE dataset_id = :dataset_id AND day ~ '^[0-9]{4}-[0-9]{2}-[0-9]{2}$'"
    )
    first, last = connection.execute(query, {"dataset_id": dataset_id}).one()
    return None if first is None else (first, last)


def count_rejects_by_code(connection: Connection, dataset_id: int) -> dict[str, int]:
    """Return the number of rows that `ingest` refused for a dataset, by reject code, most frequent first."""
    n = sa.func.sum(ingest_reject.c.n_rows)
    query = sa.select(ingest_reject.c.code, n).where(ingest_reject.c.dataset_id == dataset_id)
    return {
        code: int(rows) for code, rows in connection.execute(query.group_by(ingest_reject.c.code).order_by(n.desc()))
    }
