"""The command demo: every step once, on a small synthetic dataset whose content is known."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from assets.home.files import keep_files_private
from assets.home.folder import DEMO_DATASET
from orchestration.cli.output import console, print_end, print_rows, print_sentence
from orchestration.cli.pass_installation import pass_installation

if TYPE_CHECKING:
    from db.manifest.datasets import Dataset
    from orchestration.installation import Installation

DATASET = DEMO_DATASET
KEPT_SHARE = 0.125
"""The share of the captions that the training subset of the demo keeps."""


@pass_installation
def demo(installation: Installation) -> None:
    """Ingest, score and select a few drawn clips, and show the results. A second run scores nothing anew."""
    from assets.datasets.lookup import require_dataset
    from assets.reports.answer_records import ReportAnswers
    from orchestration.conclusions import load_current_conclusions
    from orchestration.launch import run_conclusions, run_ingest, run_scoring, run_subset

    started = time.monotonic()
    folder = installation.home / DATASET
    with keep_files_private():
        copy_dataset(folder)
    _stage(2, "ingest: every row is checked, and every clip decoded")
    report = run_ingest(installation, folder, DATASET, None, None)
    print_sentence(f"ingested: {_format_counts(report.accepted)}; unchanged: {_format_counts(report.unchanged)}")
    metrics = installation.usable_metrics
    _stage(3, f"score captions and questions with {', '.join(metrics)}: this takes longest")
    written = sum(sum(counts.values()) for _, counts in run_scoring(installation, DATASET, metrics))
    done = f"{written:,} results (a score, or a status and its reason)" if written else "nothing was left to score"
    print_sentence(f"scored: {done}")
    _stage(4, "calibrate the thresholds of ecs on labels")
    has_calibrated = _calibrate(installation)
    _stage(5, "conclude: agreement with ratings, report; freeze the best eighth")
    is_unchanged = not (report.accepted.total() or written or has_calibrated)
    dataset = require_dataset(installation.engine, DATASET)
    stored = load_current_conclusions(installation.instance, dataset) if is_unchanged else None
    recipe = {"by": metrics[0], "keep": KEPT_SHARE, "stale": "leave_out"}
    results = stored or {**run_conclusions(installation, DATASET), **run_subset(installation, DATASET, recipe)}
    if stored:
        print_sentence("concluded: the stored conclusions are up to date")
    _show_systems(installation, dataset, metrics)
    _show_best_and_worst(installation, dataset, metrics[0])
    subset = results["training_subset"]
    query = (
        "SELECT system, avg(vcs) AS vcs, avg(evqa) AS evqa, min(evqa_models) AS evqa_by FROM sample_scores "
        "GROUP BY 1 ORDER BY 2 DESC NULLS LAST"
    )
    console.print(
        f"\ntraining subset: the best eighth, {subset['dagster/row_count']} samples, "
        f"{metrics[0]} at least {subset['cutoff']:.4f}: {subset['path']}"
        f"\nwhy this score:  reelsieve explain clip_001__sys_shuffled --dataset demo --metric vcs"
        f"\nlineage:         reelsieve ui   (opens on 127.0.0.1:3000)"
        f'\nquery:           reelsieve sql "{query}"'
    )
    print_sentence(
        "The videos, captions and ratings of the demo are synthetic: made by a program, rated by a rule. "
        "The demo encoder only works on these videos.\n"
    )
    page = Path(results["dataset_report"]["path"])
    print_end(ReportAnswers.read(page.with_name("report.json")), page, DATASET, has_captions=True)
    print_sentence(f"done in {time.monotonic() - started:.0f} s")


def _calibrate(installation: Installation) -> bool:
    """Choose the thresholds of ECS on labels of the demo, once, and print how good they are on the other videos.

    Returns whether they were chosen now.
    """
    from assets.datasets.lookup import require_dataset
    from assets.scores.pending import store_scorer
    from db.scores.thresholds import load_label_thresholds
    from orchestration.launch import run_calibration

    scorer_id = store_scorer(installation.engine, installation.curation.scorers["ecs"])
    with installation.engine.connect() as connection:
        if load_label_thresholds(connection, scorer_id, require_dataset(installation.engine, DATASET).dataset_id):
            print_sentence("calibrated: an earlier run has chosen the thresholds of ecs")
            return False
    *_, total = run_calibration(installation, DATASET, "f1", "calibration")["evaluation"]
    console.print(
        f"calibrated: thresholds of ecs chosen on a fifth of the videos; with them ecs is right on "
        f"{total['accuracy']:.1%} of the {total['labels']} labels of the others (always the same answer: "
        f"{total['majority']:.1%})"
    )
    return True


def _show_systems(installation: Installation, dataset: Dataset, metrics: Sequence[str]) -> None:
    from assets.words.labels import load_metric_label
    from db.scores.store import find_active_scorer, load_values_by_system

    means: dict[str, dict[str, float]] = {}
    with installation.engine.connect() as connection:
        labels = {metric: load_metric_label(connection, metric) for metric in metrics}
        for metric in metrics:
            scorer_id = find_active_scorer(connection, metric)
            by_system = {} if scorer_id is None else load_values_by_system(connection, scorer_id, dataset.dataset_id)
            for system, values in by_system.items():
                means.setdefault(system, {})[labels[metric]] = fmean(values)
    print_sentence("\nmean scores of the systems' captions", style="bold")
    best_first = sorted(means, key=lambda system: -means[system].get(labels[metrics[0]], -1.0))
    rows = [{"system": s, **{label: means[s].get(label) for label in labels.values()}} for s in best_first]
    print_rows(rows, empty="no sample has a score")


def _show_best_and_worst(installation: Installation, dataset: Dataset, metric: str) -> None:
    from assets.words.tables import shorten_text
    from db.scores.store import find_active_scorer, list_best_and_worst

    with installation.engine.connect() as connection:
        scorer_id = find_active_scorer(connection, metric)
        samples = list_best_and_worst(connection, scorer_id, dataset.dataset_id, "caption", 4) if scorer_id else []
    print_sentence(f"\nthe 4 best and 4 worst captions by {metric}", style="bold")
    rows = [
        {"sample": sample.key, "system": sample.system, metric: sample.value, "text": shorten_text(sample.text, 60)}
        for sample in samples
    ]
    print_rows(rows, empty="no sample has a score")


def copy_dataset(folder: Path) -> None:
    """Copy the demo's files into a folder, that of their hashes last. A folder that has the same hashes stays as it is,
    with all changes by the user.
    """
    from demo import FOLDER, HASHES

    _stage(1, "copy 10 drawn clips, with captions, facts, questions and ratings")
    hashes = (FOLDER / HASHES).read_bytes()
    marker = folder / HASHES
    if marker.is_file() and marker.read_bytes() == hashes:
        console.print(f"demo dataset: {folder} (copied before)")
        return
    (folder / "videos").mkdir(parents=True, exist_ok=True)
    for line in hashes.decode().splitlines():
        name = line.partition("  ")[2]
        shutil.copyfile(FOLDER / name, folder / name)
    marker.write_bytes(hashes)
    console.print(f"copied: {folder / 'videos' / 'clip_000.mp4'} is the first")


def _stage(number: int, what: str) -> None:
    print_sentence(f"{number} of 5 {what}", style="bold")


def _format_counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{n} {table}" for table, n in counts.items() if n) or "nothing"
