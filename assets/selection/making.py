"""Makes a selection by a recipe: what the database cannot cut by itself is picked here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy.engine import Connection, Engine

from assets.selection.picking import pick
from assets.selection.vectors import embed_whole_texts, unit_vectors
from assets.sources.base import Tell
from db.manifest.datasets import Dataset
from db.selections.candidates import Candidates
from db.selections.choosing import Pick, Picked, candidates_now
from db.selections.exports import without_folders
from db.selections.frozen import Selection, freeze_selection
from db.selections.recipes import Recipe
from metrics_core.protocols import TextEncoder


def make_selection(
    engine: Engine, dataset: Dataset, recipe: Recipe, encoder: Callable[[], TextEncoder], tell: Tell
) -> Selection:
    """Freeze what a recipe takes. Whole texts without a vector are embedded first, where the recipe compares texts.

    encoder: makes the encoder of texts, and is called only where the recipe needs it. tell: takes lines of progress.
    Raises SelectionError, FilterError for a condition that is not allowed, and the errors of the encoder.
    """
    chooser = prepared(engine, dataset, recipe, encoder, tell)
    with engine.begin() as connection:
        return freeze_selection(connection, dataset, recipe, chooser)


def prepared(
    engine: Engine, dataset: Dataset, recipe: Recipe, encoder: Callable[[], TextEncoder], tell: Tell
) -> Pick | None:
    """What picks by the recipe, once all vectors that it needs are stored; None where the database cuts by itself."""
    if recipe.is_plain:
        return None
    if not recipe.needs_vectors:
        return lambda _, candidates: pick(candidates, recipe, _no_vectors, tell)
    of_texts = encoder()
    with engine.begin() as connection:
        found = candidates_now(connection, dataset, recipe)
    embed_whole_texts(engine, of_texts, found.sample_ids.tolist(), tell)

    identity = of_texts.identity.as_dict()
    identity["model_id"] = without_folders(identity["model_id"])

    def chooser(connection: Connection, candidates: Candidates) -> Picked:
        picked = pick(candidates, recipe, lambda digests: unit_vectors(connection, of_texts, digests), tell)
        return picked._replace(encoder=identity)

    return chooser


def _no_vectors(_: object) -> Any:
    raise AssertionError("this recipe compares no texts")
