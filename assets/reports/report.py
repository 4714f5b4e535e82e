"""The report of a dataset: facts from one state of the database, a page made of them, and files written whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path

from sqlalchemy.engine import Connection, Engine

from assets.agreement.rows import Judged, load_judged, rows_of
from assets.reports.choosing import choose
from assets.reports.comparisons import (
    draw,
    gather_cuts,
    gather_label_cuts,
    gather_pairs,
    gather_rating_cuts,
    gather_spreads,
)
from assets.reports.data import gather_data, gather_metrics, shown_name
from assets.reports.facts import DataFacts, MetricFacts, Report, SystemTable
from assets.reports.looked_at import gather_samples
from assets.reports.systems import gather_systems
from assets.reports.trust import Beside, beside_people, gather_trust
from assets.reports.write import ReportFiles, writable_folder, write_report
from assets.scores.base import Scorer
from db.manifest.datasets import Dataset
from db.reports.agreement import replace_agreement
from db.reports.values import collect_scores
from db.scores.shards import score_tally, shard_counts
from db.scores.stored import active_scorer
from metrics_core.agreement.same_items import SameItems
from metrics_core.agreement.verdicts import corrected


def make_report(
    engine: Engine,
    dataset: Dataset,
    scorers: Mapping[str, Scorer],
    folder: Path,
    tell: Callable[[str], None] = lambda line: None,
) -> ReportFiles:
    """Gather everything about a dataset, store its agreement rows anew, and write the page and its numbers.

    All numbers come from one state of the database, so that none is older than another. tell: hears of the progress.
    Raises ReportError where the folder cannot be written.
    """
    target = writable_folder(folder)
    report = gather(engine, dataset, scorers, tell)
    with engine.begin() as connection:
        replace_agreement(connection, dataset.dataset_id, [asdict(row) for row in report.agreement])
    tell("drawing the page")
    return write_report(report, target)


def report_folder(home: Path, dataset: str) -> Path:
    """Where a dataset's report lies unless somebody names another folder."""
    return home / "reports" / dataset


def gather(
    engine: Engine, dataset: Dataset, scorers: Mapping[str, Scorer], tell: Callable[[str], None] = lambda line: None
) -> Report:
    """Gather the facts of a report."""
    tell("reading the scores")
    _count_shards(engine, dataset, scorers)
    with _snapshot(engine) as connection:
        collect_scores(connection, dataset, list(scorers))
        data, metrics = gather_data(connection, dataset), gather_metrics(connection, list(scorers))
        tell("comparing the systems")
        systems, people = gather_systems(connection, data, metrics)
        tell("comparing the metrics with people")
        judged = load_judged(connection, dataset, list(scorers))
        agreement = rows_of(judged)
        systems, beside = _corrected(systems, beside_people(judged))
        trust = gather_trust(judged, agreement, metrics, data, beside)
        tell("comparing the metrics with each other")
        drawn = draw(connection, metrics)
        groups = choose(connection, metrics, drawn, judged)
        return Report(
            dataset=dataset.name,
            made_at=datetime.now(timezone.utc),
            version=version("reelsieve"),
            notices=tuple(notices(data, metrics, judged)),
            metrics=metrics,
            data=data,
            systems=systems,
            people=people,
            trust=trust,
            pairs=gather_pairs(drawn),
            n_paired=len(drawn.sample_ids),
            spreads=gather_spreads(connection, metrics),
            cuts=gather_cuts(connection, metrics, data),
            rating_cuts=gather_rating_cuts(judged, metrics, trust),
            label_cuts=gather_label_cuts(connection, dataset),
            groups=gather_samples(engine, connection, dataset, groups, metrics, scorers, tell),
            agreement=tuple(agreement),
        )


def _corrected(
    systems: Sequence[SystemTable], beside: Beside
) -> tuple[tuple[SystemTable, ...], dict[tuple[str, str], SameItems]]:
    """Correct the chances of all claims of the page: which system is best, and which metric agrees with people."""
    leads = [lead for table in systems for lead in table.leads.values()]
    own, corrected_leads = corrected(beside, leads)
    rest = iter(corrected_leads)
    return tuple(replace(table, leads={name: next(rest) for name in table.leads}) for table in systems), own


def notices(data: DataFacts, metrics: Sequence[MetricFacts], judged: Judged) -> Iterator[str]:
    """What a reader must know before the first number."""
    if data.synthetic_ratings:
        yield "The ratings are synthetic: made by a program, not by people."
    for metric in metrics:
        for name, remedy in metric.stand_ins.items():
            yield f"{shown_name(metric.name)} was made with the {name}; {remedy}."
        if n_stale := sum(each.n for each in metric.statuses if each.status == "stale"):
            yield f"{n_stale} scores of {metric.label} are stale and left out: reelsieve score makes them anew."
    if not metrics:
        yield "No sample has a score yet: reelsieve score makes them."
    if judged.n_others:
        yield f"People judged {judged.n_others:,} question-answer pairs, too; agreement is that of captions alone."
    if not judged.ratings:
        yield "There are no ratings and no labels, so nothing tells how far a metric agrees with people."


def _count_shards(engine: Engine, dataset: Dataset, scorers: Mapping[str, Scorer]) -> None:
    """Count the shards that changed. Of those without a stale score, views need not compare every score's inputs."""
    for metric, scorer in scorers.items():
        with engine.connect() as connection:
            scorer_id = active_scorer(connection, metric)
        if scorer_id is not None:
            shard_counts(engine, score_tally(scorer.inputs), scorer_id, [dataset.dataset_id])


@contextmanager
def _snapshot(engine: Engine) -> Iterator[Connection]:
    """A connection that sees one state of the database; its temporary table goes with it."""
    with engine.connect().execution_options(isolation_level="REPEATABLE READ") as connection, connection.begin():
        yield connection
