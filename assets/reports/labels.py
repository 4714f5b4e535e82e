"""How a metric is called where people read its scores: one made with a demonstration model says so."""

from __future__ import annotations

from sqlalchemy.engine import Connection

from assets.models.settings import DEMO_ENCODER
from db.scores import active_models

DEMO_MODELS = frozenset({DEMO_ENCODER})


def demo_models(connection: Connection, metric: str) -> list[str]:
    """The models behind the metric's active scorer that know nothing but the demo world."""
    return [model for model in active_models(connection, metric) if model in DEMO_MODELS]


def metric_label(connection: Connection, metric: str) -> str:
    """The metric's name, with its demonstration models where its active scorer has any: `evqa (demo encoder)`."""
    found = demo_models(connection, metric)
    return f"{metric} ({', '.join(found)})" if found else metric
