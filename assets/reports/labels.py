"""How a metric is called where people read its scores: one made with a stand-in for a real model says so."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy.engine import Connection

from assets.models.settings import DEMO_ENCODER, HUMAN_NOTES
from db.scores import active_models

# What stands in for a model that a metric asks for, with the remedy.
STAND_INS: Mapping[str, str] = {
    DEMO_ENCODER: "it knows the demo's clips alone: for others set REELSIEVE_IMAGE_TEXT_ENCODER and _CHECKPOINT",
    HUMAN_NOTES: "they stand in for the video: for a score without references set REELSIEVE_QEVA_VIDEO_MODEL",
}


def stand_ins(connection: Connection, metric: str) -> list[str]:
    """What stands in for a real model behind the metric's active scorer."""
    return [model for model in active_models(connection, metric) if model in STAND_INS]


def metric_label(connection: Connection, metric: str) -> str:
    """The metric's name, with the stand-ins where its active scorer has any: `evqa (demo encoder)`."""
    names = stand_ins(connection, metric)
    return f"{metric} ({', '.join(names)})" if names else metric
