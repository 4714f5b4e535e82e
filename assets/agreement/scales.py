"""The scale on which an aspect is rated in a stored dataset."""

from __future__ import annotations

from sqlalchemy.engine import Connection

from assets.ingest.scales import DEFAULT_SCALE, Scale, parse_scale
from db.manifest.datasets import Dataset
from db.manifest.rating_scales import find_scale_name


def load_scale(connection: Connection, dataset: Dataset, aspect: str) -> Scale:
    """Load the scale of an aspect: the declared one, else that from 1 to 5."""
    name = find_scale_name(connection, dataset, aspect)
    return (parse_scale(name) if name else None) or DEFAULT_SCALE
