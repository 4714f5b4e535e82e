"""The command explain: why a sample has its scores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestration.cli.output import AsJson, DatasetName, print_json, print_rows, print_sentence
from orchestration.cli.pass_installation import pass_installation
from orchestration.cli.refusals import RequestRefused

if TYPE_CHECKING:
    from assets.scores.explain import ExplainedScore
    from orchestration.installation import Installation


@pass_installation
def explain(
    installation: Installation,
    sample: Annotated[str, typer.Argument(help="Id of a caption or question.")],
    dataset: DatasetName,
    metric: Annotated[list[str] | None, typer.Option(help="Metric; may be repeated (default: all).")] = None,
    as_json: AsJson = False,
) -> None:
    """Show why a sample has its scores: what the metrics compared, what decided, and the facts about text and video."""
    from assets.datasets.lookup import require_dataset
    from assets.scores.explain import explain_score, load_facts_of_key
    from assets.words.text import format_compact
    from orchestration.cli.metric_names import choose_dataset_metrics

    dataset_row = require_dataset(installation.engine, dataset)
    scorers = installation.curation.scorers
    explained = [
        explain_score(installation.engine, name, scorers.get(name), dataset_row, sample)
        for name in choose_dataset_metrics(installation, dataset_row, metric)
    ]
    scores = [score for score in explained if score is not None]
    if not scores:
        raise RequestRefused(
            f"dataset {dataset} has no sample {sample!r}: reelsieve dataset scores {dataset} lists the samples"
        )
    facts = load_facts_of_key(installation.engine, dataset_row, sample)
    has_scores = any(score.status is not None for score in scores)
    if not has_scores and not facts:
        computed = [name for name in metric or () if name in scorers]
        command = " ".join([f"run reelsieve score --dataset {dataset}", *(f"--metric {name}" for name in computed)])
        of, remedy = f" of {' or '.join(metric)}" if metric else "", "import one with rs.import_scores"
        raise RequestRefused(f"{sample!r} has no score{of} yet: {command if computed or not metric else remedy}")
    if as_json:
        print_json([{**score.as_dict(), "facts": facts} for score in scores])
        return
    print_sentence(f"{scores[0].sample} by {scores[0].system}", style="bold")
    print_sentence(scores[0].text, style="dim")
    for score in scores if has_scores else ():
        _print(score)
    if facts:
        shown = ", ".join(f"{name} {format_compact(value)}" for name, value in facts.items())
        print_sentence("\nfacts", style="bold")
        print_sentence(shown)


def _print(score: ExplainedScore) -> None:
    value: Any = "not scored yet" if score.status is None else score.status
    if score.value is not None:
        value = f"{score.value:.4f}"
    models = f" ({', '.join(score.models)})" if score.models else ""
    print_sentence(f"\n{score.metric} {value}{models}", style="bold")
    for line in [*filter(None, [score.error]), *score.explanation.lines]:
        print_sentence(line)
    if score.explanation.rows:
        print_rows(score.explanation.rows, empty="")
