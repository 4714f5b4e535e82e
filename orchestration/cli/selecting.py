"""The command select: its options become a recipe, and what the recipe chooses is shown or frozen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestration.cli.output import AsJson, DatasetName, console, print_json, print_rows, progress

if TYPE_CHECKING:
    from db.selection.recipes import Recipe
if TYPE_CHECKING:
    from db.selection.choosing import Chosen
    from db.selection.freezing import Size
    from db.selection.frozen import Selection
    from db.selection.preview import Preview
    from db.selection.recipes import Recipe


# Reads the options of the command select into a recipe.

# Options of the command that are no part of a recipe.
_OTHERS = ("dataset", "recipe", "preview", "export", "as_json")


def recipe_said(options: Mapping[str, Any]) -> Recipe:
    """The recipe of the file that option `recipe` names, or of the other options by name.

    Raises SelectionError where the file is given together with options of a recipe, and for what no recipe may say.
    """
    from assets.selection.recipe_file import read_recipe
    from db.selection.recipes import SelectionError, recipe_of

    said = {name: value for name, value in options.items() if name not in _OTHERS and value not in (None, [], ())}
    path = options["recipe"]
    if path is not None:
        if said:
            given = ", ".join(f"--{name.replace('_', '-')}" for name in said)
            raise SelectionError(f"--recipe says all of the rule: leave {given} out, or write them into {path}")
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
    from db.selection.recipes import SelectionError

    pairs: dict[str, float | str] = {}
    for text in texts:
        name, value = _pair(option, text)
        if name in pairs:
            raise SelectionError(f"--{option} names {name[:40]!r} twice: leave one out")
        pairs[name] = value
    return pairs


def _pair(option: str, text: str) -> tuple[str, float | str]:
    """NAME=VALUE, where a value that reads as a number is one."""
    from db.selection.recipes import SelectionError

    name, sign, value = text.rpartition("=")
    if not sign or not name or not value:
        raise SelectionError(f"--{option} {text}: give it as NAME=VALUE")
    try:
        return name.strip(), float(value)
    except ValueError:
        return name.strip(), value.strip()


def _number(option: str, text: str) -> float:
    from db.selection.recipes import SelectionError

    try:
        return float(text)
    except ValueError as error:
        raise SelectionError(f"--{option}: {text!r} is no number: give limits such as 10,30,60") from error


# Shows what a recipe has chosen: a frozen selection, or the preview of one.


def show_selection(chosen: Selection, rule: Recipe, dataset: str, path: Path | None, *, as_json: bool) -> None:
    """Print a frozen selection. path: the file that it was written to, if any."""
    facts = _facts(chosen, chosen, chosen.kind, chosen.cuts)
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
    facts = _facts(found.chosen.size, found.chosen, found.chosen.found.kind, found.chosen.found.cuts)
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


def told_of(facts: Mapping[str, Any], recipe: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is to know of a selection beside its size: ties, thresholds, near-duplicates, and missing values.

    facts: the columns of its row in table `selection`, and `cuts`. recipe: as plain data.
    """
    from assets.selection.wording import tell_thresholds, tell_ties

    yield from tell_ties(facts["n"], facts["n_tied"], facts["n_tied_left"], recipe)
    yield from tell_thresholds(facts["cuts"])
    n_duplicates, unjudged = facts["n_duplicates"], facts["unjudged"]
    if n_duplicates:
        yield f"{n_duplicates} near-duplicates of better samples are left out"
    for metric, counts in unjudged.items():
        yield f"without a value of {metric}, in the whole dataset: " + ", ".join(
            f"{n} {status}" for status, n in sorted(counts.items())
        )


