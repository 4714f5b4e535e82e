"""The command stress: can a metric be raised by text that adds no truth, and does it lose where truth is taken away?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestration.cli.metric_names import choose_metrics
from orchestration.cli.output import AsJson, DatasetName, console, print_json, print_rows, print_sentence, show_progress
from orchestration.cli.pass_installation import pass_installation

if TYPE_CHECKING:
    from metrics_core.stress.effects import Effect
    from orchestration.installation import Installation


@pass_installation
def stress(
    installation: Installation,
    metric: Annotated[str, typer.Argument(help="Metric or simple score to stress.")],
    dataset: DatasetName,
    draw: Annotated[int, typer.Option(min=1, max=100_000, help="Number of scored captions to draw and rewrite.")] = 300,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the drawn captions and of their rewrites.")] = 0,
    show: Annotated[int, typer.Option(min=0, max=100_000, help="Number of captions to show with all rewrites.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Show how a metric reacts to rewritten captions: to words that add no truth, and to truth taken out.

    The metric's models see every rewrite. The outcome is stored for the report, in place of the scorer's
    earlier one.
    """
    from assets.stress.sentences import describe_stress, explain_stress
    from assets.stress.stress import stress_metric
    from assets.words.text import format_count, format_short
    from orchestration.dataset_holds import hold_dataset

    (chosen,) = choose_metrics(installation, [metric])
    engine, scorer = installation.engine, installation.curation.scorers[chosen]
    with hold_dataset(engine, dataset) as of, show_progress() as tell:
        outcome, shown = stress_metric(engine, of, scorer, n_drawn=draw, seed=seed, n_shown=show, tell=tell)
    name = f"{outcome.metric}@{outcome.scorer_id}"
    models = [str(model["model_id"]) for model in scorer.models().values()]
    if as_json:
        print_json({"dataset": of.name, "scorer": name, "models": models, **describe_stress(outcome), "shown": shown})
        return
    for sentence in explain_stress(outcome, outcome.metric):
        console.print(sentence)
    console.print()
    rows = [_build_row(effect) for effect in outcome.effects]
    print_rows(rows, empty="", right=("change", "rank", "rise", "best 1/8", "all"))
    notes = [
        f"{' by '.join([name, *filter(None, [', '.join(models)])])}, seed {seed}",
        "change, rank: means, with 95 % intervals over videos; "
        f"a change below {format_short(outcome.small_change)} is small",
        "best 1/8, all: captions that look so without a rewrite",
    ]
    if outcome.n_timed:
        notes.append(f"left out: {format_count(outcome.n_timed, 'caption')} with times, which rewrites would break")
    if outcome.n_unscored:
        notes.append(f"left out: {format_count(outcome.n_unscored, 'caption')} without a value when scored again")
    for note in notes:
        print_sentence(note, style="dim")
    _print_rewrites(shown)


def _print_rewrites(shown: Iterable[Mapping[str, Any]]) -> None:
    from assets.words.text import format_short

    for _, rewrites in groupby(shown, key=lambda row: row["sample"]):
        first, *_ = rows = list(rewrites)
        print_sentence(f"\n{first['sample']} {format_short(first['before'])}", style="bold")
        console.print(first["text"], style="dim")
        for row in rows:
            after = row["status"] if row["after"] is None else format_short(row["after"])
            console.print(f"{row['kind']} {after}: {row['rewrite']}")


def _build_row(effect: Effect) -> dict[str, Any]:
    """One kind of rewrite, in a row that fits 80 columns."""
    from assets.stress.sentences import format_change
    from assets.words.text import NO_VALUE, format_percent

    has_sign = effect.best_look_alike is not None
    return {
        "rewrite": effect.rewrite,
        "n": effect.n,
        "change": format_change(effect),
        "rank": NO_VALUE if effect.rank_change is None else f"{effect.rank_change:+.0f}",
        "rise": format_percent(effect.rise_share),
        "best 1/8": format_percent(effect.best_look_alike) if has_sign else "",
        "all": format_percent(effect.all_look_alike) if has_sign else "",
    }
