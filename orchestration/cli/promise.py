"""The command promise: freezes the largest selection that answers confirm to hold few errors."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from orchestration.cli.output import (
    AsJson,
    DatasetName,
    console,
    print_error,
    print_json,
    print_rows,
    print_sentence,
    show_progress,
)
from orchestration.cli.pass_installation import pass_installation
from orchestration.cli.recipe_options import (
    AtLeast,
    By,
    Dedupe,
    RecipeFile,
    Seed,
    Where,
    make_text_encoder,
    prepare_recipe,
)
from orchestration.cli.refusals import UsageError
from orchestration.cli.selection_text import print_selection

if TYPE_CHECKING:
    from assets.promise.select import PromisedSelection
    from assets.promise.state import PromiseState
    from orchestration.installation import Installation


@pass_installation
def promise(
    installation: Installation,
    dataset: DatasetName,
    errors_at_most: Annotated[float, typer.Option(help="Share of errors to allow, such as 0.05.")],
    error_below: Annotated[
        float,
        typer.Option(
            help="Value below which a rating (1 to 5, or on the aspect's scale) or a judge's score (0 to "
            "1) is an error."
        ),
    ],
    by_people: Annotated[str | None, typer.Option(help="Aspect whose ratings by people are the answers.")] = None,
    by_judge: Annotated[
        bool, typer.Option("--by-judge", help="Use scores of the metric judge as the answers.")
    ] = False,
    raters: Annotated[int, typer.Option(min=1, help="Number of first ratings whose mean decides.")] = 1,
    confidence: Annotated[float, typer.Option(help="Confidence of the promise, between 0 and 1.")] = 0.95,
    shares: Annotated[
        str | None, typer.Option(help="Shares of the order to try, strictest first, such as 0.125,0.25,0.5,1.")
    ] = None,
    by: By = None,
    where: Where = None,
    at_least: AtLeast = None,
    dedupe: Dedupe = None,
    seed: Seed = None,
    recipe: RecipeFile = None,
    as_json: AsJson = False,
) -> None:
    """Freeze the largest selection that people's answers, or a judge's, confirm to hold few enough errors.

    Where nothing is confirmed yet, nothing is frozen, and the command says how many more answers it would take.
    """
    from assets.promise.select import PromiseUnconfirmed, make_promised_selection
    from assets.promise.terms import PromiseTerms
    from metrics_core.promise import DEFAULT_SHARES

    if by_people is not None and by_judge:
        raise UsageError("--by-people and --by-judge cannot be combined: give one of them")
    if by_people is None and not by_judge:
        raise UsageError("a promise needs answers: give either --by-people ASPECT or --by-judge")
    stored_dataset, rule = prepare_recipe(
        installation, dataset, recipe, by=by, where=where, at_least=at_least, dedupe=dedupe, seed=seed
    )
    terms = PromiseTerms(
        limit=errors_at_most,
        error_below=error_below,
        aspect=by_people,
        confidence=confidence,
        n_raters=raters,
        shares=DEFAULT_SHARES if shares is None else _parse_shares(shares),
        seed=rule.seed,
    )
    encoder = partial(make_text_encoder, installation)
    try:
        with show_progress() as tell:
            made = make_promised_selection(installation.engine, stored_dataset, rule, terms, encoder, tell)
    except PromiseUnconfirmed as refusal:
        print_error(f"error: {refusal}")
        _print_promise(refusal.state, None, as_json=as_json)
        raise typer.Exit(1) from None
    _print_promise(made.state, made, as_json=as_json)
    if not as_json:
        print_selection(installation, made.selection, rule, dataset, as_json=False)


def _parse_shares(text: str) -> tuple[float, ...]:
    from db.selection.recipes import SelectionError

    numbers = []
    for part in text.split(","):
        try:
            numbers.append(float(part))
        except ValueError as error:
            raise SelectionError(f"--shares: {part!r} is not a number: give numbers such as 0.25,0.5,1") from error
    return tuple(numbers)


def _print_promise(state: PromiseState, made: PromisedSelection | None, *, as_json: bool) -> None:
    """Print as JSON or for people how far the sets of a promise are confirmed, and the selection that was frozen; None
    where no set is confirmed, which the error message says then.
    """
    from assets.promise.sentences import explain_need, explain_promise, list_set_rows

    rows, attempt = list_set_rows(state), state.attempt
    if as_json:
        frozen = {} if made is None else {"selection_id": made.selection.selection_id, "n": made.selection.n}
        print_json({**frozen, "promise_id": attempt.promise_id, "attempt": attempt.attempt, "sets": rows})
        return
    if made is not None:
        console.print(explain_promise(made.promise, made.selection.n))
    further = f", one of {attempt.attempt} attempts on these answers" if attempt.attempt > 1 else ""
    print_sentence(f"promise {attempt.promise_id}{further}; its sets, strictest first:")
    print_rows(rows, empty="no set")
    if made is not None and state.n_confirmed < len(state.states):
        console.print(explain_need(state, state.n_confirmed))
