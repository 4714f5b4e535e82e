"""Watches whether later captions keep the promise of a selection: those that its rule would take and that it lacks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from assets.promise.state import load_promise_answers
from assets.promise.terms import JUDGE, PromiseTerms, parse_record
from assets.words.text import format_count
from db.manifest.datasets import Dataset
from db.selection.candidates import NothingToSelect, load_candidates
from db.selection.conditions import FilterError
from db.selection.eligible import EligibleSamples, find_eligible_samples
from db.selection.promises import (
    find_promised_selection,
    list_selected_ids,
    load_draw_numbers,
    require_attempt,
)
from db.selection.recipes import SelectionError
from metrics_core.promise import SetState, collect_set_answers, walk_sets


@dataclass(frozen=True, slots=True)
class WatchedPromise:
    """The newest selection of a dataset with a promise, and the captions that came later. state: what the answers about
    these show by the terms of the promise; None where nothing is watched, for the `reason`.
    """

    selection_id: int
    terms: PromiseTerms
    state: SetState | None
    reason: str = ""

    @property
    def is_kept(self) -> bool:
        """Whether nothing is watched, or all later captions are confirmed to keep the promise."""
        return self.state is None or self.state.is_confirmed

    def explain(self) -> str:
        """Return a sentence on the later captions."""
        if self.state is None:
            return f"Nothing is watched for selection {self.selection_id}: {self.reason}."
        found, later = self.state, format_count(self.state.size, "later caption")
        asked = f"{found.n_wrong} of {found.n_asked} asked" if found.n_asked else "none is asked yet"
        return (
            f"The rule of selection {self.selection_id} would take {later}: at most {found.bound:,} are errors, where "
            f"{found.n_allowed:,} are allowed ({asked}; an error is {self.terms.explain_error()})."
        )


def watch_promise(engine: Engine, dataset: Dataset) -> WatchedPromise | None:
    """Return whether later captions keep the promise of the newest selection of a dataset that has one; None if none
    has. Later captions reach the selection's cutoff, meet its conditions and are not in it. Nothing is watched without
    them, where several values decide what the rule takes, or where rule or judge no longer work.
    """
    with engine.connect() as connection:
        selection = find_promised_selection(connection, dataset)
        if selection is None:
            return None
        terms, recipe = parse_record(require_attempt(connection, dataset, selection["promise"]["promise_id"])["terms"])
    number = selection["selection_id"]
    if recipe.per or recipe.needs_order or recipe.choose != "best" or len(recipe.by) > 1:
        reason = "several columns, strata, near-duplicates or a draw decide what its rule takes"
        return WatchedPromise(number, terms, None, reason)
    with engine.begin() as connection:
        # A score that is stale meanwhile decides nothing.
        watched = recipe.model_copy(update={"stale": "leave_out"})
        try:
            eligible = find_eligible_samples(connection, dataset, watched, lock=False)
        except (SelectionError, FilterError) as error:
            return WatchedPromise(number, terms, None, f"its rule cannot be used any more ({error})")
        if terms.aspect is None and not _has_same_judge(eligible, selection["promise"]["answered_by"]):
            return WatchedPromise(number, terms, None, "the judge is another one by now")
        later = _list_later_ids(connection, eligible, selection)
        if not later.size:
            return WatchedPromise(number, terms, None, "no caption came later that its rule would take")
        draws = load_draw_numbers(connection, dataset, terms.seed)
        answers = load_promise_answers(connection, eligible, terms, later)
    numbers = draws.numbers[np.searchsorted(draws.sample_ids, later)]
    (of_set,) = collect_set_answers(numbers, answers, np.zeros(later.size, dtype=np.int64), 1)
    (state,) = walk_sets([later.size], [of_set], terms.limit, terms.level)
    return WatchedPromise(number, terms, state)


def _has_same_judge(eligible: EligibleSamples, answered_by: str) -> bool:
    scorer = eligible.scorers.get(JUDGE)
    return scorer is not None and f"{JUDGE} {scorer.fingerprint}" == answered_by


def _list_later_ids(
    connection: Connection, eligible: EligibleSamples, selection: sa.RowMapping
) -> npt.NDArray[np.int64]:
    """List the ids of eligible samples with at least the cutoff that a selection lacks, in order of ids. Where it left
    samples out that are tied at its cutoff, later ones there count no more than these.
    """
    try:
        candidates = load_candidates(connection, eligible)
    except NothingToSelect:
        return np.empty(0, dtype=np.int64)
    values, cutoff = candidates.values[:, 0], selection["cutoff"]
    passing = candidates.sample_ids[values > cutoff if selection["n_tied_left"] else values >= cutoff]
    later: npt.NDArray[np.int64] = np.setdiff1d(passing, list_selected_ids(connection, selection["selection_id"]))
    return later
