"""Judgements as plain rows, for tests."""

from __future__ import annotations

import numpy as np
from sqlalchemy.engine import Connection

from db.manifest.datasets import Dataset
from db.reports.judgements import Judgements, load_judgement_arrays


def load(connection: Connection, dataset: Dataset) -> dict[str, Judgements]:
    return load_judgement_arrays(connection, dataset, lambda text: len(text.split()))


def list_ratings(connection: Connection, dataset: Dataset) -> list[tuple[int, str, str, float]]:
    """All ratings as (sample id, rater, aspect, value), sorted."""
    return sorted(
        (int(judged.sample_ids[place]), judged.raters[aspect][column], aspect, float(values[place, column]))
        for judged in load(connection, dataset).values()
        for aspect, values in judged.ratings.items()
        for place, column in np.argwhere(np.isfinite(values))
    )


def list_judged(connection: Connection, dataset: Dataset) -> list[int]:
    return [sample_id for judged in load(connection, dataset).values() for sample_id in judged.sample_ids.tolist()]
