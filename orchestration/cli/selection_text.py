"""Prints what a recipe has chosen: a frozen selection, or the preview of one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from orchestration.cli.output import print_json, print_rows, print_sentence

if TYPE_CHECKING:
    from db.selection.freeze import Selection, SelectionSummary
    from db.selection.preview import Preview
    from db.selection.recipes import Recipe
    from orchestration.installation import Installation


def print_selection(
    installation: Installation, chosen: Selection, rule: Recipe, dataset: str, *, as_json: bool
) -> None:
    """Print a frozen selection as JSON or for people: its number, size and cutoff, with ties and missing values.
    rule: its recipe. Reads the labels of metrics from the database.
    """
    numbers = _list_numbers(chosen)
    if as_json:
        label = _label(installation, rule)
        print_json({"selection_id": chosen.selection_id, **numbers, "score_hash": chosen.score_hash, "by": label})
        return
    known = "" if chosen.is_new else " (made before, unchanged)"
    _print_numbers(installation, f"selection {chosen.selection_id}:", numbers, dataset, rule, known, chosen.n_others)
    print_sentence(f"export it with: reelsieve export {chosen.selection_id} --to FILE.parquet")


def print_preview(installation: Installation, seen: Preview, rule: Recipe, dataset: str, *, as_json: bool) -> None:
    """Print what the recipe `rule` would take, as JSON or for people: size and cutoff, chosen samples by system, and
    means by metric. Reads the labels of metrics from the database.
    """
    numbers = _list_numbers(seen.summary)
    if as_json:
        print_json({**numbers, "systems": seen.systems, "metrics": seen.metrics})
        return
    _print_numbers(installation, "would take", numbers, dataset, rule, "; nothing is frozen", seen.summary.n_others)
    print_rows(seen.systems, empty="no system")
    print_sentence(
        "means of the n chosen samples with a value, and of equally many random samples; margin: 1.96 standard errors "
        "of the random mean"
    )
    print_rows(seen.metrics, empty="no metric")


def explain_choice(numbers: Mapping[str, Any]) -> Iterator[str]:
    """Yield sentences on ties, thresholds, near-duplicates and missing values of a selection; nothing where there are
    none. numbers: the columns of its row in table `selection`, and its thresholds under `cuts`.
    """
    from assets.selection.wording import explain_thresholds, explain_ties
    from assets.words.text import format_count

    yield from explain_ties(numbers["n"], numbers["n_tied"], numbers["n_tied_left"])
    yield from explain_thresholds(numbers["cuts"])
    n_duplicates, unjudged = numbers["n_duplicates"], numbers["unjudged"]
    if n_duplicates:
        are = "is" if n_duplicates == 1 else "are"
        yield f"{format_count(n_duplicates, 'near-duplicate')} of better samples {are} left out"
    for metric, counts in unjudged.items():
        yield f"samples without a value of {metric}, in the whole dataset: " + ", ".join(
            f"{n:,} {status}" for status, n in sorted(counts.items())
        )


def _list_numbers(summary: SelectionSummary) -> dict[str, Any]:
    """Return the printed numbers of a summary by name, in the order of --json."""
    shown = ("n", "n_eligible", "cutoff", "kind", "n_tied", "n_tied_left", "n_duplicates", "unjudged")
    cuts = {name: dict(cut) for name, cut in summary.cuts.items()}
    return {**{name: getattr(summary, name) for name in shown}, "cuts": cuts}


def _print_numbers(
    installation: Installation,
    beginning: str,
    numbers: Mapping[str, Any],
    dataset: str,
    rule: Recipe,
    end: str,
    n_others: int,
) -> None:
    from assets.words.text import format_count

    thing = {"caption": "caption", "qa": "question-answer pair"}.get(numbers["kind"], "sample")
    size = f"{format_count(numbers['n'], thing)} of {dataset}, of {numbers['n_eligible']:,} eligible"
    print_sentence(f"{beginning} {size}; {_describe_choice(installation, rule, numbers['cutoff'])}{end}")
    if n_others:
        print_sentence(
            f"only captions are selected: {format_count(n_others, 'question-answer pair')} left out, since values of "
            "pairs are on another scale; --kind qa selects pairs"
        )
    for line in explain_choice(numbers):
        print_sentence(line)


def _describe_choice(installation: Installation, rule: Recipe, cutoff: float) -> str:
    """Return what the chosen samples have in common: the lowest value where the best are chosen, else how they were
    drawn.
    """
    if rule.choose == "random":
        return f"drawn at random by seed {rule.seed}"
    return "a diverse subset" if rule.choose == "diverse" else f"{_label(installation, rule)} at least {cutoff:.4f}"


def _label(installation: Installation, rule: Recipe) -> str:
    """Return the label of what ranked the samples: a metric with its models, or the mean of several."""
    from assets.words.labels import load_metric_label

    with installation.engine.connect() as connection:
        labels = [load_metric_label(connection, name) for name in rule.by]
    return labels[0] if len(labels) == 1 else f"mean of the {rule.combine} of {' and '.join(labels)}"
