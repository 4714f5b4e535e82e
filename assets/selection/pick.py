"""Picks samples from candidates by a recipe: ranks them, leaves out near-duplicates, and divides the size over
strata.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from sqlalchemy.engine import Connection

from assets.progress import LineWriter
from assets.selection.places import count_places
from assets.selection.vectors import load_unit_vectors
from assets.words.text import format_count, format_percent
from db.selection.candidates import Candidates, NothingToSelect, compute_key_places
from db.selection.chosen_table import PickedSamples
from db.selection.exports import strip_folders
from db.selection.recipes import Recipe, SelectionError
from metrics_core.facts.signatures import convert_to_unit_vectors
from metrics_core.protocols import TextEncoder
from metrics_core.selection.diversity import choose_diverse_rows
from metrics_core.selection.duplicates import drop_near_duplicates, estimate_missed
from metrics_core.selection.size_threshold import SizeThreshold, count_ties, find_size_thresholds
from metrics_core.selection.strata import choose_first_per_stratum
from metrics_core.selection.weighted_means import weighted_mean, weighted_mean_rank
from metrics_core.vectors import normalise_rows

# Indices of samples among the candidates.
Positions = npt.NDArray[np.intp]
Values = npt.NDArray[np.float64]
Units = npt.NDArray[np.float32]


class _RankedCandidates(NamedTuple):
    """Candidates, the values that rank them, the positions of those without better near-duplicates, the vectors of
    their texts where these are compared, and how many near-duplicates were dropped.
    """

    candidates: Candidates
    values: Values
    order: Positions
    units: Units | None
    n_duplicates: int


def pick_samples(
    connection: Connection, candidates: Candidates, recipe: Recipe, encoder: TextEncoder | None, tell: LineWriter
) -> PickedSamples:
    """Return the samples that a recipe selects from its candidates, in order of rank, with counts of those left out.
    encoder: the model whose vectors of all texts are stored; None for a recipe that compares no texts. `connection`
    must be in the transaction that loaded the candidates. tell: called with lines of progress. Raises SelectionError
    where the recipe cannot be met, and NothingToSelect where it takes no sample.

    The best come in order of value; equal values come in order of kind and key, or of their draws where ties are
    random. A random draw comes in order of its numbers, a diverse subset in the order of choosing. A recipe cannot be
    met where the candidates are fewer than it asks for, or only keys would choose between equal values.
    """
    (picked,) = pick_sizes(connection, candidates, [recipe], encoder, tell)
    assert picked is not None
    return picked


def pick_sizes(
    connection: Connection,
    candidates: Candidates,
    recipes: Sequence[Recipe],
    encoder: TextEncoder | None,
    tell: LineWriter,
) -> list[PickedSamples | None]:
    """Return what `pick_samples` would for recipes that differ only in their size, in the same order; None where one
    takes no sample, but the last one raises NothingToSelect. Candidates are ranked, and near-duplicates dropped, only
    once. recipes: at least one, the largest last.
    """
    recipe = recipes[0]
    values = combine_values(candidates, recipe)
    order = np.argsort(-values)
    if recipe.needs_order:
        order = _rank_positions(connection, candidates, recipe, values, order)
    order, units, n_duplicates = _drop_duplicates(connection, candidates, recipe, encoder, order, tell)
    ranked = _RankedCandidates(candidates, values, order, units, n_duplicates)
    picked: list[PickedSamples | None] = []
    for sized in recipes:
        try:
            picked.append(_take_size(connection, ranked, sized, encoder, tell))
        except NothingToSelect:
            if sized is recipes[-1]:
                raise
            picked.append(None)
    return picked


def _take_size(
    connection: Connection,
    ranked: _RankedCandidates,
    recipe: Recipe,
    encoder: TextEncoder | None,
    tell: LineWriter,
) -> PickedSamples:
    """Return the samples that a recipe takes from its ranked candidates."""
    candidates, values, order, units, n_duplicates = ranked
    places = count_places(recipe, candidates.strata, candidates.stratum_places[order])
    n_tied, n_tied_left = None, None
    if recipe.choose == "best":
        thresholds = find_size_thresholds(values[order], candidates.stratum_places[order], places)
        _check_ties(recipe, candidates.strata, thresholds)
        n_tied, n_tied_left = count_ties(thresholds, recipe.ties)
        chosen = _take_best(connection, candidates, recipe, values, order, thresholds)
    elif recipe.choose == "random":
        order = order[np.argsort(candidates.draws[order], kind="stable")]
        chosen = order[choose_first_per_stratum(candidates.stratum_places[order], places)]
    else:
        assert units is not None, "a diverse subset compares texts"
        chosen = order[_choose_diverse(units, candidates.stratum_places[order], places, tell)]
    if not len(chosen):
        ties_remedy = ", or let ties include all" if recipe.ties == "exclude" else ""
        raise NothingToSelect(f"the recipe selects no sample: raise its count, share or quotas{ties_remedy}")
    return PickedSamples(
        candidates.sample_ids[chosen],
        values[chosen],
        n_eligible=len(values),
        n_tied=n_tied,
        n_tied_left=n_tied_left,
        n_duplicates=n_duplicates,
        encoder=_build_encoder_identity(encoder) if encoder else None,
    )


def combine_values(candidates: Candidates, recipe: Recipe) -> Values:
    """Return the value (n,) by which each candidate is ranked, the highest best. It is that of the recipe's one column,
    or the weighted mean of several columns, or of the ranks in them if `recipe.combine` is "ranks".
    """
    if len(recipe.by) == 1:
        return candidates.values[:, 0]
    combine = weighted_mean_rank if recipe.combine == "ranks" else weighted_mean
    return combine(candidates.values, list(recipe.by.values()))


def _rank_positions(
    connection: Connection, candidates: Candidates, recipe: Recipe, values: Values, positions: Positions
) -> Positions:
    """Return positions from the best value to the worst; equal values in order of kind and key, or of draws.

    Only samples that share their value are looked up, since sorting all keys would take longer than everything else.
    """
    if recipe.ties == "random":
        return positions[np.lexsort((candidates.draws[positions], -values[positions]))]
    order = positions[np.argsort(-values[positions])]
    is_as_before = values[order[1:]] == values[order[:-1]]
    is_equal = np.zeros(len(order), dtype=np.bool_)
    is_equal[1:] |= is_as_before
    is_equal[:-1] |= is_as_before
    equals = order[is_equal]
    places = compute_key_places(connection, candidates.sample_ids[equals])
    order[is_equal] = equals[np.lexsort((places, -values[equals]))]
    return order


def _drop_duplicates(
    connection: Connection,
    candidates: Candidates,
    recipe: Recipe,
    encoder: TextEncoder | None,
    order: Positions,
    tell: LineWriter,
) -> tuple[Positions, Units | None, int]:
    """Return the samples of `order` that stay, the vectors of their texts where these are compared, and how many go."""
    n = len(order)
    if recipe.dedupe_videos is not None:
        n_videos = len(candidates.video_vectors or candidates.signatures)
        tell(f"comparing {format_count(n_videos, 'video')} with one another")
        order = order[_filter_videos(candidates, order, recipe.dedupe_videos)]
    if recipe.dedupe is not None and encoder is not None:
        # Equal texts have equal vectors: what becomes of the first one decides, and the others go.
        _, first = np.unique(candidates.text_sha256[order], return_index=True)
        order = order[np.sort(first)]
    units = load_unit_vectors(connection, encoder, candidates.text_sha256[order].tolist()) if encoder else None
    if recipe.dedupe is not None and units is not None:
        tell(f"comparing {format_count(len(order), 'text')} with one another")
        keep = drop_near_duplicates(units, recipe.dedupe)
        if (missed := estimate_missed(units, keep, recipe.dedupe)) is not None:
            tell(
                f"of the near-duplicates an estimated {format_percent(missed.share, 1)} was missed, up to "
                f"{format_percent(missed.high, 1)}: so many texts are compared with their nearest ones only"
            )
        order = order[keep]
        units = units[keep] if recipe.choose == "diverse" else None
    return order, units, n - len(order)


def _filter_videos(candidates: Candidates, order: Positions, at_least: float) -> npt.NDArray[np.bool_]:
    """Return a mask of the samples of `order` that stay. Samples go whose video is too similar to that of a better
    sample.

    The samples of one video stay or go together, and a video without a signature, or without a vector, stays.
    """
    known = candidates.video_vectors or candidates.signatures
    videos = candidates.video_ids[order]
    distinct, first = np.unique(videos, return_index=True)
    ranked = [video for video in distinct[np.argsort(first)].tolist() if video in known]
    if not ranked:
        return np.ones(len(order), dtype=np.bool_)
    if candidates.video_vectors:
        vectors = np.stack([candidates.video_vectors[video] for video in ranked])
        units = normalise_rows("video", vectors.astype(np.float64)).astype(np.float32)
    else:
        units = convert_to_unit_vectors([candidates.signatures[video] for video in ranked])
    gone = np.array(ranked)[~drop_near_duplicates(units, at_least)]
    return ~np.isin(videos, gone)


def _take_best(
    connection: Connection,
    candidates: Candidates,
    recipe: Recipe,
    values: Values,
    order: Positions,
    thresholds: Sequence[SizeThreshold],
) -> Positions:
    """Return the best of each stratum down to its threshold, best first; of equal values at it, the first ones."""
    worst, places = np.full(len(candidates.strata), np.inf), [0] * len(candidates.strata)
    for threshold in thresholds:
        worst[threshold.stratum], places[threshold.stratum] = threshold.value, threshold.count_selected(recipe.ties)
    best = order[values[order] >= worst[candidates.stratum_places[order]]]
    if not recipe.needs_order:
        best = _rank_positions(connection, candidates, recipe, values, best)
    return best[choose_first_per_stratum(candidates.stratum_places[best], places)]


def _check_ties(recipe: Recipe, strata: Sequence[str], thresholds: Sequence[SizeThreshold]) -> None:
    """Raise SelectionError where more than 5 % of a stratum's samples would be chosen by their keys among equals.

    A recipe that settles ties is never refused.
    """
    arbitrary = [threshold for threshold in thresholds if threshold.is_arbitrary]
    if recipe.ties != "refuse" or not arbitrary:
        return
    worst = max(arbitrary, key=lambda threshold: threshold.n_tied_asked / threshold.n_asked)
    have = "has" if worst.n_tied_asked == 1 else "have"
    where = f" in {recipe.per} {strata[worst.stratum]!r}" if recipe.per else ""
    others = f" ({len(arbitrary)} strata have such ties)" if len(arbitrary) > 1 else ""
    more, fewer = (sum(threshold.count_selected(ties) for threshold in thresholds) for ties in ("include", "exclude"))
    raise SelectionError(
        f"nothing is selected: {worst.n_tied_asked:,} of the {worst.n_asked:,} best by {' and '.join(recipe.by)}"
        f"{where} {have} the same value, {worst.value:.4g}, as {worst.n_tied_beyond:,} more, so that only their ids "
        f"could decide{others}: set ties (--ties) to random (draws by seed), include (selects {more:,}) or exclude "
        f"(selects {fewer:,})"
    )


def _choose_diverse(units: Units, stratum: Positions, places: Sequence[int], tell: LineWriter) -> Positions:
    """Return positions of a diverse subset of each stratum; the first choices of all strata come first."""
    chosen: list[Positions] = []
    turns: list[Positions] = []
    for number, n in enumerate(places):
        (members,) = np.nonzero(stratum == number)
        stratum_units = units if len(members) == len(units) else units[members]
        chosen.append(members[choose_diverse_rows(stratum_units, n, partial(_tell_progress, tell, n))])
        turns.append(np.arange(n))
    return np.concatenate(chosen)[np.argsort(np.concatenate(turns), kind="stable")]


def _tell_progress(tell: LineWriter, n: int, done: int) -> None:
    """Report how many diverse samples are chosen."""
    tell(f"{done} of {n} diverse samples chosen")


def _build_encoder_identity(encoder: TextEncoder) -> dict[str, object]:
    """Return the identity of an encoder without the folders of this machine, as a frozen selection keeps it."""
    identity = encoder.identity.as_dict()
    return {**identity, "model_id": strip_folders(identity["model_id"])}
