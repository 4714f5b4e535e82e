"""The command compare: two scorers on the same samples, and which of them is closer to people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestration.cli.output import AsJson, DatasetName, print_json, print_rows, print_sentence
from orchestration.cli.pass_installation import pass_installation

if TYPE_CHECKING:
    from assets.agreement.comparison import Comparison
    from assets.metrics.judge.repeated import JudgeSteadiness
    from assets.promise.estimated_means import EstimatedMean
    from db.manifest.datasets import Dataset
    from metrics_core.agreement import Estimate, PeopleComparison
    from orchestration.installation import Installation

STATISTICS = {"spearman": "Spearman's rho", "kendall_b": "Kendall's tau-b", "pearson": "Pearson's r"}


@pass_installation
def compare(
    installation: Installation,
    a: Annotated[str, typer.Argument(help="Metric, or one of its scorers: vcs, vcs@3, 3, or digits of its digest.")],
    b: Annotated[str, typer.Argument(help="Metric or scorer to compare with, named in the same way.")],
    dataset: DatasetName,
    limit: Annotated[
        int, typer.Option(min=1, max=1_000_000, help="Number of samples in each list of those whose ranks differ most.")
    ] = 5,
    as_json: AsJson = False,
) -> None:
    """Compare two scorers on the same samples: how similar their scores are, and which is closer to people."""
    from assets.agreement.compare import compare_scorers
    from assets.agreement.comparison import explain_comparison
    from assets.datasets.lookup import require_dataset

    stored_dataset = require_dataset(installation.engine, dataset)
    comparison = compare_scorers(installation.engine, stored_dataset, a, b, limit)
    means, scales = _load_means(installation, stored_dataset, comparison)
    judges = _load_steadiness(installation, stored_dataset, comparison)
    if as_json:
        estimated, steadiness = [mean.as_dict() for mean in means], [judge.as_dict() for judge in judges]
        further = {"estimated_means": estimated, "judges": steadiness}
        print_json({"dataset": dataset, **comparison.as_dict(), **further})
        return
    for sentence in explain_comparison(comparison):
        print_sentence(sentence)
    print_sentence("")
    _print_scorers(comparison)
    _print_scores(comparison)
    _print_movers(comparison)
    _print_people(comparison)
    _print_means(means, scales)
    for judge in judges:
        for sentence in judge.sentences:
            print_sentence(sentence)


def _load_steadiness(installation: Installation, dataset: Dataset, comparison: Comparison) -> list[JudgeSteadiness]:
    """Load the variance of the answers of both scorers' judges, where they were asked several times about a text."""
    from assets.metrics.judge.repeated import load_judge_steadiness

    with installation.engine.connect() as connection:
        return load_judge_steadiness(connection, dataset, [comparison.first, comparison.second])


def _load_means(
    installation: Installation, dataset: Dataset, comparison: Comparison
) -> tuple[list[EstimatedMean], dict[str, float]]:
    """Load the means of ratings and of the judge over all captions, corrected by one scorer and by the other, and the
    highest number of the scale of every rated aspect.
    """
    from assets.agreement.scales import load_scale_ends
    from assets.promise.estimated_means import estimate_means

    with installation.engine.connect().execution_options(isolation_level="REPEATABLE READ") as connection:
        means = estimate_means(connection, dataset, [comparison.first, comparison.second])
        rated = {mean.expensive_score for mean in means if mean.expensive_scorer_id is None}
        return means, load_scale_ends(connection, dataset, rated)


def _print_means(means: list[EstimatedMean], scales: Mapping[str, float]) -> None:
    """Print the estimated means of all captions, of each system and of selections; nothing where there are none.
    scales: as from `load_scale_ends`.
    """
    from assets.words.labels import format_rating
    from metrics_core.agreement import Estimate

    if not means:
        return
    print_sentence(
        "\nestimated means over all captions of a group, from the drawn captions with an answer (column n)",
        style="bold",
    )
    rows = []
    for mean in means:
        estimate, name = mean.estimate, mean.group_name
        interval = Estimate(estimate.value, estimate.low, estimate.high)
        rows.append(
            {
                "score": format_rating(mean.expensive_score, mean.expensive_score, scales),
                "captions": {"dataset": "all", "selection": f"selection {name}"}.get(mean.group_kind, name),
                "by": "–" if mean.helper is None else f"{mean.helper}@{mean.helper_scorer_id}",
                "mean": format_short_estimate(interval),
                "n": f"{estimate.n} of {estimate.size}",
                "gain": "–" if estimate.gain is None else f"{estimate.gain:.2f}",
                "more": "–" if mean.n_more is None else mean.n_more,
            }
        )
    print_rows(rows, empty="")
    widths = dict.fromkeys(f"{mean.half_width:g}" for mean in means)
    print_sentence(
        "by: the metric that corrects the mean; gain: how many times as many answers the plain mean would need; more: "
        f"further answers for an interval of ± {' or '.join(widths)}. Intervals are of these captions: they do not "
        "compare systems.",
        style="dim",
    )


