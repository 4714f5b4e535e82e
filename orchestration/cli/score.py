"""The command score: scores what has no score or a stale one."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestration.cli.metric_names import choose_metrics
from orchestration.cli.output import (
    AsJson,
    DatasetName,
    print_error,
    print_json,
    print_plan,
    print_rows,
    print_sentence,
)
from orchestration.cli.pass_installation import pass_installation
from orchestration.cli.refusals import UsageError

if TYPE_CHECKING:
    from db.selection.draws import Draw
    from orchestration.installation import Installation


FEWEST_REPEATS = 3
"""The first answer is asked for in another way than the others, of which two can differ."""
MOST_REPEATS = 100


class ScoringEngine(str, Enum):
    """The place where scores are computed: in this process, or by actors on Ray."""

    PROCESS = "process"
    RAY = "ray"


@pass_installation
def score(
    installation: Installation,
    dataset: DatasetName,
    metric: Annotated[list[str] | None, typer.Option(help="Metric; may be repeated (default: all).")] = None,
    facts: Annotated[
        bool, typer.Option("--facts", help="Measure missing facts too, in the same pass over a video as its frames.")
    ] = False,
    draw: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=2**63 - 1,
            help="Number of samples to score, drawn at random; a larger number later adds more.",
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, max=2**63 - 1, help="Seed of the random order of --draw (default: 0).")
    ] = None,
    where: Annotated[
        str | None, typer.Option(help='Condition on the samples of --draw, such as "words > 5" (as in select).')
    ] = None,
    repeat: Annotated[
        int | None,
        typer.Option(
            min=FEWEST_REPEATS,
            max=MOST_REPEATS,
            help="Number of answers to ask for every sample of --draw, to see how steady a judge is; its score stays.",
        ),
    ] = None,
    shard: Annotated[
        list[int] | None, typer.Option(help="Number of a shard to score; may be repeated (default: all).")
    ] = None,
    engine: Annotated[
        ScoringEngine,
        typer.Option(
            help="Engine to score with: this process, or Ray (the cluster of RAY_ADDRESS, else this machine)."
        ),
    ] = ScoringEngine.PROCESS,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Show the plan, the pending samples and the requests to model servers, and score nothing."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Compute the scores that are missing or stale, and store them; `dataset scores` lists them.

    After a stop, run the same command again: nothing is computed twice. Commands that run at once, on this or other
    machines, share the shards among them.
    """
    from orchestration.cluster.launch import run_scoring_on_ray
    from orchestration.forecasts import explain_unscorable_metrics, forecast_scoring, load_dataset_plan
    from orchestration.launch import run_facts, run_scoring
    from orchestration.terminal import print_warning

    wanted = _build_draw({"seed": seed, "where": where, "repeat": repeat}, draw, metric, shard)
    metrics = choose_metrics(installation, metric)
    for _, sentence in explain_unscorable_metrics(installation, dataset, metrics, shard):
        print_warning(sentence)
    if dry_run:
        rows = forecast_scoring(installation, dataset, metrics, shard, wanted)
        if as_json:
            print_json(rows)
        else:
            print_plan(load_dataset_plan(installation, dataset, metrics if metric else None))
            print_rows(rows, empty="")
        return
    if wanted:
        _take_draw(installation, dataset, metrics, wanted)
    options = {"facts": True} if facts else {}
    run = run_scoring if engine is ScoringEngine.PROCESS else run_scoring_on_ray
    shards = [{"shard": key, **written} for key, written in run(installation, dataset, metrics, options, shard)]
    if facts:
        # Of the captions, and of the videos whose frames no score needs.
        run_facts(installation, dataset, shard)
    if as_json:
        print_json({"dataset": dataset, "shards": shards})
    else:
        scope = _describe_scope(dataset, shard)
        print_rows(shards, empty=f"nothing to score: every sample of {scope} has a value, or a reason for none")
        print_sentence(_format_values(installation, dataset, metrics))


def _build_draw(
    options: Mapping[str, Any], n: int | None, metric: list[str] | None, shard: list[int] | None
) -> Draw | None:
    """Return the draw of n samples that the options ask for; None without --draw. options: `seed`, `where` and
    `repeat`, None for those that are not given. Raises UsageError for options that do not fit.
    """
    from db.selection.draws import Draw

    if n is None:
        if given := [name for name, value in options.items() if value is not None]:
            raise UsageError(f"--{given[0]} belongs to --draw: add --draw and a number of samples, or leave it out")
        return None
    if not metric:
        raise UsageError("--draw needs a metric: give --metric, such as --metric judge")
    if shard:
        raise UsageError("--draw draws from the whole dataset: leave out --shard")
    return Draw(n, options["seed"] or 0, options["where"], options["repeat"] or 1)


def _take_draw(installation: Installation, dataset: str, metrics: list[str], draw: Draw) -> None:
    """Print what the samples of a draw will cost, and store the draw."""
    from assets.datasets.lookup import require_dataset
    from assets.scores.draws import store_draw
    from orchestration.forecasts import forecast_scoring

    for row in forecast_scoring(installation, dataset, metrics, draw=draw):
        print_error(_format_forecast(row))
    stored_dataset = require_dataset(installation.engine, dataset)
    for metric in metrics:
        store_draw(installation.engine, stored_dataset, installation.curation.scorers[metric], draw)


def _format_forecast(row: Mapping[str, Any]) -> str:
    """Return a forecast of one metric and model as a sentence.

    >>> _format_forecast({"metric": "judge", "pending": 2, "model": "m", "calls at most": 2, "tokens in": 3000,
    ...     "tokens out": 240, "money": 0.5})
    'judge: 2 drawn samples without a score; 2 requests at most to m, 3,000 tokens in, 240 out, price 0.5'
    """
    from assets.words.text import format_count

    samples = f"{row['metric']}: {format_count(row['pending'], 'drawn sample')} without a score"
    if not row["calls at most"]:
        return f"{samples}; no request"
    price = "no price set" if row["money"] is None else f"price {row['money']:.4g}"
    requests = format_count(row["calls at most"], "request")
    tokens = f"{row['tokens in']:,} tokens in, {row['tokens out']:,} out"
    return f"{samples}; {requests} at most to {row['model']}, {tokens}, {price}"


def _format_values(installation: Installation, dataset: str, metrics: list[str]) -> str:
    """Return a sentence that counts a dataset's samples with a value by these metrics, of which a stored result may
    have none.
    """
    from assets.datasets.lookup import require_dataset
    from db.scores.sample_scores import load_active_scorers

    stored = require_dataset(installation.engine, dataset)
    with installation.engine.connect() as connection:
        scorers = load_active_scorers(connection, stored)
    defined = {metric: scorers[metric].n_defined if metric in scorers else 0 for metric in metrics}
    counts = ", ".join(f"{metric} {count:,}" for metric, count in defined.items())
    why = "" if all(defined.values()) else f"; reelsieve dataset scores {dataset} shows why"
    return f"samples with a value: {counts}{why}"


def _describe_scope(dataset: str, shards: list[int] | None) -> str:
    """Return the dataset's name, with the numbers of the chosen shards if there are any."""
    if not shards:
        return dataset
    return f"shard{'s' if len(shards) > 1 else ''} {', '.join(map(str, shards))} of {dataset}"
