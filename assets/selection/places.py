"""Divides the size of a selection over the strata of its recipe."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from assets.words.text import format_count
from db.selection.recipes import REST_QUOTA, Recipe, SelectionError
from db.spelling import suggest_name
from metrics_core.selection.strata import count_in_share, divide_places


def count_places(recipe: Recipe, strata: Sequence[str], stratum: npt.NDArray[np.intp]) -> list[int]:
    """Return how many samples a recipe takes from every stratum, in the order of `strata`, their names. stratum: (n,),
    the index in `strata` of each sample that can be chosen. A recipe without quotas, count and share takes all. Raises
    SelectionError where there are too few samples, or no stratum of a quota's name.
    """
    sizes = np.bincount(stratum, minlength=len(strata)).tolist()
    if recipe.quotas:
        return _fill_quotas(recipe, dict(zip(strata, sizes, strict=True)))
    if recipe.count is not None:
        if recipe.count > len(stratum):
            raise SelectionError(
                f"the recipe asks for {recipe.count:,}, but only {format_count(len(stratum), 'sample')} can be chosen: "
                "lower count, or loosen its conditions"
            )
        return divide_places(recipe.count, sizes)
    share = recipe.keep
    return sizes if share is None else [count_in_share(share, size) if size else 0 for size in sizes]


def _fill_quotas(recipe: Recipe, sizes: dict[str, int]) -> list[int]:
    """Return how many samples each stratum gets by the recipe's quotas."""
    for name, quota in recipe.quotas.items():
        if name != REST_QUOTA and name not in sizes:
            known = f": eligible samples have {', '.join(map(repr, list(sizes)[:20]))}"
            hint = (
                suggest_name(name, sizes, known) if sizes else ": loosen the recipe's conditions, which no sample meets"
            )
            raise SelectionError(f"no eligible sample has {recipe.per} {name!r}, for which there is a quota{hint}")
        if name != REST_QUOTA and quota > sizes[name]:
            raise SelectionError(
                f"the quota of {recipe.per} {name!r} is {quota:,}, but only {format_count(sizes[name], 'sample')} can "
                "be chosen: lower the quota, or loosen the recipe's conditions"
            )
    most = recipe.quotas.get(REST_QUOTA, 0)
    return [recipe.quotas.get(name, min(most, size)) for name, size in sizes.items()]
