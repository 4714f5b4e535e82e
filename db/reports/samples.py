"""The samples that a report shows: their texts, statuses and judgements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection


def load_statuses(connection: Connection, sample_ids: Sequence[int]) -> dict[tuple[int, str], str]:
    """Load the statuses of samples' scores by active scorers, by (sample id, metric). A stale score has status "stale";
    a sample without a score by a metric is left out.
    """
    query = sa.text(
        "SELECT c.sample_id, c.metric, c.status FROM current_score c JOIN scorer r USING (scorer_id) "
        "WHERE r.status = 'active' AND c.sample_id = ANY(:ids)"
    )
    return {(row[0], row[1]): row[2] for row in connection.execute(query, {"ids": list(sample_ids)})}


def load_texts(connection: Connection, sample_ids: Sequence[int]) -> dict[int, dict[str, Any]]:
    """Load by sample id a dict with key, kind, system, text, question and answer, and the columns of its video.
    `references` is a list of [key, text] of the video's references, ordered by key, equal texts once; None without
    references.
    """
    query = sa.text(
        "SELECT s.sample_id, s.key, s.kind, s.system, s.text, s.question, s.answer, v.video_id, v.key AS video, v.uri, "
        "v.status, v.error, v.content_sha256, v.size_bytes, v.mtime_ns, v.ctime_ns, v.inode, v.etag, v.member_offset, "
        "v.n_frames, v.width, v.height, "
        '(SELECT array_agg(ARRAY[r.key, r.text] ORDER BY r.key COLLATE "C") FROM ('
        'SELECT text, min(key COLLATE "C") AS key FROM reference WHERE video_id = v.video_id GROUP BY text) r'
        ") AS references "
        "FROM sample s JOIN video v USING (video_id) WHERE s.sample_id = ANY(:ids)"
    )
    rows = connection.execute(query, {"ids": list(sample_ids)}).mappings()
    return {row["sample_id"]: dict(row) for row in rows}


def load_ratings_by_sample(connection: Connection, sample_ids: Sequence[int]) -> dict[int, dict[str, dict[str, float]]]:
    """Load the ratings of samples' present texts as {sample id: {aspect: {rater: value}}}; samples without ratings are
    left out.
    """
    query = sa.text(
        "SELECT sample_id, aspect, rater, value FROM current_rating WHERE sample_id = ANY(:ids) "
        "ORDER BY sample_id, aspect, rater"
    )
    ratings: dict[int, dict[str, dict[str, float]]] = {}
    for sample_id, aspect, rater, value in connection.execute(query, {"ids": list(sample_ids)}):
        ratings.setdefault(sample_id, {}).setdefault(aspect, {})[rater] = value
    return ratings


def find_video(connection: Connection, dataset_id: int, video_id: int) -> dict[str, Any] | None:
    """Return a video as a dict with key (as "video"), file (`uri`), status, error, hash, size, frames, duration and
    codec; None if the dataset has no such video.
    """
    query = sa.text(
        "SELECT video_id, key AS video, uri, status, error, content_sha256, size_bytes, mtime_ns, ctime_ns, inode, "
        "etag, member_offset, n_frames, width, height, duration_s, codec FROM video "
        "WHERE dataset_id = :dataset_id AND video_id = :video_id"
    )
    row = connection.execute(query, {"dataset_id": dataset_id, "video_id": video_id}).mappings().one_or_none()
    return None if row is None else dict(row)


def load_references(connection: Connection, video_id: int) -> list[tuple[str, str]]:
    """Load (key, text) of all references of a video, ordered by key."""
    query = sa.text('SELECT key, text FROM reference WHERE video_id = :video_id ORDER BY key COLLATE "C"')
    return [(row[0], row[1]) for row in connection.execute(query, {"video_id": video_id})]


def load_score_history(connection: Connection, sample_id: int) -> list[dict[str, Any]]:
    """Load all scores that a sample has or had, by any scorer, as dicts, newest first. Keys are metric, scorer_id,
    value, status, scored_at, replaced_at (None for a present one) and changed_because: the reason why the value no
    longer counts, else None.
    """
    query = sa.text(
        "SELECT metric, scorer_id, value, status, scored_at, replaced_at, changed_because FROM score_history "
        "WHERE sample_id = :sample_id ORDER BY scored_at DESC, metric, scorer_id"
    )
    return [dict(row) for row in connection.execute(query, {"sample_id": sample_id}).mappings()]


def load_judgements(connection: Connection, sample_id: int) -> list[dict[str, Any]]:
    """Load all ratings and comparisons of a sample as dicts with aspect, rater, value, answer, rated_at and is_old,
    ordered by aspect and rater. A rating has a value. A comparison has value None and an answer such as "better than
    KEY", and is left out if one of the texts has changed.

    rated_at: the time as text, None if it was not recorded. is_old: whether the sample had another text when it was
    rated, so that the rating does not count.
    """
    query = sa.text(
        "SELECT g.aspect, g.rater, g.value, g.extra->>'answer' AS answer, g.extra->>'rated_at' AS rated_at, "
        "g.text_sha256 <> s.text_sha256 AS is_old FROM rating g JOIN sample s USING (sample_id) "
        "WHERE g.sample_id = :sample_id UNION ALL SELECT p.aspect, p.rater, NULL, CASE "
        "WHEN p.value = 0 THEN 'as good as ' WHEN (p.value > 0) = (p.sample_id = :sample_id) THEN 'better than ' "
        "ELSE 'worse than ' END || CASE WHEN a.sample_id = :sample_id THEN b.key ELSE a.key END, "
        "p.extra->>'rated_at', false "
        "FROM preference p JOIN sample a ON a.sample_id = p.sample_id AND a.text_sha256 = p.text_sha256 "
        "JOIN sample b ON b.sample_id = p.other_id AND b.text_sha256 = p.other_sha256 "
        "WHERE :sample_id IN (p.sample_id, p.other_id) ORDER BY aspect, rater, value, answer"
    )
    return [dict(row) for row in connection.execute(query, {"sample_id": sample_id}).mappings()]
