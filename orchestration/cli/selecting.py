"""The command that freezes subsets: select."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from orchestration.cli.output import AsJson, DatasetName, console, print_json, print_rows, progress
from orchestration.cli.selections import left_out


def select(
    context: typer.Context,
    dataset: DatasetName,
    by: Annotated[list[str] | None, typer.Option(help="Metric that ranks the samples; several as NAME=WEIGHT.")] = None,
    keep: Annotated[float | None, typer.Option(help="Share to keep of the eligible samples; 0.125 by default.")] = None,
    count: Annotated[int | None, typer.Option(help="Number of samples to keep, instead of a share.")] = None,
    where: Annotated[
        str | None, typer.Option(help="""A condition, such as "vcs > 0.3 and system != 'brief'".""")
    ] = None,
    at_least: Annotated[
        list[str] | None, typer.Option(help="Least value as NAME=NUMBER, or a stored threshold: vcs='keep 0.25'.")
    ] = None,
    combine: Annotated[str | None, typer.Option(help="Of several metrics, the mean of `ranks` or `values`.")] = None,
    dedupe: Annotated[float | None, typer.Option(help="Of texts with this cosine or more, keep the best.")] = None,
    choose: Annotated[str | None, typer.Option(help="best, random or diverse.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of a random choice.")] = None,
    per: Annotated[
        str | None, typer.Option(help="Column of strata, such as system, duration_s or extra_FIELD.")
    ] = None,
    bands: Annotated[str | None, typer.Option(help="Limits of bands of --per, such as 10,30,60.")] = None,
    quota: Annotated[
        list[str] | None, typer.Option(help="Samples of a stratum as NAME=NUMBER; *=NUMBER caps the others.")
    ] = None,
    stale: Annotated[str | None, typer.Option(help="Stale scores: refuse or leave_out.")] = None,
    recipe: Annotated[Path | None, typer.Option(help="All of the above from a YAML file.")] = None,
    preview: Annotated[bool, typer.Option("--preview", help="Show what it would take; freeze nothing.")] = False,
    export: Annotated[Path | None, typer.Option(help="Also write it to this .parquet, .jsonl or .csv file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Freeze samples by a recipe: rows, rule, cutoff and score hash. The same recipe and scores give the same rows."""
    from assets.datasets import dataset_of_key
    from assets.selection.export import export_selection
    from assets.selection.making import make_selection
    from assets.selection.target import export_target
    from orchestration.platform import engine

    rule = _recipe(recipe, _said(context))
    if export:
        export_target(export)
    dataset_row = dataset_of_key(engine(), dataset)
    if preview:
        _preview(dataset_row, rule, as_json=as_json)
        return
    with progress() as tell:
        chosen = make_selection(engine(), dataset_row, rule, _encoder, tell)
        path = export_selection(engine(), chosen.selection_id, export, tell=tell).path if export else None
    label = _label(rule)
    if as_json:
        print_json(
            {
                "selection_id": chosen.selection_id,
                "n": chosen.n,
                "cutoff": chosen.cutoff,
                "path": str(path) if path else None,
                "n_eligible": chosen.n_eligible,
                "n_duplicates": chosen.n_duplicates,
                "unjudged": chosen.unjudged,
                "score_hash": chosen.score_hash,
                "by": label,
            }
        )
        return
    console.print(
        f"selection {chosen.selection_id}: {chosen.n} of {chosen.n_eligible} samples of {dataset}, "
        f"{label} at least {chosen.cutoff:.4f}" + ("" if chosen.is_new else " (made before, unchanged)"),
        markup=False,
    )
    for line in left_out(chosen.n_duplicates, chosen.unjudged):
        console.print(line, markup=False)
    console.print(
        f"written to {path}" if path else f"write it with: reelsieve export {chosen.selection_id} --to FILE.parquet",
        markup=False,
    )


def _said(context: typer.Context) -> dict[str, Any]:
    """The fields of a recipe that were given as options."""
    others = ("dataset", "recipe", "preview", "export", "as_json")
    return {name: value for name, value in context.params.items() if name not in others and value not in (None, [], ())}


