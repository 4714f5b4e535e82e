"""The command try: from a folder of the user's own videos to a page, with everything that can be computed as it is."""

from __future__ import annotations

import time
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from assets.home.files import keep_files_private
from orchestration.cli.column_options import ColumnOption, RatingOption, parse_column_names
from orchestration.cli.init import ToolOption
from orchestration.cli.output import (
    Wide,
    console,
    print_end,
    print_plan,
    print_rows,
    print_sentence,
    show_progress,
)
from orchestration.cli.pass_installation import pass_installation
from orchestration.cli.tried_manifest import find_or_make_manifest, name_manifest_files

if TYPE_CHECKING:
    from assets.planning.holdings import Holdings
    from assets.planning.plan import Plan
    from assets.reports.report import ReportFiles
    from orchestration.installation import Installation

# The captions that the printed table has; view sample_scores has all.
SHOWN = 10
# The number of unusable rows and videos that are named for every reason.
NAMED = 3


@pass_installation
def try_folder(
    installation: Installation,
    source: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Folder of videos, tables, tar shards or a manifest; or a file.")
    ],
    dataset: Annotated[
        str | None, typer.Option("--dataset", "-d", help="Name of the dataset (default: that of the folder).")
    ] = None,
    to: Annotated[
        Path | None, typer.Option(help="Folder of a new manifest (default: FOLDER itself if it can be written to).")
    ] = None,
    column: ColumnOption = None,
    rating: RatingOption = None,
    tool: ToolOption = None,
    wide: Wide = False,
) -> None:
    """Write a page about a folder of your own videos as it is: `init`, `ingest`, `facts`, `score` and `report` in one.

    No references and no models are needed. A metric that cannot score anything is left out, and its missing inputs are
    named. The same command again continues, and computes nothing twice.
    """
    from assets.new_manifest.make import suggest_dataset_name
    from orchestration.forecasts import load_dataset_plan

    started = time.monotonic()
    # A wrong setting ends the command before it writes anything.
    home = installation.settings.home_folder
    named = parse_column_names(column, rating) if column or rating else None
    manifest, export_command = find_or_make_manifest(installation, source, home, to, named, tool)
    name = dataset or suggest_dataset_name(manifest)
    is_new = _check_name(installation, name, manifest, home)
    _ingest(installation, manifest, name)
    plan = load_dataset_plan(installation, name)
    _require_videos(plan)
    print_plan(plan)
    if is_new:
        _print_time(installation, plan)
    n_undescribed = _count_undescribed_videos(installation, name)
    # Before the facts, since the pass over a video that decodes its frames for scores measures its facts too.
    scored = _score(installation, plan)
    _embed(installation, name)
    _describe(installation, name, n_undescribed)
    files = _report(installation, name)
    _print_samples(installation, name, plan.holdings, scored, wide=wide)
    if export_command and plan.holdings.files:
        console.print(f"later commands need: {export_command}")
    if not plan.holdings.samples:
        own = f"put clip.txt next to clip.mp4, remove {name_manifest_files(manifest)}, and try it again"
        console.print(f"captions: there are none; {own}")
    print_end(files.answers, files.page, name, has_captions=plan.holdings.samples > 0)
    print_sentence(f"done in {time.monotonic() - started:.0f} s")


def _print_time(installation: Installation, plan: Plan) -> None:
    """Print about how long facts and scores take."""
    from assets.datasets.lookup import require_dataset
    from assets.planning.timing import estimate_time

    dataset = require_dataset(installation.engine, plan.holdings.dataset)
    with show_progress() as tell:
        tell("measuring the time on the first rows")
        scorers = [installation.curation.scorers[metric] for metric in plan.metrics]
        line = estimate_time(installation.engine, dataset, plan.holdings, scorers)
    print_sentence(f"plan: {line}")