def _facts(
    size: Size | Selection, rest: Chosen | Selection, kind: str, cuts: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    return {
        "n": size.n,
        "n_eligible": size.n_eligible,
        "cutoff": size.cutoff,
        "kind": kind,
        "n_tied": size.n_tied,
        "n_tied_left": size.n_tied_left,
        "n_duplicates": rest.n_duplicates,
        "unjudged": rest.unjudged,
        "cuts": {name: dict(cut) for name, cut in cuts.items()},
    }


def _print_facts(beginning: str, facts: Mapping[str, Any], dataset: str, rule: Recipe, end: str, n_others: int) -> None:
    things = {"caption": "captions", "qa": "question-answer pairs"}.get(facts["kind"], "samples")
    size = f"{facts['n']} of {facts['n_eligible']} {things} of {dataset}"
    console.print(f"{beginning} {size}, {_choice(rule, facts['cutoff'])}{end}", markup=False)
    if n_others:
        console.print(
            f"captions alone: {n_others} question-answer pairs have values of another scale; --kind qa takes them"
        )
    for line in told_of(facts, rule.spec()):
        console.print(line, markup=False)


def _choice(rule: Recipe, cutoff: float) -> str:
    """What the chosen samples have in common: a least value only where the best are chosen."""
    if rule.choose == "random":
        return f"drawn at random by seed {rule.seed}"
    return "a diverse subset" if rule.choose == "diverse" else f"{_label(rule)} at least {cutoff:.4f}"


def _label(rule: Recipe) -> str:
    """What ranked the samples, with the models behind it where it is one metric."""
    from assets.reports.labels import metric_label
    from orchestration.platform import installed

    with installed().engine.connect() as connection:
        labels = [metric_label(connection, name) for name in rule.by]
    return labels[0] if len(labels) == 1 else f"mean of the {rule.combine} of {' and '.join(labels)}"


def select(
    context: typer.Context,
    dataset: DatasetName,
    by: Annotated[list[str] | None, typer.Option(help="Metric that ranks the samples; several as NAME=WEIGHT.")] = None,
    keep: Annotated[float | None, typer.Option(help="Share to keep of the eligible samples.")] = None,
    count: Annotated[int | None, typer.Option(help="Number of samples to keep, instead of a share.")] = None,
    kind: Annotated[
        str | None, typer.Option(help="caption, qa or all; captions by default where both could be taken.")
    ] = None,
    where: Annotated[
        str | None, typer.Option(help="""A condition, such as "vcs > 0.3 and system != 'brief'".""")
    ] = None,
    at_least: Annotated[
        list[str] | None, typer.Option(help="Least value as NAME=NUMBER, or a stored threshold: vcs='keep 0.25'.")
    ] = None,
    combine: Annotated[str | None, typer.Option(help="Of several metrics, the mean of `ranks` or `values`.")] = None,
    dedupe: Annotated[float | None, typer.Option(help="Of texts with this cosine or more, keep the best.")] = None,
    dedupe_videos: Annotated[
        float | None, typer.Option(help="Of videos whose pictures are this much alike, such as 0.6, keep the best.")
    ] = None,
    choose: Annotated[str | None, typer.Option(help="best, random or diverse.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of random numbers.")] = None,
    per: Annotated[
        str | None, typer.Option(help="Column of strata, such as system, duration_s or extra_FIELD.")
    ] = None,
    bands: Annotated[str | None, typer.Option(help="Limits of bands of --per, such as 10,30,60.")] = None,
    quota: Annotated[
        list[str] | None, typer.Option(help="Samples of a stratum as NAME=NUMBER; *=NUMBER caps the others.")
    ] = None,
    ties: Annotated[
        str | None, typer.Option(help="Samples of equal value where the size ends: refuse, random, include or exclude.")
    ] = None,
    stale: Annotated[str | None, typer.Option(help="Stale scores: refuse or leave_out.")] = None,
    recipe: Annotated[Path | None, typer.Option(help="All of the above from a YAML file.")] = None,
    preview: Annotated[bool, typer.Option("--preview", help="Show what it would take; freeze nothing.")] = False,
    export: Annotated[Path | None, typer.Option(help="Also write it to this .parquet, .jsonl or .csv file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Freeze samples by a recipe: rows, rule, cutoff and score hash. The same recipe and scores give the same rows.

    One of --keep, --count, --quota and --at-least says how much to take.
    """
    from assets.datasets import dataset_of_key
    from assets.selection.export import export_selection, export_target
    from assets.selection.making import make_selection, prepared
    from db.selection.preview import preview as preview_of
    from orchestration.platform import installed

    rule = recipe_said(context.params)
    if export:
        export_target(export)
    dataset_row = dataset_of_key(installed().engine, dataset)
    if any(isinstance(least, str) for least in rule.at_least.values()):
        # Imported late: with it comes the machinery of runs.
        from orchestration.launch import make_named_thresholds

        with progress() as tell:
            make_named_thresholds(dataset_row, rule, tell)
    if preview:
        with progress() as tell, _without_size_is_usage():
            chooser = prepared(installed().engine, dataset_row, rule, _encoder, tell)
            with installed().engine.begin() as connection:
                found = preview_of(connection, dataset_row, rule, chooser)
        show_preview(found, rule, dataset, as_json=as_json)
        return
    with progress() as tell, _without_size_is_usage():
        chosen = make_selection(installed().engine, dataset_row, rule, _encoder, tell)
        path = export_selection(installed().engine, chosen.selection_id, export, tell=tell).path if export else None
    show_selection(chosen, rule, dataset, path, as_json=as_json)


@contextmanager
def _without_size_is_usage() -> Iterator[None]:
    """Refuse options that do not say how much to take as other options that cannot be used, by exit code 2."""
    from db.selection.recipes import SizeMissing
    from orchestration.cli.refusals import UsageError

    try:
        yield
    except SizeMissing as error:
        raise UsageError(str(error)) from error


def _encoder() -> Any:
    # Imported late: with it comes the machinery of runs, which few selections need.
    from assets.selection.vectors import text_encoder
    from orchestration.platform import installed

    return text_encoder(installed().curation.scorers)
