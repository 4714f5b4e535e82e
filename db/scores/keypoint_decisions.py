"""Decisions of active scorers on keypoints that people labelled."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from db.evidence.verdicts import MANIFEST_LABEL_SOURCE
from db.sql import read_sql


@dataclass(frozen=True, slots=True)
class KeypointDecision:
    """A scorer's decision on a keypoint of a caption, beside the manifest's label.

    group: the source video, or the video. covered: None where there is no decision, as on a text that changed
    (is_stale). chosen_on: of which videos the labels are that the threshold was chosen on: "calibration", "all", or
    None for a threshold that no label chose.
    """

    metric: str
    scorer_id: int
    group: str
    dimension: str
    covered: bool | None
    label: bool
    is_stale: bool
    chosen_on: str | None


def load_keypoint_decisions(connection: Connection, dataset_id: int) -> list[KeypointDecision]:
    """Every decision on a labelled keypoint of a dataset, by the keys of caption and keypoint."""
    statement = sa.text(read_sql("decided_keypoints"))
    values = {"dataset_id": dataset_id, "method_labels": LABEL_METHOD, "source": MANIFEST_LABEL_SOURCE}
    return [KeypointDecision(**row) for row in connection.execute(statement, values).mappings()]


LABEL_METHOD = "keypoint_labels"
"""Thresholds chosen on labels of keypoints; those of scope "dataset" are in force where a scorer decides keypoints."""
