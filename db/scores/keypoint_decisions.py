"""Decisions of active scorers on keypoints that people labelled."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from db.evidence.verdicts import MANIFEST_LABEL_SOURCE
from db.sql import read_sql


@dataclass(frozen=True, slots=True)
class KeypointDecision:
    """A scorer's decision whether a caption covers a keypoint, with the label that a person gave. covered: None without
    a decision, as for a text that has changed (is_stale). group: field group_id of the video, else its key. chosen_on:
    the videos whose labels the threshold was chosen on, "calibration" or "all"; None if it was not chosen on labels.
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
    """Load the decisions of all active scorers on the keypoints of a dataset that people labelled, ordered by the keys
    of caption and keypoint. Labelled keypoints without a verdict are left out, and so are labels on texts that have
    changed.
    """
    statement = sa.text(read_sql("decided_keypoints"))
    values = {"dataset_id": dataset_id, "method_labels": LABEL_METHOD, "source": MANIFEST_LABEL_SOURCE}
    return [KeypointDecision(**row) for row in connection.execute(statement, values).mappings()]


LABEL_METHOD = "keypoint_labels"
"""Column `method` of thresholds chosen on keypoint labels; those of the whole dataset are in force."""
