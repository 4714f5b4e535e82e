"""Selects with a promise: freezes the largest set of a recipe's order that answers confirm, or says what it needs."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy.engine import Connection, Engine

from assets.agreement.scales import load_scale
from assets.progress import LineWriter
from assets.promise.knowledge import check_knowledge
from assets.promise.sentences import explain_refusal
from assets.promise.state import (
    PromiseState,
    check_unchanged,
    compute_promise_state,
    find_judge_id,
    load_promise_answers,
    load_promise_sets,
    name_answer_source,
)
from assets.promise.terms import JUDGE, PromiseTerms, check_scale, check_terms, parse_record
from assets.selection.select import MakeEncoder, embed_for_recipe
from db.manifest.datasets import Dataset
from db.reports.judgements import load_mean_ratings
from db.selection.eligible import find_eligible_samples
from db.selection.freeze import Selection, freeze_selection
from db.selection.promises import (
    AnswerSource,
    Attempt,
    find_only_answer,
    list_answer_sources,
    list_promise_raters,
    require_attempt,
    store_attempt,
)
from db.selection.recipes import Recipe, SelectionError
from db.spelling import suggest_name
from metrics_core.protocols import TextEncoder


class PromiseUnconfirmed(SelectionError):
    """Raised where no set is confirmed to keep a promise. The message says what the strictest one still needs, and
    whose answers decide (`raters`); `state` has all sets.
    """

    def __init__(self, state: PromiseState, raters: Mapping[str, Any]) -> None:
        super().__init__(explain_refusal(state, raters))
        self.state = state


@dataclass(frozen=True, slots=True)
class PromisedSelection:
    """A frozen selection that keeps a promise, with the state of all sets of its order. promise: what is promised, as
    column `promise` of table `selection` has it.
    """

    selection: Selection
    state: PromiseState
    promise: Mapping[str, Any]


def make_promised_selection(
    engine: Engine, dataset: Dataset, recipe: Recipe, terms: PromiseTerms, make_encoder: MakeEncoder, tell: LineWriter
) -> PromisedSelection:
    """Freeze the largest set of a recipe's order that the answers confirm to keep a promise, and return it. The attempt
    is stored, also where nothing is confirmed: the same terms and the same order continue it, others begin a new one.
    make_encoder, tell: as in `make_selection`. Raises PromiseUnconfirmed where no set is confirmed, and what
    `make_selection` and `check_terms` raise.
    """
    check_terms(terms, recipe)
    if terms.aspect is not None:
        with engine.connect() as connection:
            rated = list(load_mean_ratings(connection, dataset))
            if terms.aspect not in rated and (hint := suggest_name(terms.aspect, rated, "")):
                begin = f"a new aspect begins with reelsieve rate {dataset.name} --aspect {shlex.quote(terms.aspect)}"
                raise SelectionError(f"nobody has rated {terms.aspect!r} in {dataset.name}{hint} ({begin})")
            check_scale(terms, load_scale(connection, dataset, terms.aspect))
    encoder = embed_for_recipe(engine, dataset, recipe.model_copy(update={"keep": 1.0}), make_encoder, tell)
    with engine.begin() as connection:
        state = _load_state(connection, dataset, recipe, terms, encoder, tell, promise_id=None)
        if state.n_confirmed:
            return _freeze(connection, dataset, recipe, state)
        raters = _describe_raters(connection, dataset, state, 0)
    raise PromiseUnconfirmed(state, raters)


def load_promise_state(
    engine: Engine, dataset: Dataset, promise_id: int, make_encoder: MakeEncoder, tell: LineWriter
) -> PromiseState:
    """Load the state of a stored promise with its present answers; nothing is frozen. Raises SelectionError where the
    dataset has no promise of this number, or the candidates are in another order now.
    """
    with engine.connect() as connection:
        terms, recipe = parse_record(require_attempt(connection, dataset, promise_id)["terms"])
    encoder = embed_for_recipe(engine, dataset, recipe.model_copy(update={"keep": 1.0}), make_encoder, tell)
    with engine.begin() as connection:
        return _load_state(connection, dataset, recipe, terms, encoder, tell, promise_id=promise_id)


def _load_state(
    connection: Connection,
    dataset: Dataset,
    recipe: Recipe,
    terms: PromiseTerms,
    encoder: TextEncoder | None,
    tell: LineWriter,
    *,
    promise_id: int | None,
) -> PromiseState:
    """Load the state of a stored attempt, or without a number that of an attempt which is stored if it is new."""
    eligible = find_eligible_samples(connection, dataset, recipe, lock=promise_id is None)
    source = name_answer_source(eligible, terms.aspect)
    sets = load_promise_sets(connection, eligible, terms, encoder, tell)
    sources: list[AnswerSource] = []
    if promise_id is None:
        record, n = terms.build_record(recipe), len(sets.sample_ids)
        sources = list_answer_sources(connection, dataset, terms.aspect, find_judge_id(eligible, terms))
        others = [(other.dataset.dataset_id, name_answer_source(eligible, other.aspect)) for other in sources]
        attempt = store_attempt(connection, dataset, source, others, record, sets.order_sha256, n)
    else:
        row = require_attempt(connection, dataset, promise_id)
        if bytes(row["order_sha256"]) != sets.order_sha256 or row["answered_by"] != source:
            raise SelectionError(
                f"promise {promise_id} is about an order of captions that has changed since, by scores, texts or new "
                "captions: run the same reelsieve promise again, which begins a new attempt"
            )
        attempt = Attempt(promise_id, row["attempt"])
    check_unchanged(connection, eligible, terms, sets.sample_ids)
    answers = load_promise_answers(connection, eligible, terms, sets.sample_ids)
    state = compute_promise_state(terms, sets, attempt, answers)
    if promise_id is None:
        check_knowledge(connection, eligible, terms, state, sources)
    return state


def _freeze(connection: Connection, dataset: Dataset, recipe: Recipe, state: PromiseState) -> PromisedSelection:
    """Freeze the largest confirmed set."""
    place = state.n_confirmed - 1
    sized = recipe.model_copy(update={"keep": state.sets.shares[place]})
    eligible = replace(state.sets.eligible, recipe=sized)
    promise = _build_promise(connection, dataset, state)
    selection = freeze_selection(connection, eligible, state.sets.picked[place], promise)
    return PromisedSelection(selection, state, promise)


def _build_promise(connection: Connection, dataset: Dataset, state: PromiseState) -> dict[str, Any]:
    """Return what is promised about the largest confirmed set, as the passport shows it."""
    terms, place = state.terms, state.n_confirmed - 1
    confirmed = state.states[place]
    by_people, judge = terms.aspect is not None, state.sets.eligible.scorers.get(JUDGE)
    return {
        "errors_at_most": terms.limit,
        "confidence": terms.confidence,
        "error": terms.explain_error(),
        "answered_by": name_answer_source(state.sets.eligible, terms.aspect),
        "models": None if by_people or judge is None else judge.models,
        "only_answer": None if by_people or judge is None else find_only_answer(connection, dataset, judge.scorer_id),
        **_describe_raters(connection, dataset, state, place),
        "n_asked": confirmed.n_asked,
        "n_wrong": confirmed.n_wrong,
        "upper_bound": confirmed.bound,
        "n_allowed": confirmed.n_allowed,
        "share": state.sets.shares[place],
        "shares": list(state.sets.shares),
        "seed": terms.seed,
        "order_sha256": state.sets.order_sha256.hex(),
        "promise_id": state.attempt.promise_id,
        "attempt": state.attempt.attempt,
        "level": state.level,
    }


def _describe_raters(connection: Connection, dataset: Dataset, state: PromiseState, place: int) -> dict[str, Any]:
    """Return whose answers count for a set, how many a caption, and how many were changed; None for a judge's."""
    terms = state.terms
    if terms.aspect is None:
        return dict.fromkeys(("raters", "n_raters", "n_changed"))
    raters, n_changed = list_promise_raters(
        connection, dataset, terms.aspect, terms.n_raters, state.list_counted(place)
    )
    return {"raters": raters, "n_raters": terms.n_raters, "n_changed": n_changed}
