"""Shows what a recipe has chosen: a frozen selection, or the preview of one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestration.cli.output import console, print_json, print_rows

if TYPE_CHECKING:
    from db.selections.choosing import Chosen
    from db.selections.freezing import Size
    from db.selections.frozen import Selection
    from db.selections.preview import Preview
    from db.selections.recipes import Recipe


def show_selection(chosen: Selection, rule: Recipe, dataset: str, path: Path | None, *, as_json: bool) -> None:
    """Print a frozen selection. path: the file that it was written to, if any."""
    facts = _facts(chosen, chosen, chosen.kind)
    if as_json:
        facts = {"selection_id": chosen.selection_id, **facts, "score_hash": chosen.score_hash, "by": _label(rule)}
        print_json({**facts, "path": str(path) if path else None})
        return
    known = "" if chosen.is_new else " (made before, unchanged)"
    _print_facts(f"selection {chosen.selection_id}:", facts, dataset, rule, known, chosen.n_others)
    hint = f"write it with: reelsieve export {chosen.selection_id} --to FILE.parquet"
    console.print(f"written to {path}" if path else hint, markup=False)


def show_preview(found: Preview, rule: Recipe, dataset: str, *, as_json: bool) -> None:
    """Print what a recipe would take."""
    facts = _facts(found.chosen.size, found.chosen, found.chosen.found.kind)
    systems, metrics = [asdict(row) for row in found.systems], [asdict(row) for row in found.metrics]
    if as_json:
        print_json({**facts, "systems": systems, "metrics": metrics})
        return
    _print_facts("would take", facts, dataset, rule, "; nothing is frozen", found.chosen.found.n_others)
    print_rows(systems, empty="no system")
    console.print(
        "means of the n chosen samples with a value, and of a random choice of as many; margin is 1.96 standard errors "
        "of the latter:"
    )
    print_rows(metrics, empty="no metric")


def left_out(n_duplicates: int | None, unjudged: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    """Sentences on near-duplicates that were left out, and on samples that a metric could not judge."""
    if n_duplicates:
        yield f"{n_duplicates} near-duplicates of better samples are left out"
    for metric, counts in unjudged.items():
        yield f"without a value of {metric}, in the whole dataset: " + ", ".join(
            f"{n} {status}" for status, n in sorted(counts.items())
        )


def _facts(size: Size | Selection, rest: Chosen | Selection, kind: str) -> dict[str, Any]:
    return {
        "n": size.n,
        "n_eligible": size.n_eligible,
        "cutoff": size.cutoff,
        "kind": kind,
        "n_duplicates": rest.n_duplicates,
        "unjudged": rest.unjudged,
    }


def _print_facts(beginning: str, facts: Mapping[str, Any], dataset: str, rule: Recipe, end: str, n_others: int) -> None:
    things = {"caption": "captions", "qa": "question-answer pairs"}.get(facts["kind"], "samples")
    size = f"{facts['n']} of {facts['n_eligible']} {things} of {dataset}"
    console.print(f"{beginning} {size}, {_choice(rule, facts['cutoff'])}{end}", markup=False)
    if n_others:
        console.print(
            f"captions alone: {n_others} question-answer pairs have values of another scale; --kind qa takes them"
        )
    for line in left_out(facts["n_duplicates"], facts["unjudged"]):
        console.print(line, markup=False)


def _choice(rule: Recipe, cutoff: float) -> str:
    """What the chosen samples have in common: a least value only where the best are chosen."""
    if rule.choose == "random":
        return f"drawn at random by seed {rule.seed}"
    return "a diverse subset" if rule.choose == "diverse" else f"{_label(rule)} at least {cutoff:.4f}"


def _label(rule: Recipe) -> str:
    """What ranked the samples, with the models behind it where it is one metric."""
    from assets.reports.labels import metric_label
    from db.scores.present import known_metrics
    from orchestration.platform import engine

    names = list(rule.by)
    with engine().connect() as connection:
        metrics = known_metrics(connection)
        labels = [metric_label(connection, name) if name in metrics else name for name in names]
    return labels[0] if len(labels) == 1 else f"mean of the {rule.combine} of {' and '.join(labels)}"
