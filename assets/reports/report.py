"""The report of a dataset: facts that are stored, a page made of them, and files written whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path

from sqlalchemy.engine import Connection, Engine

from assets.agreement.judged import COMMON_WORDS, Judged, read_judged
from assets.agreement.raters import pattern_sentences
from assets.agreement.table import read_agreement, store_agreement
from assets.holdings import of_dataset
from assets.home_files import make_home_folder
from assets.plan import inputs_of, make_plan
from assets.reports.answers import answers
from assets.reports.choice import choose
from assets.reports.cuts import gather_cuts, gather_label_cuts, gather_rating_cuts
from assets.reports.data import gather_data, gather_metrics
from assets.reports.described import gather_described
from assets.reports.distributions import draw, gather_pairs, gather_spreads
from assets.reports.facts import DataFacts, MetricFacts, Report, SystemTable
from assets.reports.labels import apart, explain_old_ratings, shown_name
from assets.reports.samples import gather_samples
from assets.reports.systems import gather_systems
from assets.reports.trust import Claims, explain_age, gather_trust, read_claims
from assets.reports.write import ReportFiles, writable_folder, write_report
from assets.scores.base import Scorer
from assets.settings import read_settings
from assets.thresholds.ratings import store_rating_cuts
from assets.thresholds.settings import RatingSettings
from db.manifest.datasets import Dataset
from db.reports.agreement import list_answers
from db.reports.values import collect_scores
from db.scores.present import SIMPLE_SCORES, known_metrics
from metrics_core.agreement.verdicts import corrected


def make_report(
    engine: Engine,
    dataset: Dataset,
    scorers: Mapping[str, Scorer],
    folder: Path,
    tell: Callable[[str], None] = lambda line: None,
) -> ReportFiles:
    """Compute and store what judgements say of the metrics of a dataset, and write its page and its numbers.

    That is what the assets `rating_threshold`, `agreement` and `dataset_report` do one after the other. tell: hears of
    the progress. Raises ReportError where the folder cannot be written.
    """
    target = writable_folder(folder)
    tell("comparing the metrics with people")
    judged = read_judged(engine, dataset)
    store_rating_cuts(engine, dataset, judged, read_settings(RatingSettings).good_ratings)
    store_agreement(engine, dataset, judged)
    return write_stored(engine, dataset, scorers, judged, target, tell)


def write_stored(
    engine: Engine,
    dataset: Dataset,
    scorers: Mapping[str, Scorer],
    judged: Judged,
    folder: Path,
    tell: Callable[[str], None] = lambda line: None,
) -> ReportFiles:
    """Write the page of a dataset and its numbers from what is stored, with the agreement as its table has it.

    All that is read here is of one state of the database; `judged` may be of an earlier one. Raises ReportError where
    the folder cannot be written.
    """
    target = writable_folder(folder)
    report = gather(engine, dataset, scorers, judged, tell)
    tell("drawing the page")
    return write_report(report, target)


def report_folder(home: Path, dataset: str) -> Path:
    """Return where a dataset's report lies unless somebody names another folder; the folder of all reports is made."""
    return make_home_folder(home, "reports") / dataset