def _print_scorers(comparison: Comparison) -> None:
    """Print both scorers, their settings that differ, and how many samples are compared."""
    from assets.agreement.comparison import format_missing_scores
    from assets.words.text import format_count

    sides = {"A": comparison.first, "B": comparison.second}
    for letter, scorer in sides.items():
        models = ", ".join(str(model["model_id"]) for model in scorer.models.values())
        line = f"{scorer.name} ({scorer.status}){f' by {models}' if models else ''}"
        print_sentence(f"{letter}  {line}")
    if comparison.is_same_metric:
        rows = [
            {"differs": name, "A": _text(first), "B": _text(second)} for name, first, second in comparison.differences
        ]
        print_rows(rows, empty="")
    print_sentence(
        f"\n{format_count(comparison.scores.n, 'sample')} of {format_count(comparison.scores.n_videos, 'video')} "
        f"compared, {comparison.n_left_out:,} left out"
    )
    for letter, missing in zip(sides, comparison.missing, strict=True):
        if missing:
            print_sentence(f"  {letter} has no value for {format_missing_scores(missing)}")


def _print_scores(comparison: Comparison) -> None:
    """Print how similarly both scorers order the samples."""
    rows = [
        _build_estimate_row(STATISTICS[name], estimate) for name, estimate in comparison.scores.correlations.items()
    ]
    if comparison.is_same_metric:
        rows.append(_build_estimate_row("mean of B - A", comparison.scores.mean_difference))
    print_sentence("")
    print_rows([{"A and B": row.pop("name"), **row} for row in rows], empty="")
    if comparison.scores.n_videos > 1:
        print_sentence("low, high: 95 % interval of the value over videos", style="dim")


def _print_movers(comparison: Comparison) -> None:
    """Print the samples whose rank differs most between the scorers."""
    for title, moved in (("higher by B than by A", comparison.up), ("lower by B than by A", comparison.down)):
        if moved:
            print_sentence(f"\nsamples ranked {title}", style="bold")
            print_rows([_build_mover_row(mover) for mover in moved], empty="")
    if comparison.up or comparison.down:
        print_sentence("A, B: scores; percentile: share of compared samples ranked lower, by A -> by B", style="dim")


def _print_people(comparison: Comparison) -> None:
    """Print how closely both scorers agree with people."""
    from assets.words.text import format_count
    from metrics_core.agreement.preferences import PREFERENCE_ACCURACY

    for people in comparison.people:
        raters = format_count(people.n_raters, "rater")
        print_sentence(f"\n{people.aspect}: {format_count(people.n, 'sample')}, {raters}", style="bold")
        print_rows([_build_people_row(people, *statistic) for statistic in STATISTICS.items()], empty="")
    for choices in comparison.choices:
        raters = format_count(choices.n_raters, "rater")
        print_sentence(f"\n{choices.aspect}, side by side: {format_count(choices.n, 'answer')}, {raters}", style="bold")
        print_rows([_build_people_row(choices, PREFERENCE_ACCURACY, "same preference")], empty="")
    if comparison.people or comparison.choices:
        print_sentence("in brackets: 95 % intervals over videos", style="dim")
    if comparison.people or comparison.choices:
        print_sentence("A, B: agreement of each scorer with people; B - A: their difference", style="dim")


def _build_estimate_row(name: str, estimate: Estimate) -> dict[str, Any]:
    return {"name": name, "value": estimate.value, "low": estimate.low, "high": estimate.high}


def _build_mover_row(mover: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "sample": mover["sample"],
        "system": mover["system"],
        "A": mover["a"],
        "B": mover["b"],
        "percentile": f"{mover['a_percentile']:.0f} -> {mover['b_percentile']:.0f}",
        "move": f"{mover['move']:+.0f}",
    }


def _build_people_row(people: PeopleComparison, statistic: str, label: str) -> dict[str, Any]:
    """Return one statistic of both scorers with people, as a row that fits 80 columns."""
    columns = {"A": people.first, "B": people.second, "B - A": people.difference}
    return {
        "with people": label,
        **{letter: format_short_estimate(estimates[statistic]) for letter, estimates in columns.items()},
    }


def format_short_estimate(estimate: Estimate) -> str:
    """Return an estimate in three decimals without the leading zero, with its 95 % interval, such as `.412 [.380,
    .441]`. Only the value if there is no interval, and a dash if there is no value.
    """
    from assets.words.text import format_short

    if estimate.low is None or estimate.high is None:
        return format_short(estimate.value)
    return f"{format_short(estimate.value)} [{format_short(estimate.low)}, {format_short(estimate.high)}]"


def _text(value: Any) -> str:
    return "–" if value is None else str(value)
