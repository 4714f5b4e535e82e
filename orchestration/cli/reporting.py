"""Commands that look at an installation, a dataset or two scorers: status, doctor, ui, report, compare."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from assets.home_files import private_files
from orchestration.cli.output import AsJson, DatasetName, console, print_json, print_plan, print_rows, progress

if TYPE_CHECKING:
    from assets.agreement.comparison import Comparison, MovedSample
    from metrics_core.agreement import Estimate, PeopleCompared


# The command compare: two scorers on the same samples, and which of them is closer to people.

STATISTICS = {"spearman": "Spearman's rho", "kendall_b": "Kendall's tau-b", "pearson": "Pearson's r"}


def compare(
    a: Annotated[str, typer.Argument(help="A metric, or one of its scorers: vcs, vcs@3, 3, or digits of its digest.")],
    b: Annotated[str, typer.Argument(help="The scorer to compare it with, named alike.")],
    dataset: DatasetName,
    limit: Annotated[
        int, typer.Option(min=1, max=1_000_000, help="Samples in each list of those whose rank moved most.")
    ] = 5,
    as_json: AsJson = False,
) -> None:
    """Compare two scorers on the same samples: another metric, model or setting. Which is closer to people?"""
    from assets.agreement.compare import compare as compare_scorers
    from assets.agreement.settled import explain_questions
    from assets.datasets import dataset_of_key
    from orchestration.platform import installed

    of = dataset_of_key(installed().engine, dataset)
    found, drawn = compare_scorers(installed().engine, of, a, b, limit), explain_questions(installed().engine, of)
    if as_json:
        print_json({"dataset": dataset, **found.as_dict(), "drawn": drawn})
        return
    _print_scorers(found)
    _print_scores(found)
    _print_movers(found)
    _print_people(found)
    for sentence in drawn:
        console.print(f"drawn for a question: {sentence}", markup=False)


def _print_scorers(found: Comparison) -> None:
    """Who is compared, on what."""
    from assets.agreement.comparison import format_missing

    sides = {"A": found.first, "B": found.second}
    for letter, side in sides.items():
        models = ", ".join(str(model["model_id"]) for model in side.scorer.models.values())
        line = f"{side.scorer.name} ({side.scorer.status}){f' by {models}' if models else ''}"
        console.print(f"[bold]{letter}[/bold]  {escape(line)}")
    if found.same_metric:
        rows = [{"differs": name, "A": _text(one), "B": _text(other)} for name, one, other in found.differences]
        print_rows(rows, empty="")
    console.print(
        f"\n{found.scores.n} samples of {found.scores.n_videos} videos compared, {found.n_left_out} left out",
        markup=False,
    )
    for letter, side in sides.items():
        if side.without:
            console.print(f"  {letter} has no value for {format_missing(side)}", markup=False)


def _print_scores(found: Comparison) -> None:
    """How far both order the samples alike."""
    rows = [_estimate(STATISTICS[name], each) for name, each in found.scores.correlations.items()]
    if found.same_metric:
        rows.append(_estimate("mean of B - A", found.scores.mean_difference))
    console.print()
    print_rows([{"A and B": row.pop("name"), **row} for row in rows], empty="")
    if found.scores.n_videos > 1:
        console.print("low, high: 95 % interval over videos", style="dim")


def _print_movers(found: Comparison) -> None:
    """The samples whose rank differs most."""
    for title, moved in (("higher by B than by A", found.up), ("lower by B than by A", found.down)):
        if moved:
            console.print(f"\n[bold]ranked {title}[/bold], in percentile points")
            print_rows([_mover(each) for each in moved], empty="")


def _print_people(found: Comparison) -> None:
    """Both scorers against people, and the conclusions."""
    from assets.agreement.comparison import explain_comparison
    from assets.reports.text import plural

    for people in found.people:
        raters = plural(people.n_raters, "rater")
        console.print(f"\n[bold]{escape(people.aspect)}[/bold]: {people.n} samples, {raters}", soft_wrap=True)
        print_rows([_against(people, name) for name in STATISTICS], empty="")
    for choices in found.choices:
        raters = plural(choices.n_raters, "rater")
        console.print(f"\n[bold]{escape(choices.aspect)}[/bold], side by side: {choices.n} answers, {raters}")
        columns = {"A": choices.first, "B": choices.second, "B - A": choices.difference}
        shares = {letter: with_interval(each) for letter, each in columns.items()}
        print_rows([{"with people": "same preference", **shares}], empty="")
    console.print()
    for sentence in explain_comparison(found):
        console.print(sentence, markup=False)


def _estimate(name: str, each: Estimate) -> dict[str, Any]:
    return {"name": name, "value": each.value, "low": each.low, "high": each.high}


def _mover(each: MovedSample) -> dict[str, Any]:
    mover = each.mover
    return {
        "sample": each.sample.key,
        "system": each.sample.system,
        "A": each.values[0],
        "B": each.values[1],
        "percentile": f"{mover.first:.0f} -> {mover.second:.0f}",
        "move": f"{mover.move:+.0f}",
    }


def _against(people: PeopleCompared, name: str) -> dict[str, Any]:
    """One coefficient of both scorers with people, in a row that fits 80 columns."""
    columns = {"A": people.first, "B": people.second, "B - A": people.difference}
    return {"with people": STATISTICS[name], **{letter: with_interval(each[name]) for letter, each in columns.items()}}


def with_interval(each: Estimate) -> str:
    """`.412 [.380, .441]`, and a dash where undefined."""
    if each.value is None:
        return "–"
    if each.low is None or each.high is None:
        return _short(each.value)
    return f"{_short(each.value)} [{_short(each.low)}, {_short(each.high)}]"


def _short(value: float) -> str:
    """Three decimals without the leading zero: three intervals in a row must fit 80 columns."""
    shown = f"{value:.3f}"
    return shown.replace("0.", ".", 1) if shown.lstrip("-").startswith("0.") else shown


def _text(value: Any) -> str:
    return "–" if value is None else str(value)


# Commands that show the state of data and installation: status, doctor, ui.


def status(as_json: AsJson = False) -> None:
    """Show every dataset: what it holds, how many samples every metric has still to score, and its plan."""
    from orchestration.forecasts import plan_of_dataset
    from orchestration.platform import installed

    rows = _states() if installed().has_database() else []
    if as_json:
        print_json(rows)
    else:
        print_rows(rows, empty="no dataset yet: try reelsieve demo, or reelsieve try FOLDER")
        for row in rows:
            console.print(f"\n[bold]{escape(row['dataset'])}[/bold]")
            print_plan(plan_of_dataset(row["dataset"]))


def _states() -> list[dict[str, Any]]:
    """A row for every dataset."""
    from assets.scores.pending import pending_by_shard
    from db.manifest.datasets import list_datasets
    from db.reports.summary import dataset_summary
    from orchestration.platform import installed

    rows = []
    with installed().engine.connect() as connection:
        datasets = list_datasets(connection)
    scorers = {metric: installed().curation.scorers[metric] for metric in installed().usable_metrics}
    # Counted first: the summary reads the counts that this look keeps.
    pending = {metric: pending_by_shard(installed().engine, scorer, datasets) for metric, scorer in scorers.items()}
    with installed().engine.connect() as connection:
        for dataset in datasets:
            row = dataset_summary(connection, dataset.name)
            for metric, counts in pending.items():
                row[f"{metric}_pending"] = sum(n for (name, _), n in counts.items() if name == dataset.name)
            rows.append(row)
    return rows


def doctor(
    models: Annotated[
        bool, typer.Option("--models", help="The files of the models in force, and those missing.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check everything that this installation needs, and say how to mend faults. Exit code 1 if there are any."""
    from orchestration.doctor import examine

    if models:
        _models(as_json)
        return
    findings = examine()
    if as_json:
        print_json([finding.as_dict() for finding in findings])
    else:
        for finding in findings:
            mark = "[green]ok[/green]     " if finding.ok else "[red]missing[/red]"
            console.print(f"{mark} {finding.what}: {escape(finding.detail)}", soft_wrap=True)
    if not all(finding.ok for finding in findings):
        raise typer.Exit(1)


