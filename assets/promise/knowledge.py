"""Whether what a recipe takes knows the answers that a promise counts: two exact tests at a fixed level."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from sqlalchemy.engine import Connection

from assets.promise.state import PromiseState, find_judge_id, load_source_answers
from assets.promise.terms import JUDGE, PromiseTerms
from assets.words.text import join_names
from db.selection.columns import RATING_PREFIX, TAG_PREFIX
from db.selection.eligible import EligibleSamples
from db.selection.promises import AnswerSource, list_late_columns, load_draw_numbers, load_shared_samples
from db.selection.recipes import SelectionError
from metrics_core.arithmetic import compute_fisher_p
from metrics_core.arrays import BoolArray

LEVEL = 0.01
"""A recipe is refused where chance would explain with less than this what its captions have before the others."""
_REMEDY = "choose by columns that were there before the answers"
# Columns that no answer changes.
_FIXED = frozenset({"n_characters", "kind"})


def check_knowledge(
    connection: Connection,
    eligible: EligibleSamples,
    terms: PromiseTerms,
    state: PromiseState,
    sources: Collection[AnswerSource],
) -> None:
    """Raise SelectionError where a recipe may have chosen its captions by the answers: they are rarer among those asked
    first than among the others; or it uses something written after the answers, and its captions have fewer errors.
    Answers in another dataset count, too. sources: as from `list_answer_sources`.
    """
    place = max(state.n_confirmed - 1, 0)
    counted = state.list_counted(place)
    if not counted.size:
        return
    recipe, scorer_id = eligible.recipe, find_judge_id(eligible, terms)
    # A metric is computed from texts and videos, unless it was imported or computed for a draw only.
    metrics = {f"{name}{end}".lower() for name in eligible.scorers for end in ("", "_status", "_models")}
    late = list_late_columns(connection, eligible.dataset, terms.aspect, scorer_id)
    names = {name.lower() for name in recipe.column_names}
    of_manifest = {name for name in names - metrics - _FIXED if not name.startswith((RATING_PREFIX, TAG_PREFIX))}
    suspects = {name for name in names if _strip_ending(name) in late} | (of_manifest if "" in late else set())
    ranking = {name.lower() for name in (*recipe.by, recipe.per or "")} - {JUDGE}
    members = state.sets.picked[place].sample_ids if suspects & ranking else state.sets.candidate_ids
    if conditions := names - (metrics - suspects) - _FIXED:
        draws = load_draw_numbers(connection, eligible.dataset, terms.seed)
        last = draws.numbers[np.searchsorted(draws.sample_ids, counted[-1])]
        _refuse_rarer(np.isin(draws.sample_ids, members), draws.numbers <= last, conditions)
    if suspects:
        ids, wrong = load_source_answers(connection, AnswerSource(eligible.dataset, terms.aspect), terms, scorer_id)
        _refuse_better(np.isin(ids, members), wrong, suspects)
    for source in sources:
        if source.dataset.dataset_id == eligible.dataset.dataset_id:
            continue
        ids, wrong = load_source_answers(connection, source, terms, scorer_id)
        theirs, same = load_shared_samples(connection, eligible.dataset, source.dataset)
        is_member, is_asked = np.isin(same, members), np.isin(theirs, ids)
        if 2 * np.isin(counted, same[is_asked]).sum() >= counted.size:
            name = f"the choice of captions from dataset {source.dataset.name}"
            _refuse_rarer(is_member, is_asked, {name})
            _refuse_better(np.isin(ids, theirs[is_member]), wrong, {name})


def _refuse_rarer(is_member: BoolArray, is_first: BoolArray, names: Collection[str]) -> None:
    first, others = is_member[is_first], is_member[~is_first]
    if others.size and compute_fisher_p((first.sum(), first.size), (others.sum(), others.size)) < LEVEL:
        raise SelectionError(
            f"the recipe takes {first.sum():,} of {first.size:,} captions that were asked first, but {others.sum():,} "
            f"of {others.size:,} others, so that {join_names(sorted(names))} may know the answers: {_REMEDY}"
        )


def _refuse_better(is_member: BoolArray, is_wrong: BoolArray, names: Collection[str]) -> None:
    taken, others = is_wrong[is_member], is_wrong[~is_member]
    if others.size and compute_fisher_p((taken.sum(), taken.size), (others.sum(), others.size)) < LEVEL:
        raise SelectionError(
            f"{join_names(sorted(names))} may know the answers: written after captions were answered, and "
            f"{taken.sum():,} of {taken.size:,} answers about captions that the recipe takes are errors, but "
            f"{others.sum():,} of {others.size:,} about others: {_REMEDY}"
        )


def _strip_ending(name: str) -> str:
    return name.removesuffix("_status").removesuffix("_models")
