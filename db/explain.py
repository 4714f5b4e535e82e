"""What a person asks of one sample: its score, and the verdict on each keypoint with the sentence behind it."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, RowMapping


def caption_score(connection: Connection, dataset_id: int, key: str, metric: str) -> RowMapping | None:
    """A caption with its score by the metric's active scorer, whose columns are None where it has none.

    None where the dataset has no caption of this key.
    """
    query = sa.text(
        "SELECT s.key AS sample, s.system, v.key AS video, s.text, c.value, c.status, c.error, c.components, r.models "
        "FROM sample s JOIN video v USING (video_id) "
        "LEFT JOIN scorer r ON r.metric = :metric AND r.status = 'active' "
        "LEFT JOIN score c ON c.scorer_id = r.scorer_id AND c.sample_id = s.sample_id "
        "WHERE s.dataset_id = :dataset_id AND s.kind = 'caption' AND s.key = :key"
    )
    values = {"dataset_id": dataset_id, "key": key, "metric": metric}
    return connection.execute(query, values).mappings().one_or_none()


def caption_verdicts(connection: Connection, dataset: str, key: str) -> list[dict[str, Any]]:
    """The verdicts on a caption's keypoints, in the order of dimensions and keypoints; see view keypoint_verdicts."""
    query = sa.text(
        "SELECT dimension, keypoint, keypoint_text, segment_index, covered, probability, threshold, is_lower_bound, "
        "label, sentence_index, sentence FROM keypoint_verdicts WHERE dataset = :dataset AND sample = :key "
        'ORDER BY dimension COLLATE "C", segment_index, keypoint COLLATE "C"'
    )
    return [dict(row) for row in connection.execute(query, {"dataset": dataset, "key": key}).mappings()]
