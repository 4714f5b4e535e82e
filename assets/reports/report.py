"""The report of a dataset: facts from one state of the database, a page made of them, and files written whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path

import numpy as np
import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from assets.agreement.progress import own_repeats
from assets.agreement.raters import pattern_sentences
from assets.agreement.rows import COMMON_WORDS, LABELS, Judged, load_judged, rows_of
from assets.holdings import of_dataset
from assets.home_files import make_home_folder
from assets.plan import inputs_of, make_plan
from assets.reports.answers import answers
from assets.reports.comparisons import (
    Comparison,
    beside_people,
    draw,
    gather_cuts,
    gather_label_cuts,
    gather_pairs,
    gather_rating_cuts,
    gather_references,
    gather_spreads,
    gather_trust,
    orders_of_systems,
)
from assets.reports.described import gather_described
from assets.reports.facts import DataFacts, MetricFacts, Report, SystemCount, SystemTable
from assets.reports.labels import STAND_INS, apart, explain_old_ratings, metric_label, shown_name, stand_ins
from assets.reports.looked_at import choose, gather_samples
from assets.reports.write import MOST_SYSTEMS, ReportFiles, writable_folder, write_report
from assets.scores.base import Scorer
from db.manifest.datasets import Dataset
from db.reports.agreement import answers_of, repeats_of, replace_agreement
from db.reports.summary import (
    aspects_of,
    count_labelled,
    dataset_summary,
    drawn_apart,
    duration_spread,
    has_synthetic_ratings,
    rated_between,
    raters_of,
    refused_rows,
    video_statuses,
    word_spreads,
)
from db.reports.values import Tally, collect_scores, reasons, systems_of, tallies
from db.reports.videos import Samples, count_videos, judgements_by_video, values_by_video
from db.schema import scorer
from db.scores.present import SIMPLE_SCORES, known_metrics
from db.scores.quality import StatusCount
from db.scores.stored import active_models, active_scorer
from metrics_core.agreement.verdicts import corrected
from metrics_core.arrays import FloatArray
from metrics_core.intervals import cluster_means

# What is in the data: counts, systems, lengths, people's work, and what every metric could and could not score.


def gather_data(connection: Connection, dataset: Dataset) -> DataFacts:
    """Count what the dataset holds; `reported` must have been collected."""
    summary = dataset_summary(connection, dataset.name)
    dataset_id = dataset.dataset_id
    return DataFacts(
        counts={name: int(value) for name, value in summary.items() if name != "dataset"},
        video_statuses=video_statuses(connection, dataset_id),
        duration_s=duration_spread(connection, dataset_id),
        words=tuple(word_spreads(connection, dataset_id)),
        systems=tuple(SystemCount(*row) for row in systems_of(connection)),
        raters=raters_of(connection, dataset_id),
        ratings=aspects_of(connection, dataset_id),
        refused=refused_rows(connection, dataset_id),
        labelled=count_labelled(connection, dataset_id),
        synthetic_ratings=has_synthetic_ratings(connection, dataset_id),
        rated_between=rated_between(connection, dataset_id),
        repeats=own_repeats(repeats_of(connection, dataset_id)),
        n_drawn_apart=drawn_apart(connection, dataset_id),
    )


def gather_metrics(connection: Connection, metrics: Sequence[str]) -> tuple[MetricFacts, ...]:
    """Describe the metrics that have looked at some sample of the dataset, with the statuses of all samples."""
    found = (_metric(connection, metric, tally) for metric, tally in tallies(connection, metrics).items())
    return tuple(facts for facts in found if facts is not None)


def _metric(connection: Connection, metric: str, tally: Sequence[Tally]) -> MetricFacts | None:
    scorer_id = active_scorer(connection, metric)
    if scorer_id is None or all(each.status == "unscored" for each in tally):
        return None
    why = reasons(connection, metric, scorer_id)
    version = connection.scalar(sa.select(scorer.c.code_version).where(scorer.c.scorer_id == scorer_id))
    return MetricFacts(
        name=metric,
        label=shown_name(metric_label(connection, metric)),
        models=tuple(dict.fromkeys(active_models(connection, metric))),
        code_version=str(version),
        stand_ins={name: STAND_INS[name] for name in stand_ins(connection, metric)},
        statuses=tuple(StatusCount(each.kind, each.status, each.n, why.get(each.status)) for each in tally),
        n_defined=sum(each.n for each in tally if each.status == "ok"),
        ranges={each.kind: (each.low, each.high) for each in tally if each.low is not None and each.high is not None},
    )


# Which systems are best: the mean of every metric and of every rating, with intervals over videos.


def gather_systems(
    connection: Connection, data: DataFacts, metrics: Sequence[MetricFacts]
) -> tuple[tuple[SystemTable, ...], tuple[SystemTable, ...]]:
    """Return the tables of metrics and of ratings, one for each kind of samples that has some."""
    by_metric, by_aspect = [], []
    for kind in ("caption", "qa"):
        # Of very many systems those with the most samples.
        systems = [each.system for each in data.systems if each.kind == kind]
        shown = systems[:MOST_SYSTEMS]
        n_left_out = len(systems) - len(shown)
        names = [metric.name for metric in metrics if metric.scores_kind(kind)]
        if names:
            n_videos = count_videos(connection, kind, judged=False)
            values = values_by_video(connection, kind, names, shown)
            by_metric.append(_table(kind, shown, names, n_videos, n_left_out, values))
        aspects = [*sorted(data.ratings), *([LABELS] if data.labelled else [])]
        n_judged = count_videos(connection, kind, judged=True) if aspects else 0
        if n_judged:
            values = judgements_by_video(connection, kind, aspects, LABELS, shown)
            by_aspect.append(_table(kind, shown, aspects, n_judged, n_left_out, values))
    return tuple(by_metric), tuple(by_aspect)


def _table(
    kind: str, systems: Sequence[str], columns: Sequence[str], n_videos: int, n_left_out: int, rows: Iterable[Samples]
) -> SystemTable:
    """Average the values of systems."""
    found = cluster_means(_batches(rows, len(systems)), (n_videos, len(columns), len(systems)))
    means = {
        system: {name: found[i][number] for i, name in enumerate(columns)} for number, system in enumerate(systems)
    }
    shown = [system for system in systems if any(mean.n for mean in means[system].values())]
    ranks = {name: _ranks([means[system][name].mean for system in shown]) for name in columns}

    def mean_rank(number: int) -> float:
        defined = [rank for name in columns if (rank := ranks[name][number]) is not None]
        return sum(defined) / len(defined)

    best_first = sorted(range(len(shown)), key=mean_rank, reverse=True)
    leads = {
        name: next((mean.lead for mean in found[i] if mean.lead is not None), None) for i, name in enumerate(columns)
    }
    return SystemTable(kind, tuple(shown[i] for i in best_first), tuple(columns), means, n_videos, n_left_out, leads)


def _ranks(means: Sequence[float | None]) -> list[float | None]:
    """The share of the systems with a mean that lie below each one; None without a mean."""
    defined = [mean for mean in means if mean is not None]
    return [None if mean is None else sum(other < mean for other in defined) / len(defined) for mean in means]


def _batches(rows: Iterable[Samples], n_systems: int) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Sums and counts (videos, columns, systems) of the values of some videos at a time."""
    for batch in rows:
        _, video = np.unique(batch.videos, return_inverse=True)
        shape = (int(video[-1]) + 1, n_systems, batch.values.shape[1])
        sums, counts = np.zeros(shape), np.zeros(shape)
        chosen = batch.systems >= 0
        cells, values = (video[chosen], batch.systems[chosen]), batch.values[chosen]
        np.add.at(sums, cells, np.nan_to_num(values))
        np.add.at(counts, cells, np.isfinite(values))
        yield sums.swapaxes(1, 2), counts.swapaxes(1, 2)


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
    """Return where a dataset's report lies unless somebody names another folder; the folder of all reports is made."""
    return make_home_folder(home, "reports") / dataset