def gather(
    engine: Engine,
    dataset: Dataset,
    scorers: Mapping[str, Scorer],
    judged: Judged,
    tell: Callable[[str], None] = lambda line: None,
) -> Report:
    """Gather the facts of a report. judged: the judged samples of the dataset."""
    tell("reading the scores")
    with _snapshot(engine) as connection:
        # Not those of `scorers` alone: some scores were made elsewhere.
        names = known_metrics(connection, dataset)
        collect_scores(connection, dataset, names)
        given = list_answers(connection, dataset.dataset_id)
        data, metrics = gather_data(connection, dataset, given), gather_metrics(connection, names)
        described = gather_described(connection, dataset)
        planned = {name: scorer for name, scorer in scorers.items() if name not in SIMPLE_SCORES}
        plan = make_plan(of_dataset(connection, dataset, inputs_of(planned.values())), planned)
        tell("comparing the systems")
        systems, people = gather_systems(connection, data, metrics)
        stored = read_agreement(connection, dataset)
        compared = read_claims(connection, dataset, stored, judged, scorers)
        systems, people, compared = _corrected(systems, people, compared)
        age = explain_age(connection, dataset, stored, judged)
        trust = gather_trust(judged, metrics, data, compared, age)
        tell("comparing the metrics with each other")
        drawn = draw(connection, metrics)
        groups = choose(connection, metrics, drawn, judged, described)
        return Report(
            dataset=dataset.name,
            made_at=datetime.now(timezone.utc),
            version=version("reelsieve"),
            notices=(*notices(dataset.name, data, metrics, judged, age), *pattern_sentences(given)),
            answers=answers(dataset.name, data, described, plan, metrics, trust, systems, people),
            metrics=metrics,
            data=data,
            described=described,
            systems=systems,
            people=people,
            trust=trust,
            pairs=gather_pairs(drawn),
            n_paired=len(drawn.sample_ids),
            spreads=gather_spreads(connection, metrics),
            cuts=gather_cuts(connection, metrics, data),
            rating_cuts=gather_rating_cuts(connection, dataset, judged, metrics, trust),
            label_cuts=gather_label_cuts(connection, dataset),
            groups=gather_samples(engine, connection, dataset, groups, metrics, scorers, tell),
            agreement=stored.rows,
        )


def _corrected(
    systems: Sequence[SystemTable], people: Sequence[SystemTable], compared: Claims
) -> tuple[tuple[SystemTable, ...], tuple[SystemTable, ...], Claims]:
    """Correct the chances of all claims of the page.

    These are which system is best, by metrics and by people, and which metrics order captions and systems as people do.
    """
    tables = (*systems, *people)
    leads = [lead for table in tables for lead in table.leads.values()]
    beside, others = corrected(compared.beside, [*leads, *(order.p for order in compared.orders.values())])
    rest = iter(others)
    own = tuple(replace(table, leads={name: next(rest) for name in table.leads}) for table in tables)
    orders = {key: replace(order, p=next(rest)) for key, order in compared.orders.items()}
    return own[: len(systems)], own[len(systems) :], replace(compared, beside=beside, orders=orders)


def notices(
    dataset: str, data: DataFacts, metrics: Sequence[MetricFacts], judged: Judged, age: str | None
) -> Iterator[str]:
    """Yield what a reader must know before the first number. age: of the stored agreement, see `explain_age`."""
    if age:
        yield age
    if data.synthetic_ratings:
        yield "The ratings are synthetic: made by a program, not by people."
    if data.n_drawn_apart:
        yield f"{apart(data.n_drawn_apart)}."
    if n_old := data.counts["old_ratings"]:
        yield f"{explain_old_ratings(n_old)}."
    for metric in metrics:
        for name, remedy in metric.stand_ins.items():
            yield f"{shown_name(metric.name)} was made with the {name}; {remedy}."
        if n := metric.n_stale:
            scores, are, them = ("score", "is", "it") if n == 1 else ("scores", "are", "them")
            remedy = (
                f"rs.import_scores imports {them} again" if metric.is_imported else f"reelsieve score makes {them} anew"
            )
            yield f"{n} {scores} of {metric.label} {are} stale and left out: {remedy}."
    if data.counts["references"] and judged.samples and COMMON_WORDS not in judged.baselines:
        yield (
            "Words in common with references are not scored, so no metric is held against them: run reelsieve facts "
            f"--dataset {dataset}."
        )
    if judged.n_others:
        yield f"People judged {judged.n_others:,} question-answer pairs, too; agreement is that of captions alone."


@contextmanager
def _snapshot(engine: Engine) -> Iterator[Connection]:
    """A connection that sees one state of the database; its temporary table goes with it."""
    with engine.connect().execution_options(isolation_level="REPEATABLE READ") as connection, connection.begin():
        yield connection
