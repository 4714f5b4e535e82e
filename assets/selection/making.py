"""Makes a selection by a recipe: what the database cannot cut by itself is picked here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from sqlalchemy.engine import Connection, Engine

from assets.reports.text import listed, plural
from assets.selection.vectors import embed_whole_texts, unit_vectors
from assets.sources.base import Tell
from assets.thresholds.settings import SHARES
from db.manifest.datasets import Dataset
from db.selection.candidates import Candidates
from db.selection.choosing import Pick, Picked, candidates_now
from db.selection.exports import without_folders
from db.selection.freezing import kept
from db.selection.frozen import Selection, freeze_selection
from db.selection.recipes import REST, Recipe, SelectionError, SizeMissing
from db.selection.ties import SizeCut
from db.spelling import did_you_mean
from metrics_core.facts.signatures import units_of
from metrics_core.protocols import TextEncoder
from metrics_core.selection.combining import mean_rank, weighted_mean
from metrics_core.selection.duplicates import without_near_duplicates
from metrics_core.selection.places import first_of_each, in_proportion
from metrics_core.selection.spread import farthest_first
from metrics_core.selection.ties import ends_of

# How a recipe picks among candidates: it combines values, drops near-duplicates and divides places over strata.

Positions = npt.NDArray[np.intp]
# The vectors (n, d) of texts by their hashes, of length 1.
Vectors = Callable[[Sequence[bytes]], npt.NDArray[np.float32]]


def pick(candidates: Candidates, recipe: Recipe, vectors: Vectors, tell: Tell) -> Picked:
    """What a recipe takes of its candidates, in order of rank.

    The best come in order of value, and of equal values by their draws where ties are random; a random draw comes in
    order of its numbers, a diverse subset in the order of choosing.
    Raises SelectionError where the candidates are fewer than the recipe asks for.
    """
    values = _combined(candidates, recipe)
    order = _ranked(candidates, recipe, values)
    n_copies = 0
    if recipe.dedupe_videos is not None:
        tell(f"compares {len(candidates.signatures)} videos with one another")
        keep = without_copies(candidates, order, recipe.dedupe_videos)
        n_copies = int(len(keep) - keep.sum())
        order = order[keep]
    units = vectors([candidates.text_sha256[position] for position in order]) if recipe.needs_vectors else None
    n_duplicates = 0
    if recipe.dedupe is not None and units is not None:
        tell(f"compares {len(order)} texts with one another")
        keep = without_near_duplicates(units, recipe.dedupe)
        n_duplicates = int(len(keep) - keep.sum())
        order = order[keep]
        units = units[keep] if recipe.choose == "diverse" else None
    places, cuts = places_of(candidates, recipe, order), None
    if recipe.choose == "best":
        cuts = cuts_of(candidates, values, order, places)
        places = [cuts[number].n_taken(recipe.ties) if number in cuts else 0 for number in range(len(places))]
    if recipe.choose == "diverse" and units is not None:
        chosen = order[_spread(units, candidates.stratum[order], places, tell)]
    else:
        if recipe.choose == "random":
            order = order[np.argsort(candidates.draws[order], kind="stable")]
        chosen = order[first_of_each(candidates.stratum[order], places)]
    ends = None if cuts is None else tuple(cuts.values())
    return Picked(chosen.tolist(), values[chosen].tolist(), ends, n_copies + n_duplicates)


def without_copies(candidates: Candidates, order: Positions, at_least: float) -> npt.NDArray[np.bool_]:
    """Which samples of `order` to keep: those of a video go where a better sample's video is that much alike.

    The samples of one video stay or go together, and a video without a signature stays.
    """
    videos = candidates.video_ids[order]
    distinct, first = np.unique(videos, return_index=True)
    ranked = [video for video in distinct[np.argsort(first)].tolist() if video in candidates.signatures]
    if not ranked:
        return np.ones(len(order), dtype=np.bool_)
    units = units_of([candidates.signatures[video] for video in ranked])
    gone = np.array(ranked)[~without_near_duplicates(units, at_least)]
    return ~np.isin(videos, gone)


def places_of(candidates: Candidates, recipe: Recipe, order: Positions) -> list[int]:
    """How many samples each stratum sends, of those in `order`. Raises SelectionError where there are too few."""
    strata = candidates.strata
    sizes = np.bincount(candidates.stratum[order], minlength=len(strata)).tolist()
    if recipe.quotas:
        return _by_quota(recipe, strata, sizes)
    if recipe.count is not None:
        if recipe.count > len(order):
            raise SelectionError(
                f"the recipe asks for {recipe.count} samples, and {len(order)} are left to choose from: lower "
                "count, or loosen its conditions"
            )
        return in_proportion(recipe.count, sizes)
    share = recipe.keep
    return sizes if share is None else [kept(share, size) if size else 0 for size in sizes]


def _by_quota(recipe: Recipe, strata: Sequence[str], sizes: Sequence[int]) -> list[int]:
    found = dict(zip(strata, sizes, strict=True))
    for name, quota in recipe.quotas.items():
        if name != REST and name not in found:
            meant = did_you_mean(name, strata)
            hint = f", did you mean {meant!r}?" if meant else f": there are {', '.join(map(repr, strata[:20]))}"
            raise SelectionError(f"no eligible sample has {recipe.per} {name!r}, for which there is a quota{hint}")
        if name != REST and quota > found[name]:
            raise SelectionError(
                f"the quota of {recipe.per} {name!r} is {quota} samples, and {found[name]} are left to choose from: "
                "lower the quota, or loosen the recipe's conditions"
            )
    most = recipe.quotas.get(REST, 0)
    return [recipe.quotas.get(name, min(most, size)) for name, size in found.items()]


def cuts_of(
    candidates: Candidates, values: npt.NDArray[np.float64], order: Positions, places: Sequence[int]
) -> dict[int, SizeCut]:
    """Where so many places of each stratum end in `order`, the best first, by the number of the stratum."""
    ends = ends_of(values[order], candidates.stratum[order], places)
    lists = zip(*[part.tolist() for part in ends], strict=True)
    return {
        number: SizeCut(candidates.strata[number], value, places[number], n_above, n_at)
        for number, value, n_above, n_at in lists
    }


def _ranked(candidates: Candidates, recipe: Recipe, values: npt.NDArray[np.float64]) -> Positions:
    """Positions from the best to the worst. Equal values are in order of kind and key, or of draws."""
    if recipe.ties == "random":
        return np.lexsort((candidates.draws, -values))
    return np.argsort(-values, kind="stable")


def _combined(candidates: Candidates, recipe: Recipe) -> npt.NDArray[np.float64]:
    if len(recipe.by) == 1:
        return candidates.values[:, 0]
    combine = mean_rank if recipe.combine == "ranks" else weighted_mean
    return combine(candidates.values, list(recipe.by.values()))


def _spread(units: npt.NDArray[np.float32], stratum: Positions, places: Sequence[int], tell: Tell) -> Positions:
    """Positions of a diverse subset of each stratum; the first choices of all strata come first."""
    chosen: list[Positions] = []
    turns: list[Positions] = []
    for number, n in enumerate(places):
        (members,) = np.nonzero(stratum == number)
        of_stratum = units if len(members) == len(units) else units[members]
        chosen.append(members[farthest_first(of_stratum, n, partial(_tell_progress, tell, n))])
        turns.append(np.arange(n))
    return np.concatenate(chosen)[np.argsort(np.concatenate(turns), kind="stable")]


def _tell_progress(tell: Tell, n: int, done: int) -> None:
    tell(f"{done} of {n} diverse samples chosen")


def what_shares_keep(candidates: Candidates, recipe: Recipe, dataset: str) -> str:
    """Say that a size is missing, and what each share would keep of the candidates with the value of the cut there."""
    values = _combined(candidates, recipe)
    order = _ranked(candidates, recipe, values)
    curve = []
    for share in SHARES:
        places = places_of(candidates, recipe.model_copy(update={"keep": share}), order)
        cuts = cuts_of(candidates, values, order, places).values()
        down_to = f" (down to {min(cut.value for cut in cuts):.4g})" if recipe.choose == "best" else ""
        curve.append(f"{share:g} keeps {sum(places):,}{down_to}")
    before = ", before near-duplicates are left out" if recipe.dedupe or recipe.dedupe_videos else ""
    return (
        f"nothing is selected, since nothing says how much to take: of the {plural(len(order), 'sample')} of {dataset} "
        f"with {' and '.join(recipe.by)}{before}, a share of {listed(curve)}; give keep (--keep), count (--count) or "
        "at_least (--at-least)"
    )


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
    """What picks by the recipe, once all vectors that it needs are stored; None where the database cuts by itself.

    Raises SizeMissing for a recipe that does not say how much to take.
    """
    if not recipe.has_size:
        with engine.begin() as connection:
            raise SizeMissing(what_shares_keep(candidates_now(connection, dataset, recipe), recipe, dataset.name))
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
