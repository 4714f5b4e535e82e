"""The samples that a report shows: how they are found in table `reported`, and what is read of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

# The references of a video that a report shows.
REFERENCES = 3


@dataclass(frozen=True, slots=True)
class ChosenSample:
    """A sample that a report shows, with the number that it was chosen by."""

    sample_id: int
    video_id: int
    by: float


def extremes(connection: Connection, kind: str, metric: str, n: int, *, best: bool) -> list[ChosenSample]:
    """The n best or worst samples by a metric, of n videos; among equal ones chance decides."""
    order = f"{metric} {'DESC' if best else 'ASC'}, chance, sample_id"
    return _of_different_videos(connection, kind, f"{metric} IS NOT NULL", metric, order, n)


def disputed(connection: Connection, kind: str, high: str, low: str, n: int) -> list[ChosenSample]:
    """The n samples, of n videos, whose rank by metric `high` lies farthest above their rank by metric `low`."""
    gap = f"({high}_rank - {low}_rank)"
    return _of_different_videos(connection, kind, f"{gap} > 0", gap, f"{gap} DESC, chance, sample_id", n)


def values_of(connection: Connection, sample_ids: Sequence[int], metrics: Sequence[str]) -> dict[int, dict[str, Any]]:
    """The row of table `reported` of each of these samples, by id."""
    columns = ", ".join(f"{m}, {m}_status, {m}_rank" for m in metrics)
    query = sa.text(f"SELECT sample_id{', ' if columns else ''}{columns} FROM reported WHERE sample_id = ANY(:ids)")
    rows = connection.execute(query, {"ids": list(sample_ids)}).mappings()
    return {row["sample_id"]: dict(row) for row in rows}


def texts_of(connection: Connection, sample_ids: Sequence[int]) -> dict[int, dict[str, Any]]:
    """Key, kind, system, text, question and answer of each of these samples, and its video's columns, by id."""
    query = sa.text(
        "SELECT s.sample_id, s.key, s.kind, s.system, s.text, s.question, s.answer, v.video_id, v.key AS video, v.uri, "
        "v.status, v.error, v.content_sha256, v.size_bytes, v.mtime_ns, v.ctime_ns, v.inode, v.etag, v.n_frames, "
        "v.width, v.height, "
        '(SELECT array_agg(text ORDER BY key COLLATE "C") FROM (SELECT text, key FROM reference r '
        'WHERE r.video_id = v.video_id ORDER BY key COLLATE "C" LIMIT :references) AS first) AS references '
        "FROM sample s JOIN video v USING (video_id) WHERE s.sample_id = ANY(:ids)"
    )
    rows = connection.execute(query, {"ids": list(sample_ids), "references": REFERENCES}).mappings()
    return {row["sample_id"]: dict(row) for row in rows}


def ratings_by_sample(connection: Connection, sample_ids: Sequence[int]) -> dict[int, dict[str, dict[str, float]]]:
    """The ratings of each of these samples, by aspect and rater."""
    query = sa.text(
        "SELECT sample_id, aspect, rater, value FROM rating WHERE sample_id = ANY(:ids) "
        "ORDER BY sample_id, aspect, rater"
    )
    found: dict[int, dict[str, dict[str, float]]] = {}
    for sample_id, aspect, rater, value in connection.execute(query, {"ids": list(sample_ids)}):
        found.setdefault(sample_id, {}).setdefault(aspect, {})[rater] = value
    return found


def _of_different_videos(
    connection: Connection, kind: str, condition: str, by: str, order: str, n: int
) -> list[ChosenSample]:
    """The first n samples in this order, the first of each video alone."""
    first = (
        f"SELECT sample_id, video_id, {by} AS by, row_number() OVER (PARTITION BY video_id ORDER BY {order}) AS nth, "
        f"row_number() OVER (ORDER BY {order}) AS place FROM reported WHERE kind = :kind AND {condition}"
    )
    query = sa.text(f"SELECT sample_id, video_id, by FROM ({first}) AS placed WHERE nth = 1 ORDER BY place LIMIT :n")
    return [ChosenSample(*row) for row in connection.execute(query, {"kind": kind, "n": n})]