def gather(
    engine: Engine, dataset: Dataset, scorers: Mapping[str, Scorer], tell: Callable[[str], None] = lambda line: None
) -> Report:
    """Gather the facts of a report."""
    tell("reading the scores")
    with _snapshot(engine) as connection:
        # Not those of `scorers` alone: some scores were made elsewhere.
        names = known_metrics(connection, dataset)
        collect_scores(connection, dataset, names)
        data, metrics = gather_data(connection, dataset), gather_metrics(connection, names)
        described = gather_described(connection, dataset)
        planned = {name: scorer for name, scorer in scorers.items() if name not in SIMPLE_SCORES}
        plan = make_plan(of_dataset(connection, dataset, inputs_of(planned.values())), planned)
        tell("comparing the systems")
        systems, people = gather_systems(connection, data, metrics)
        tell("comparing the metrics with people")
        judged = load_judged(connection, dataset, names)
        agreement = rows_of(judged)
        beside = beside_people(judged)
        compared = Comparison(
            beside, orders_of_systems(agreement, beside), gather_references(connection, dataset, judged, scorers)
        )
        systems, people, compared = _corrected(systems, people, compared)
        trust = gather_trust(judged, agreement, metrics, data, compared)
        tell("comparing the metrics with each other")
        drawn = draw(connection, metrics)
        groups = choose(connection, metrics, drawn, judged, described)
        return Report(
            dataset=dataset.name,
            made_at=datetime.now(timezone.utc),
            version=version("reelsieve"),
            notices=(
                *notices(dataset.name, data, metrics, judged),
                *pattern_sentences(answers_of(connection, dataset.dataset_id)),
            ),
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
            rating_cuts=gather_rating_cuts(judged, metrics, trust),
            label_cuts=gather_label_cuts(connection, dataset),
            groups=gather_samples(engine, connection, dataset, groups, metrics, scorers, tell),
            agreement=tuple(agreement),
        )


def _corrected(
    systems: Sequence[SystemTable], people: Sequence[SystemTable], compared: Comparison
) -> tuple[tuple[SystemTable, ...], tuple[SystemTable, ...], Comparison]:
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


def notices(dataset: str, data: DataFacts, metrics: Sequence[MetricFacts], judged: Judged) -> Iterator[str]:
    """What a reader must know before the first number."""
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
