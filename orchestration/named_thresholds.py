"""Thresholds that a recipe asks for by name: made where a dataset has none yet, as where nobody drew conclusions."""

from __future__ import annotations

from collections.abc import Callable

from assets.scores.registry import METRICS
from db.manifest.datasets import Dataset
from db.scores.thresholds import metrics_with_cutoffs
from db.selections.recipes import Recipe
from orchestration.platform import installed
from orchestration.runs import run_job

THRESHOLDS = ["threshold", "rating_threshold"]


def make_named_thresholds(dataset: Dataset, recipe: Recipe, tell: Callable[[str], None]) -> None:
    """Store the thresholds of a dataset where the recipe names one of a metric that has none. tell: takes progress."""
    asked = {name for name, least in recipe.at_least.items() if isinstance(least, str) and name in METRICS}
    with installed().engine.connect() as connection:
        if asked <= metrics_with_cutoffs(connection, dataset.dataset_id):
            return
    tell(f"finds the thresholds of {dataset.name}")
    run_job("dataset_job", dataset.name, {}, THRESHOLDS)
