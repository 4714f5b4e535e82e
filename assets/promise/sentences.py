"""Sentences about a promise: what is confirmed, what is not, and how many answers are still needed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from assets.promise.state import PromiseState
from assets.words.text import format_count, join_names


def explain_promise(promise: Mapping[str, Any], n: int) -> str:
    """Return a sentence about a selection of n rows: what is promised about it, and from how many answers. promise:
    column `promise` of its row in table `selection`. A judge is named by its model, and one that answers always the
    same is pointed out.
    """
    by, only = promise.get("models"), promise.get("only_answer")
    judge = f" by {by}" if by else ""
    warning = "" if only is None else f"; all its scores in the dataset are {only:g}, so it may not notice errors"
    return (
        f"promised with confidence {promise['confidence']:g}: at most {promise['upper_bound']:,} of {n:,} are errors "
        f"({promise['n_allowed']:,} would be {promise['errors_at_most']:g}); {promise['n_wrong']} of "
        f"{promise['n_asked']} asked are errors, which is {promise['error']}{judge}{warning}{explain_raters(promise)}"
    )


def explain_raters(promise: Mapping[str, Any]) -> str:
    """Return the end of a sentence that says whose ratings decide what an error is, and how many were changed; "" where
    a judge answers, or there is no rating. promise: its raters, n_raters and n_changed, as the passport has them.
    """
    names = list(promise.get("raters") or ())
    if not names:
        return ""
    listed = join_names(names)
    if len(names) <= promise["n_raters"]:
        whose = f"; rated by {listed}"
    elif promise["n_raters"] == 1:
        whose = f"; of {listed}, the first who rated a caption decides"
    else:
        whose = f"; of {listed}, the first {promise['n_raters']} who rated a caption decide"
    n_changed = promise.get("n_changed")
    changed = f"; {format_count(n_changed, 'rating')} changed later, and the first value counts" if n_changed else ""
    return whose + changed


def explain_refusal(state: PromiseState, raters: Mapping[str, Any]) -> str:
    """Return the message that nothing is selected, since the strictest set is not confirmed, with the remedy. raters:
    as in `explain_raters`.
    """
    first = state.states[0]
    have = (
        f"{first.n_wrong} of {first.n_asked} answers are errors ({state.terms.explain_error()}{explain_raters(raters)})"
        if first.n_asked
        else "it has no answer yet"
    )
    share = f"{state.sets.shares[0]:g} with {format_count(first.size, 'sample')}"
    return (
        f"nothing is selected: the strictest share, {share}, is not confirmed to have at most "
        f"{format_count(first.n_allowed, 'error')}, since {have}; {explain_need(state, 0)}"
    )


def explain_need(state: PromiseState, place: int) -> str:
    """Return a clause with the answers that a set that is not confirmed still needs, and how to give them."""
    needed, share = state.count_needed(place), state.sets.shares[place]
    if needed.least is None:
        return (
            f"share {share:g} has too many errors to be confirmed by any answers: give a higher limit or another recipe"
        )
    least = format_count(needed.least, "more answer")
    if needed.likely is not None:
        need = f"share {share:g} probably needs {format_count(needed.likely, 'more answer')}"
    elif state.states[place].n_asked:
        need = f"share {share:g} has errors too often to be confirmed soon, only {least} without an error would do it"
    else:
        need = f"share {share:g} needs {least}, and more if there are errors"
    return f"{need}: {_name_command(state)}"


def explain_countdown(state: PromiseState) -> str:
    """Return a sentence for raters: how many more answers a promise needs now. It shows no answer and no share."""
    name = f"promise {state.attempt.promise_id}"
    if state.n_confirmed == len(state.states):
        return f"{name} needs no more answers"
    needed = state.count_needed(state.n_confirmed)
    if needed.least is None:
        return f"{name} is decided: no further answers can change it"
    n_more = needed.least if needed.likely is None else needed.likely
    return f"{format_count(n_more, 'more answer')} for {name}, as things are"


def list_set_rows(state: PromiseState) -> list[dict[str, Any]]:
    """List all sets of a promise as dicts by column, for a table or JSON: share, samples, answers that count, errors
    among them, the upper bound, what is allowed, whether the set is confirmed, and the answers it probably needs.
    """
    rows = []
    for place, (share, of_set) in enumerate(zip(state.sets.shares, state.states, strict=True)):
        needed = state.count_needed(place)
        rows.append(
            {
                "share": share,
                "samples": of_set.size,
                "answers": of_set.n_asked,
                "errors": of_set.n_wrong,
                "at_most": of_set.bound,
                "allowed": of_set.n_allowed,
                "confirmed": place < state.n_confirmed,
                "more_at_least": 0 if of_set.is_confirmed else needed.least,
                "more_probably": 0 if of_set.is_confirmed else needed.likely,
            }
        )
    return rows


def name_judge_command(state: PromiseState) -> str:
    """Return the command by which the judge answers for a promise in the promise's order, without its --draw."""
    seed = f" --seed {state.terms.seed}" if state.terms.seed else ""
    return f"reelsieve score --dataset {state.sets.eligible.dataset.name} --metric judge{seed}"


def _name_command(state: PromiseState) -> str:
    if state.terms.aspect is None:
        return f"{name_judge_command(state)} --draw with a larger number asks the judge"
    return f"reelsieve rate {state.sets.eligible.dataset.name} --for-promise {state.attempt.promise_id} serves them"
