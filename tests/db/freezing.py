"""A selection in a transaction of the test's own, by a recipe that compares no texts."""

from __future__ import annotations

from typing import NoReturn

from sqlalchemy.engine import Connection

from assets.selection.select import choose_samples
from db.manifest.datasets import Dataset
from db.selection.freeze import Selection, freeze_selection
from db.selection.recipes import Recipe


def freeze_recipe(connection: Connection, dataset: Dataset, recipe: Recipe) -> Selection:
    """Freeze what a recipe takes. Must begin the transaction."""
    return freeze_selection(connection, *choose_samples(connection, dataset, recipe, None, never, lock=True))


def never(*given: object) -> NoReturn:
    """An encoder or a teller of progress for a recipe that needs none."""
    raise AssertionError(given)