def _models(as_json: bool) -> None:
    """The files of the models in force: a table, and below it where missing ones belong."""
    from orchestration.model_files import models_here

    profile, models = models_here()
    if as_json:
        print_json({"profile": profile, "models": [asdict(model) for model in models]})
    else:
        console.print(f"profile: {profile}", markup=False)
        print_rows([model.as_row() for model in models], empty="no model", right={"GB"})
        for model in models:
            if model.remedy:
                console.print(f"{model.setting}: {model.remedy}", markup=False, soft_wrap=True)
    if any(model.missing for model in models):
        raise typer.Exit(1)


def ui(port: Annotated[int, typer.Option(min=1, max=65535, help="Port on 127.0.0.1.")] = 3000) -> None:
    """Open Dagster's web interface with its daemon on this machine: lineage, runs, checks, plots. Ctrl-C ends it."""
    from orchestration.cli.looking import check_port

    check_port(port)
    console.print(f"http://127.0.0.1:{port} in a moment; Ctrl-C ends it")
    from orchestration.web.serving import serve

    serve(port)
    raise typer.Exit(1)


def report(
    dataset: DatasetName,
    to: Annotated[
        Path | None, typer.Option(help="Folder for the page (default: reports/DATASET in the home folder).")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write a page on a dataset: its systems, whether each metric agrees with people, and samples to look at."""
    from assets.datasets import dataset_of_key
    from assets.reports.report import make_report, report_folder
    from orchestration.platform import installed

    found = dataset_of_key(installed().engine, dataset)
    folder = to or report_folder(installed().curation.home, dataset)
    with progress() as tell, nullcontext() if to else private_files():
        files = make_report(installed().engine, found, installed().curation.scorers, folder, tell)
    if as_json:
        print_json({"dataset": dataset, "page": str(files.page), "numbers": str(files.numbers)})
        return
    places = (("page", str(files.page)), ("data", str(files.numbers)))
    for name, line in (*files.answers.lines(), *places):
        console.print(f"{name + ':':<13}{line}", soft_wrap=True, markup=False)
