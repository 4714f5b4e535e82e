"""The report of a dataset: loads what is stored, computes the records of a page, and writes the page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path

from sqlalchemy.engine import Connection, Engine

from assets.agreement.judged import COMMON_WORDS, JudgedSamples, load_judged_snapshot
from assets.agreement.raters import explain_failed_checks, explain_patterns
from assets.agreement.scales import RatingSettings
from assets.agreement.table import load_agreement, store_agreement
from assets.home.files import create_home_folder
from assets.home.settings import read_settings
from assets.metrics.judge.repeated import load_judge_steadiness
from assets.planning.holdings import load_dataset_holdings
from assets.planning.plan import build_plan, list_scorer_inputs
from assets.promise.estimated_means import load_estimated_means, store_estimated_means
from assets.reports.answers import build_answers
from assets.reports.data import load_data_summary, load_metric_summaries
from assets.reports.dataset_facts import load_dataset_facts
from assets.reports.distributions import SAMPLE_KIND, compute_metric_spreads, draw_captions
from assets.reports.records import DataSummary, MetricSummary, Report, SystemTable
from assets.reports.report_files import ReportFiles, create_report_folder, write_report
from assets.reports.sample_choice import choose_shown_samples
from assets.reports.samples import load_shown_samples
from assets.reports.stressed import load_metric_stresses
from assets.reports.systems import compute_system_tables
from assets.reports.thresholds import (
    compute_share_threshold_rows,
    load_label_threshold_rows,
    load_rating_threshold_rows,
)
from assets.reports.trust import MetricClaims, build_trust_summary, explain_stale_agreement, load_claims
from assets.scores.base import Scorer
from assets.thresholds.ratings import store_rating_thresholds
from assets.words.labels import (
    explain_excluded_ratings,
    explain_old_ratings,
    explain_turned_aspects,
    format_metric_name,
)
from assets.words.text import format_count
from db.manifest.datasets import Dataset
from db.reports.judgements import list_answers
from db.scores.sample_scores import SIMPLE_SCORES, list_dataset_metrics, load_active_scorers
from db.scores.score_arrays import load_score_arrays
from db.scores.scorers import StoredScorer, list_scorers
from db.selection.trials import choose_newest_trials, load_dataset_trials
from metrics_core.agreement.conclusions import correct_comparisons


def create_report(
    engine: Engine,
    dataset: Dataset,
    scorers: Mapping[str, Scorer],
    folder: Path,
    tell: Callable[[str], None] = lambda line: None,
) -> ReportFiles:
    """Compute and store a dataset's agreement with people, estimated means and rating thresholds, then write its report
    page and numbers to a folder, which is created. Return the paths, notices and answers. scorers: by metric. tell:
    called with lines of progress. Reads REELSIEVE_GOOD_RATINGS. Raises ReportError where the folder cannot be written.

    Does what the assets `rating_threshold`, `agreement` and `dataset_report` do one after the other.
    """
    target = create_report_folder(folder)
    tell("comparing the metrics with people")
    judged = load_judged_snapshot(engine, dataset)
    store_rating_thresholds(engine, dataset, judged, read_settings(RatingSettings).good_ratings)
    store_agreement(engine, dataset, judged)
    store_estimated_means(engine, dataset)
    return write_stored_report(engine, dataset, scorers, judged, target, tell)


def write_stored_report(
    engine: Engine,
    dataset: Dataset,
    scorers: Mapping[str, Scorer],
    judged: JudgedSamples,
    folder: Path,
    tell: Callable[[str], None] = lambda line: None,
) -> ReportFiles:
    """Write the report page of a dataset and its numbers to a folder, which is created, from what the database holds;
    agreement is not computed again. Return the paths, notices and answers. scorers: by metric. tell: called with lines
    of progress. Raises ReportError where the folder cannot be written.

    Everything is read from one state of the database; `judged` may be of an earlier one.
    """
    target = create_report_folder(folder)
    report = compute_report(engine, dataset, scorers, judged, tell)
    tell("drawing the page")
    return write_report(report, target)


def choose_report_folder(home: Path, dataset: str) -> Path:
    """Return the default folder of a dataset's report, `reports/DATASET` in the home. Creates folder `reports` if it is
    missing, not the dataset's folder.
    """
    return create_home_folder(home, "reports") / dataset


def compute_report(
    engine: Engine,
    dataset: Dataset,
    scorers: Mapping[str, Scorer],
    judged: JudgedSamples,
    tell: Callable[[str], None] = lambda line: None,
) -> Report:
    """Load and compute everything that a report of a dataset shows, from one state of the database. scorers: by metric,
    to explain scores. judged: the dataset's judged samples, loaded before. tell: called with lines of progress. Decodes
    frames of the shown samples, which may fetch remote videos; stores no numbers.
    """
    tell("reading the scores")
    with _open_snapshot(engine) as connection:
        # Not only those of `scorers`: some scores were imported.
        active = load_active_scorers(connection, dataset)
        scorer_ids = {
            name: active[name].scorer_id for name in list_dataset_metrics(connection, dataset) if name in active
        }
        samples = load_score_arrays(connection, dataset, scorer_ids)
        captions = samples.get(SAMPLE_KIND)
        given = list_answers(connection, dataset.dataset_id)
        data = load_data_summary(connection, dataset, samples, given)
        metrics = load_metric_summaries(connection, dataset, samples, scorer_ids)
        described = load_dataset_facts(connection, dataset)
        planned = {name: scorer for name, scorer in scorers.items() if name not in SIMPLE_SCORES}
        plan = build_plan(load_dataset_holdings(connection, dataset, list_scorer_inputs(planned.values())), planned)
        tell("comparing the systems")
        systems, people = compute_system_tables(samples, judged.by_kind, data, metrics)
        rows, compared_at = load_agreement(connection, dataset)
        compared = load_claims(connection, dataset, rows, judged, scorers)
        systems, people, compared = _correct_chances(systems, people, compared)
        age = explain_stale_agreement(connection, dataset, rows, compared_at, judged)
        patterns, failed = explain_patterns(given), explain_failed_checks(data.checks)
        trust = build_trust_summary(judged, metrics, data, compared, age, patterns.keys() | failed.keys())
        trials = load_dataset_trials(connection, dataset.dataset_id)
        stresses = load_metric_stresses(connection, dataset, metrics)
        drawn = draw_captions(captions, metrics)
        groups = choose_shown_samples(connection, captions, metrics, drawn, judged, described)
        return Report(
            dataset=dataset.name,
            made_at=datetime.now(timezone.utc),
            version=version("reelsieve"),
            notices=(
                *list_notices(dataset.name, data, metrics, judged, age),
                *(stress.warning for stress in stresses if stress.warning),
                *patterns.values(),
                *failed.values(),
            ),
            answers=build_answers(dataset.name, data, described, plan, metrics, trust, systems, people, trials),
            metrics=metrics,
            data=data,
            described=described,
            systems=systems,
            people=people,
            trust=trust,
            stresses=stresses,
            judges=tuple(load_judge_steadiness(connection, dataset, _list_active_scorers(connection, metrics))),
            spreads=compute_metric_spreads(samples, metrics),
            cuts=compute_share_threshold_rows(samples, metrics, judged.by_kind),
            rating_cuts=load_rating_threshold_rows(connection, dataset, judged, metrics, trust),
            label_cuts=load_label_threshold_rows(connection, dataset),
            groups=load_shown_samples(engine, connection, dataset, groups, samples, metrics, scorers, tell),
            agreement=tuple(rows),
            estimated_means=load_estimated_means(connection, dataset),
            trials=choose_newest_trials(trials),
        )


def _list_active_scorers(connection: Connection, metrics: Sequence[MetricSummary]) -> list[StoredScorer]:
    names = {metric.name for metric in metrics}
    return [scorer for scorer in list_scorers(connection) if scorer.metric in names and scorer.status == "active"]


def _correct_chances(
    systems: Sequence[SystemTable], people: Sequence[SystemTable], compared: MetricClaims
) -> tuple[tuple[SystemTable, ...], tuple[SystemTable, ...], MetricClaims]:
    """Return the tables and claims with p-values corrected by Holm, in the two families of `correct_comparisons`.

    The first family has the claims which system is best, by metrics and by people, and which metrics order captions and
    systems as people do. The second has the differences between metrics and their strongest simple scores.
    """
    tables = (*systems, *people)
    leads = [lead for table in tables for lead in table.leads.values()]
    same_items, others = correct_comparisons(
        compared.same_items, [*leads, *(order.p for order in compared.system_orders.values())]
    )
    rest = iter(others)
    tables_of_all = tuple(replace(table, leads={name: next(rest) for name in table.leads}) for table in tables)
    orders = {key: replace(order, p=next(rest)) for key, order in compared.system_orders.items()}
    return (
        tables_of_all[: len(systems)],
        tables_of_all[len(systems) :],
        replace(compared, same_items=same_items, system_orders=orders),
    )


def list_notices(
    dataset: str, data: DataSummary, metrics: Sequence[MetricSummary], judged: JudgedSamples, age: str | None
) -> Iterator[str]:
    """Yield the sentences that a reader needs before the first number: stale agreement or scores, synthetic ratings,
    stand-ins for models, and what is left out. dataset: its name, for commands. age: as `explain_stale_agreement`
    returns it. Nothing where all is well.
    """
    if age:
        yield age
    if data.synthetic_ratings:
        yield "The ratings are synthetic: made by a program, not by people."
    if data.turned_aspects:
        sentence = explain_turned_aspects(data.turned_aspects)
        yield f"{sentence[0].upper()}{sentence[1:]}."
    if data.n_drawn_apart:
        yield f"{explain_excluded_ratings(data.n_drawn_apart)}."
    if n_old := data.counts["old_ratings"]:
        yield f"{explain_old_ratings(n_old)}."
    for metric in metrics:
        for name, remedy in metric.stand_ins.items():
            yield f"Scores of {format_metric_name(metric.name)} were made with the {name}; {remedy}."
        if n := metric.n_stale:
            scores, are, them = ("score", "is", "it") if n == 1 else ("scores", "are", "them")
            remedy = (
                f"rs.import_scores imports {them} again"
                if metric.is_imported
                else f"reelsieve score computes {them} again"
            )
            yield f"{n} {scores} of {metric.label} {are} stale and left out: {remedy}."
    if data.counts["references"] and judged.sample_ids.size and COMMON_WORDS not in judged.baselines:
        yield (
            "No metric is compared with the simple score words in common, which is not computed yet: run reelsieve "
            f"facts --dataset {dataset}."
        )
    if judged.n_others:
        others = format_count(judged.n_others, "question-answer pair")
        yield f"Agreement is computed for captions only; people also judged {others}."


@contextmanager
def _open_snapshot(engine: Engine) -> Iterator[Connection]:
    """Open a connection that sees one state of the database, and close it after the block, with its temporary
    tables.
    """
    with engine.connect().execution_options(isolation_level="REPEATABLE READ") as connection, connection.begin():
        yield connection
