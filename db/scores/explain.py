"""One sample's score by a metric, with its components, models and texts, for `reelsieve explain`."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.engine import Connection, RowMapping


def sample_of_key(connection: Connection, dataset_id: int, key: str) -> int | None:
    """The id of a dataset's sample; None where there is none. A caption comes before a question of the same key."""
    query = sa.text("SELECT sample_id FROM sample WHERE dataset_id = :dataset_id AND key = :key ORDER BY kind LIMIT 1")
    found: int | None = connection.scalar(query, {"dataset_id": dataset_id, "key": key})
    return found


def sample_score(
    connection: Connection, dataset_id: int, key: str, metric: str, kind: str | None = None
) -> RowMapping | None:
    """A sample with its score by the metric's active scorer, whose columns are None without a score.

    None where the dataset has no sample of this key, and kind if one is given; else a caption comes before a
    question-answer pair of the same key.
    """
    query = sa.text(
        "SELECT s.sample_id, s.key AS sample, s.kind, s.system, v.key AS video, s.text, c.value, c.status, c.error, "
        "p.components, r.models, r.scorer_id "
        "FROM sample s JOIN video v USING (video_id) "
        "LEFT JOIN scorer r ON r.metric = :metric AND r.status = 'active' "
        "LEFT JOIN current_score c ON c.scorer_id = r.scorer_id AND c.sample_id = s.sample_id "
        "LEFT JOIN score p ON p.scorer_id = r.scorer_id AND p.sample_id = s.sample_id "
        "WHERE s.dataset_id = :dataset_id AND s.key = :key AND s.kind = coalesce(:kind, s.kind) ORDER BY s.kind LIMIT 1"
    )
    values = {"dataset_id": dataset_id, "key": key, "metric": metric, "kind": kind}
    return connection.execute(query, values).mappings().one_or_none()