def _check_name(installation: Installation, dataset: str, folder: Path, home: Path) -> bool:
    """Return whether the dataset is new. Raise UsageError for a name that cannot be used, and for a dataset that has
    videos of another folder.
    """
    from assets.datasets.lookup import BadDatasetName, check_dataset_name
    from db.manifest.datasets import find_dataset, find_first_video_uri
    from orchestration.cli.refusals import UsageError

    try:
        check_dataset_name(dataset, folder, home)
    except BadDatasetName as error:
        raise UsageError(str(error)) from error
    with installation.engine.connect() as connection:
        file = find_first_video_uri(connection, dataset)
        is_new = find_dataset(connection, dataset) is None
    if file is not None and file.startswith("/") and not Path(file).is_relative_to(folder):
        raise UsageError(f"dataset {dataset} has videos of another folder ({file}): choose another name with --dataset")
    return is_new


def _ingest(installation: Installation, folder: Path, dataset: str) -> None:
    """Ingest the manifest, and print what is refused or damaged."""
    from assets.datasets.lookup import require_dataset
    from db.manifest.rejects import list_rejects
    from db.reports.summary import list_unreadable_videos
    from orchestration.launch import run_ingest

    _stage(1, "ingest: rows are checked, and videos decoded")
    run_ingest(installation, folder, dataset, None, None)
    with installation.engine.connect() as connection:
        dataset_id = require_dataset(installation.engine, dataset).dataset_id
        refused, unreadable = list_rejects(connection, dataset_id), list_unreadable_videos(connection, dataset_id)
    # Videos first: a refused video is the reason why its captions are refused.
    refused.sort(key=lambda row: not row["source"].startswith("videos."))
    for code in dict.fromkeys(row["code"] for row in refused):
        _print_some(
            "refused",
            [f"{row['source']} line {row['line']}: {row['reason']}" for row in refused if row["code"] == code],
        )
    _print_some("damaged", [f"{video.key}: {video.error}" for video in unreadable])


def _require_videos(plan: Plan) -> None:
    """Raise RequestRefused if neither a sample nor a video is stored."""
    from orchestration.cli.refusals import RequestRefused

    dataset = plan.holdings.dataset
    if not (plan.holdings.samples or plan.holdings.videos):
        raise RequestRefused(
            f"dataset {dataset} has no video and no caption to describe: reelsieve dataset rejects {dataset} says why"
        )


def _count_undescribed_videos(installation: Installation, dataset: str) -> int:
    from assets.datasets.lookup import require_dataset
    from assets.sources.facts import count_unmeasured_videos
    from metrics_core.facts.models import find_fact_models

    found = require_dataset(installation.engine, dataset)
    return count_unmeasured_videos(installation.engine, found, find_fact_models())


def _describe(installation: Installation, dataset: str, n_videos: int) -> None:
    """Measure the facts that are missing. n_videos: of how many videos they were, before any was scored."""
    from assets.words.text import format_count
    from orchestration.launch import run_facts

    _stage(3, "facts: captions and videos are measured")
    n_texts = run_facts(installation, dataset)["text_fact"]
    texts, videos = format_count(n_texts, "text"), format_count(n_videos, "video")
    print_sentence(f"measured: {texts}, {videos} by this run")


def _score(installation: Installation, plan: Plan) -> list[str]:
    """Score with every metric that can by the plan; return the metrics that have a value."""
    from assets.datasets.lookup import require_dataset
    from assets.words.text import format_count
    from db.scores.sample_scores import load_active_scorers
    from orchestration.launch import run_scoring

    dataset, metrics = plan.holdings.dataset, plan.metrics
    _stage(
        2, f"score with {', '.join(metrics)}" if metrics else "score: skipped, since no metric can score this dataset"
    )
    n_written = 0
    if metrics:
        n_written = sum(
            sum(counts.values()) for _, counts in run_scoring(installation, dataset, metrics, {"facts": True})
        )
    with installation.engine.connect() as connection:
        scorers = load_active_scorers(connection, require_dataset(installation.engine, dataset))
    if metrics:
        n_results = len(metrics) * plan.holdings.samples
        n_scores = sum(scorers[metric].n_defined for metric in metrics if metric in scorers)
        results = f"{format_count(n_results, 'result')}: {format_count(n_scores, 'score')}"
        if n_without := n_results - n_scores:
            results += f", {n_without:,} without a score (reelsieve dataset scores {dataset} shows why)"
        print_sentence(f"scored: {results}; {n_written:,} of them by this run")
    defined = [metric for metric in metrics if metric in scorers and scorers[metric].n_defined]
    for metric in metrics:
        if metric not in defined:
            why = f"{metric} has no value: reelsieve dataset scores {dataset} shows why"
            print_sentence(f"left out: {why}")
    return defined


