"""Why a caption has its ECS: for every keypoint the decision and the sentence behind it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from assets.scores.base import Explanation

_VERDICTS = sa.text(
    "SELECT dimension, keypoint, keypoint_text, covered, probability, threshold, is_lower_bound, label, sentence "
    "FROM keypoint_verdicts WHERE sample_id = :sample_id "
    'ORDER BY dimension COLLATE "C", segment_index, keypoint COLLATE "C"'
)
_ANSWER = {True: "yes", False: "no", None: None}


def explain_ecs(connection: Connection, sample_id: int, components: Mapping[str, Any]) -> Explanation:
    """Give every keypoint a row, from view keypoint_verdicts; `label` is the answer of a person."""
    rows = [
        {
            "covered": _ANSWER[row.covered],
            "p": row.probability,
            "from": row.threshold,
            "label": _ANSWER[row.label],
            "keypoint": f"{row.dimension}: {row.keypoint_text}",
            "best sentence": f"(at least) {row.sentence}" if row.is_lower_bound else row.sentence,
        }
        for row in connection.execute(_VERDICTS, {"sample_id": sample_id})
    ]
    covered, total = sum(components["covered"].values()), sum(components["keypoints"].values())
    lines = [f"{covered} of {total} keypoints covered; mode {components['mode']}"]
    if why := components.get("parse_error"):
        lines.append(f"the prediction could not be read: {why}")
    return Explanation(lines, rows)