def _recipe(path: Path | None, said: dict[str, Any]) -> Any:
    from assets.selection.recipe_file import read_recipe
    from db.recipes import SelectionError, recipe_of

    if path is not None:
        if said:
            options = ", ".join(f"--{name.replace('_', '-')}" for name in said)
            raise SelectionError(f"--recipe says all of the rule: leave {options} out, or write them into {path}")
        return read_recipe(path)
    if "by" in said:
        said["by"] = _pairs("by", [one if "=" in one else f"{one}=1" for one in said["by"]])
    if "quota" in said:
        quotas = _pairs("quota", said.pop("quota"))
        said["quotas"] = {name: int(n) if isinstance(n, float) and n.is_integer() else n for name, n in quotas.items()}
    if "at_least" in said:
        said["at_least"] = _pairs("at-least", said["at_least"])
    if "bands" in said:
        said["bands"] = [_number("bands", part) for part in said["bands"].split(",")]
    return recipe_of(said)


def _pairs(option: str, texts: Sequence[str]) -> dict[str, float | str]:
    from db.recipes import SelectionError

    pairs: dict[str, float | str] = {}
    for text in texts:
        name, value = _pair(option, text)
        if name in pairs:
            raise SelectionError(f"--{option} names {name[:40]!r} twice: leave one out")
        pairs[name] = value
    return pairs


def _pair(option: str, text: str) -> tuple[str, float | str]:
    """NAME=VALUE, where a value that reads as a number is one."""
    from db.recipes import SelectionError

    name, sign, value = text.rpartition("=")
    if not sign or not name or not value:
        raise SelectionError(f"--{option} {text}: give it as NAME=VALUE")
    try:
        return name.strip(), float(value)
    except ValueError:
        return name.strip(), value.strip()


def _number(option: str, text: str) -> float:
    from db.recipes import SelectionError

    try:
        return float(text)
    except ValueError as error:
        raise SelectionError(f"--{option}: {text!r} is no number: give limits such as 10,30,60") from error


def _label(rule: Any) -> str:
    """What ranked the samples, with the models behind it where it is one metric."""
    from assets.reports.labels import metric_label
    from db.present import known_metrics
    from orchestration.platform import engine

    names = list(rule.by)
    with engine().connect() as connection:
        metrics = known_metrics(connection)
        labels = [metric_label(connection, name) if name in metrics else name for name in names]
    return labels[0] if len(labels) == 1 else f"mean of the {rule.combine} of {' and '.join(labels)}"


def _encoder() -> Any:
    # Imported late: with it comes the machinery of runs, which few selections need.
    from assets.selection.vectors import text_encoder
    from orchestration.launch import curation_scorers

    return text_encoder(curation_scorers())


def _preview(dataset: Any, rule: Any, *, as_json: bool) -> None:
    from dataclasses import asdict

    from assets.selection.making import prepared
    from db.previewing import preview
    from orchestration.platform import engine

    with progress() as tell:
        chooser = prepared(engine(), dataset, rule, _encoder, tell)
        with engine().begin() as connection:
            found = preview(connection, dataset, rule, chooser)
    chosen = found.chosen
    systems, metrics = [asdict(row) for row in found.systems], [asdict(row) for row in found.metrics]
    if as_json:
        print_json(
            {
                "n": chosen.size.n,
                "n_eligible": chosen.size.n_eligible,
                "cutoff": chosen.size.cutoff,
                "n_duplicates": chosen.n_duplicates,
                "unjudged": chosen.unjudged,
                "systems": systems,
                "metrics": metrics,
            }
        )
        return
    console.print(
        f"would take {chosen.size.n} of {chosen.size.n_eligible} samples of {dataset.name}, {_label(rule)} at least "
        f"{chosen.size.cutoff:.4f}; nothing is frozen",
        markup=False,
    )
    for line in left_out(chosen.n_duplicates, chosen.unjudged):
        console.print(line, markup=False)
    print_rows(systems, empty="no system")
    console.print("means of the chosen samples, and of a random choice of as many (± 1.96 standard errors):")
    print_rows(metrics, empty="no metric")
