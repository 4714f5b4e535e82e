"""Selects samples by a recipe: loads the candidates, picks from them, and freezes the result, or previews it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from sqlalchemy.engine import Connection, Engine

from assets.progress import LineWriter
from assets.selection.pick import combine_values, pick_samples
from assets.selection.places import count_places
from assets.selection.vectors import embed_missing_texts
from assets.trial.sentences import advise_size
from assets.words.text import format_count, join_names
from db.evidence.models import find_model_id
from db.manifest.datasets import Dataset
from db.selection.candidates import Candidates, PickedSamples, list_texts_without_vector, load_candidates
from db.selection.eligible import EligibleSamples, find_eligible_samples
from db.selection.freeze import Selection, freeze_selection
from db.selection.preview import Preview, compute_preview
from db.selection.recipes import Recipe, SizeMissing
from db.selection.trials import load_trials
from metrics_core.calibration.search import KEPT_SHARES
from metrics_core.protocols import TextEncoder
from metrics_core.selection.strata import choose_first_per_stratum

MakeEncoder = Callable[[], TextEncoder]


def make_selection(
    engine: Engine, dataset: Dataset, recipe: Recipe, make_encoder: MakeEncoder, tell: LineWriter
) -> Selection:
    """Freeze in the database the samples that a recipe selects from a dataset, and return the selection; the same
    recipe and scores give the earlier one. make_encoder: called only if the recipe compares texts; missing vectors are
    then stored first. Raises SelectionError, SizeMissing for a recipe without a size, FilterError for a forbidden
    condition, and the encoder's errors.
    """
    encoder = embed_for_recipe(engine, dataset, recipe, make_encoder, tell)
    with engine.begin() as connection:
        return freeze_selection(connection, *choose_samples(connection, dataset, recipe, encoder, tell, lock=True))


def preview_selection(
    engine: Engine,
    dataset: Dataset,
    recipe: Recipe,
    make_encoder: MakeEncoder,
    tell: LineWriter,
    approve: Callable[[str], bool] | None = None,
) -> Preview:
    """Return a summary of the selection that `make_selection` would freeze, and raise what it raises. It freezes
    nothing, but stores missing vectors of texts if the recipe compares texts. make_encoder, tell: as in
    `make_selection`. approve: as in `embed_missing_texts`.
    """
    encoder = embed_for_recipe(engine, dataset, recipe, make_encoder, tell, approve)
    with engine.begin() as connection:
        return compute_preview(connection, *choose_samples(connection, dataset, recipe, encoder, tell, lock=False))


def choose_samples(
    connection: Connection,
    dataset: Dataset,
    recipe: Recipe,
    encoder: TextEncoder | None,
    tell: LineWriter,
    *,
    lock: bool,
) -> tuple[EligibleSamples, PickedSamples]:
    """Return the samples of a dataset that meet a recipe's conditions, and those that the recipe picks from them, in
    order of rank. encoder: the model whose vectors of all texts are stored; None for none. lock: whether the choice is
    to be frozen, so that others who freeze wait. Must begin a transaction. Raises what `make_selection` raises.
    """
    eligible = find_eligible_samples(connection, dataset, recipe, lock=lock)
    candidates = load_candidates(connection, eligible)
    if not recipe.has_size:
        _, advice = advise_size(load_trials(connection, dataset_id=dataset.dataset_id))
        raise SizeMissing(f"{_explain_shares(candidates, recipe, dataset.name)}; {advice}")
    (picked,) = pick_samples(connection, candidates, [recipe], encoder, tell)
    return eligible, picked


def embed_for_recipe(
    engine: Engine,
    dataset: Dataset,
    recipe: Recipe,
    make_encoder: MakeEncoder,
    tell: LineWriter,
    approve: Callable[[str], bool] | None = None,
) -> TextEncoder | None:
    """Store the vectors that a recipe lacks, and return their encoder; None where no vectors are compared. approve: as
    in `embed_missing_texts`.
    """
    if not (recipe.needs_vectors and recipe.has_size):
        return None
    encoder = make_encoder()
    with engine.begin() as connection:
        eligible = find_eligible_samples(connection, dataset, recipe, lock=False)
        model_id = find_model_id(connection, encoder.identity.as_dict())
        missing = list_texts_without_vector(connection, eligible, model_id)
    embed_missing_texts(engine, encoder, missing, tell, approve=approve)
    return encoder


def _explain_shares(candidates: Candidates, recipe: Recipe, dataset: str) -> str:
    """Return the message that a size is missing, with how many candidates each share keeps, and down to which value."""
    values = combine_values(candidates, recipe)
    order = np.argsort(-values)
    stratum, share_texts = candidates.stratum_places[order], []
    for share in KEPT_SHARES:
        places = count_places(recipe.model_copy(update={"keep": share}), candidates.strata, stratum)
        lowest = values[order[choose_first_per_stratum(stratum, places)]].min()
        down_to = f" (down to {lowest:.4g})" if recipe.choose == "best" else ""
        share_texts.append(f"{share:g} keeps {sum(places):,}{down_to}")
    before = ", before near-duplicates are left out" if recipe.dedupe or recipe.dedupe_videos else ""
    return (
        f"nothing is selected, because the recipe has no size: of the {format_count(len(order), 'sample')} of "
        f"{dataset} with {' and '.join(recipe.by)}{before}, a share of {join_names(share_texts)}; give keep (--keep), "
        "count (--count) or at_least (--at-least)"
    )