def _embed(installation: Installation, dataset: str) -> None:
    """Give every caption the vector by which it is placed on the map and searched, or print why not."""
    from assets.datasets.lookup import require_dataset
    from assets.search import embed_captions
    from assets.selection.vectors import find_text_encoder
    from metrics_core.models.errors import ModelUnusable, PackageMissing

    found = require_dataset(installation.engine, dataset)
    try:
        with show_progress() as tell:
            embed_captions(installation.engine, find_text_encoder(installation.curation.scorers), found, tell)
    except (ModelUnusable, PackageMissing) as error:
        print_sentence(f"left out: map and search of captions: {error}")


def _report(installation: Installation, dataset: str) -> ReportFiles:
    """Write the page of the dataset, and return its files and answers."""
    from assets.datasets.lookup import require_dataset
    from assets.reports.report import choose_report_folder, create_report

    _stage(4, "report: one page about the dataset")
    stored, folder = (
        require_dataset(installation.engine, dataset),
        choose_report_folder(installation.curation.home, dataset),
    )
    with show_progress() as tell, keep_files_private():
        return create_report(installation.engine, stored, installation.curation.scorers, folder, tell)


def _print_samples(
    installation: Installation, dataset: str, holdings: Holdings, metrics: Collection[str], *, wide: bool
) -> None:
    """Print how many facts have a number for all samples, and the first samples with some of their values; in a dataset
    without samples the same of its videos.
    """
    from assets.words.text import format_count
    from db.evidence.facts import load_fact_spreads, load_first_samples, load_first_videos
    from db.scores.sample_scores import TELLING_FACTS

    n, load = (holdings.samples, load_first_samples) if holdings.samples else (holdings.videos, load_first_videos)
    counted = "sample" if holdings.samples else "video"
    with installation.engine.connect() as connection:
        spreads = load_fact_spreads(connection, dataset)
        facts = [spread.fact for spread in spreads if spread.n and spread.fact in TELLING_FACTS]
        columns = [*metrics, *facts]
        rows = load(connection, dataset, columns, SHOWN)
    n_full = sum(spread.n == n and spread.least is not None for spread in spreads)
    facts_shown = f"{format_count(n_full, 'fact')} {'has' if n_full == 1 else 'have'} a number"
    of_all = f"all {format_count(n, counted)}" if n > 1 else f"the {counted}"
    print_sentence(f"\n{facts_shown} for {of_all}; reelsieve facts {dataset} shows them\n")
    shown = [{name: row[name] for name in (counted, *columns)} for row in rows]
    print_rows(shown, empty="", kept=None if wide else (counted,))
    if n > SHOWN and holdings.samples:
        print_sentence(f"these are the first {SHOWN} samples; view sample_scores has all samples and columns")


def _print_some(what: str, sentences: list[str]) -> None:
    """Print the first sentences, and how many more there are."""
    for sentence in sentences[:NAMED]:
        console.print(f"{what}: {sentence}")
    if (more := len(sentences) - NAMED) > 0:
        print_sentence(f"{what}: {more:,} more")


def _stage(number: int, what: str) -> None:
    print_sentence(f"{number} of 4 {what}", style="bold")
