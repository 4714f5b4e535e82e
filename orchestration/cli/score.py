"""The command score: scores what has no score or a stale one."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Annotated

import typer

from orchestration.cli.metric_names import choose_metrics
from orchestration.cli.output import AsJson, DatasetName, print_json, print_plan, print_rows
from orchestration.cli.pass_installation import pass_installation
from orchestration.cli.refusals import UsageError

if TYPE_CHECKING:
    from orchestration.installation import Installation


class ScoringEngine(str, Enum):
    """The place where scores are computed: in this process, or by actors on Ray."""

    PROCESS = "process"
    RAY = "ray"


@pass_installation
def score(
    installation: Installation,
    dataset: DatasetName,
    metric: Annotated[
        list[str] | None, typer.Option(help="A metric; may be given several times (default: all).")
    ] = None,
    early_exit: Annotated[
        bool, typer.Option("--early-exit", help="Ask a model only until a decision is certain: same scores, less work.")
    ] = False,
    shard: Annotated[
        list[int] | None, typer.Option(help="The number of a shard; may be given several times (default: all).")
    ] = None,
    engine: Annotated[
        ScoringEngine,
        typer.Option(help="Score in this process, or on Ray: the cluster of RAY_ADDRESS, else this machine."),
    ] = ScoringEngine.PROCESS,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Only show the plan, the pending samples and the requests to model servers."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Score every sample without a score or with a stale one, and store the scores. After a stop, the same command goes
    on.

    Commands that run at once, on this or other machines, share the shards among them.
    """
    from assets.scores.registry import list_source_classes
    from orchestration.cluster.launch import run_scoring_on_ray
    from orchestration.forecasts import explain_unscorable_metrics, forecast_scoring, load_dataset_plan
    from orchestration.launch import run_scoring
    from orchestration.terminal import print_warning

    metrics = choose_metrics(installation, metric)
    if early_exit and not any("early_exit" in kind.options for kind in list_source_classes(metrics).values()):
        raise UsageError(f"--early-exit has no effect: the models of {', '.join(metrics)} cannot stop early")
    for _, sentence in explain_unscorable_metrics(installation, dataset, metrics, shard):
        print_warning(sentence)
    if dry_run:
        rows = forecast_scoring(installation, dataset, metrics, shard)
        if as_json:
            print_json(rows)
        else:
            print_plan(load_dataset_plan(installation, dataset, metrics))
            print_rows(rows, empty="")
        return
    options = {"early_exit": True} if early_exit else {}
    run = run_scoring if engine is ScoringEngine.PROCESS else run_scoring_on_ray
    shards = [{"shard": key, **written} for key, written in run(installation, dataset, metrics, options, shard)]
    if as_json:
        print_json({"dataset": dataset, "shards": shards})
    else:
        print_rows(shards, empty=f"nothing to score: every sample of {_describe_scope(dataset, shard)} is scored")


def _describe_scope(dataset: str, shards: list[int] | None) -> str:
    """Return the dataset's name, with the numbers of the chosen shards if there are any."""
    if not shards:
        return dataset
    return f"shard{'s' if len(shards) > 1 else ''} {', '.join(map(str, shards))} of {dataset}"
