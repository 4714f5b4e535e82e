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
from db.selection.candidates import Candidates, NothingToSelect, PickedSamples, load_key_places
from db.selection.exports import strip_folders
from db.selection.recipes import Recipe
from metrics_core.facts.signatures import convert_to_unit_vectors
from metrics_core.protocols import TextEncoder
from metrics_core.selection.diversity import choose_diverse_rows
from metrics_core.selection.duplicates import estimate_missed, mark_distinct_rows
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
    connection: Connection,
    candidates: Candidates,
    recipes: Sequence[Recipe],
    encoder: TextEncoder | None,
    tell: LineWriter,
) -> list[PickedSamples]:
    """Return the samples that each recipe selects from its candidates, in order of rank, with counts of those left out.
    recipes: differ only in size. encoder: the model whose vectors of all texts are stored; None to compare none.
    connection: in the transaction that loaded the candidates. Raises SelectionError for a recipe that cannot be met,
    NothingToSelect for no sample.

    The best come in order of value, equal values in order of kind and key; where the size ends among equal values,
    those with the lowest draws are taken. A random draw comes in order of its numbers, a diverse subset in the order of
    choosing. A recipe cannot be met where the candidates are fewer than it asks for. Candidates are ranked, and
    near-duplicates dropped, only once.
    """
    recipe = recipes[0]
    values = combine_values(candidates, recipe)
    order = np.arange(len(values))
    if recipe.needs_order:
        order = _rank_positions(connection, candidates, values, order)
    order, units, n_duplicates = _exclude_duplicates(connection, candidates, recipe, encoder, order, tell)
    ranked = _RankedCandidates(candidates, values, order, units, n_duplicates)
    return [_take_size(connection, ranked, sized, encoder, tell) for sized in recipes]


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
        order = order[np.lexsort((candidates.draws[order], -values[order]))]
        stratum = candidates.stratum_places[order]
        best = choose_first_per_stratum(stratum, places)
        chosen = _rank_positions(connection, candidates, values, order[best])
        cuts = np.full(len(places), np.inf)
        np.minimum.at(cuts, stratum[best], values[order[best]])
        is_tied = values[order] == cuts[stratum]
        n_tied = int(is_tied[best].sum())
        n_tied_left = int(is_tied.sum()) - n_tied
    elif recipe.choose == "random":
        order = order[np.argsort(candidates.draws[order], kind="stable")]
        chosen = order[choose_first_per_stratum(candidates.stratum_places[order], places)]
    else:
        assert units is not None, "a diverse subset compares texts"
        chosen = order[_choose_diverse(units, candidates.stratum_places[order], places, tell)]
    if not len(chosen):
        why = ": raise its count, share or quotas" if len(values) else ", since none meets its conditions: loosen them"
        raise NothingToSelect(f"the recipe selects no sample{why}")
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


def _rank_positions(connection: Connection, candidates: Candidates, values: Values, positions: Positions) -> Positions:
    """Return positions from the best value to the worst, equal values in order of kind and key.

    Only samples that share their value are looked up, since sorting all keys would take longer than everything else.
    """
    order = positions[np.argsort(-values[positions])]
    is_as_before = values[order[1:]] == values[order[:-1]]
    is_equal = np.zeros(len(order), dtype=np.bool_)
    is_equal[1:] |= is_as_before
    is_equal[:-1] |= is_as_before
    equals = order[is_equal]
    places = load_key_places(connection, candidates.sample_ids[equals])
    order[is_equal] = equals[np.lexsort((places, -values[equals]))]
    return order


def _exclude_duplicates(
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
        tell(f"looking for near-duplicates among {format_count(n_videos, 'video')}")
        order = order[_filter_videos(candidates, order, recipe.dedupe_videos)]
    if recipe.dedupe is not None and encoder is not None:
        # Equal texts have equal vectors: what becomes of the first one decides, and the others go.
        _, first = np.unique(candidates.text_sha256[order], return_index=True)
        order = order[np.sort(first)]
    units = load_unit_vectors(connection, encoder, candidates.text_sha256[order].tolist()) if encoder else None
    if recipe.dedupe is not None and units is not None:
        tell(f"looking for near-duplicates among {format_count(len(order), 'text')}")
        keep = mark_distinct_rows(units, recipe.dedupe)
        if (missed := estimate_missed(units, keep, recipe.dedupe)) is not None:
            tell(
                f"an estimated {format_percent(missed.share, 1)} of the near-duplicates stays, up to "
                f"{format_percent(missed.high, 1)}, since so many texts are compared with their nearest ones only"
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
    gone = np.array(ranked)[~mark_distinct_rows(units, at_least)]
    return ~np.isin(videos, gone)


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
    tell(f"{done:,} of {format_count(n, 'diverse sample')} chosen")


def _build_encoder_identity(encoder: TextEncoder) -> dict[str, object]:
    """Return the identity of an encoder without the folders of this machine, as a frozen selection keeps it."""
    identity = encoder.identity.as_dict()
    return {**identity, "model_id": strip_folders(identity["model_id"])}
