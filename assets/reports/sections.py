"""The sections of a report: their rows, and the data that several of them are computed from, loaded once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from functools import cached_property
from importlib.metadata import version
from typing import Any

import numpy as np
from sqlalchemy.engine import Connection, Engine

from assets.agreement.judged import COMMON_WORDS, JudgedSamples
from assets.agreement.raters import explain_failed_checks, explain_patterns
from assets.agreement.table import load_agreement
from assets.metrics.judge.repeated import JudgeSteadiness, load_judge_steadiness
from assets.planning.holdings import load_dataset_holdings
from assets.planning.plan import Plan, build_plan, list_scorer_inputs
from assets.promise.estimated_means import EstimatedMean, load_estimated_means
from assets.reports.answer_records import ReportAnswers
from assets.reports.answers import build_answers
from assets.reports.data import DataSummary, MetricSummary, load_data_summary, load_metric_summaries
from assets.reports.dataset_facts import DatasetFacts, load_dataset_facts
from assets.reports.samples import ShownSample, load_shown_samples
from assets.reports.score_rows import (
    Row,
    compute_share_threshold_rows,
    compute_spread_rows,
    load_label_threshold_rows,
    load_rating_threshold_rows,
)
from assets.reports.systems import SystemTable, compute_system_tables
from assets.reports.trust import (
    AspectAgreement,
    compare_with_people,
    explain_stale_agreement,
    select_current_rows,
)
from assets.scores.base import Scorer
from assets.stress.sentences import describe_holes
from assets.stress.stress import load_stresses
from assets.words.labels import (
    explain_excluded_ratings,
    explain_old_ratings,
    explain_turned_aspects,
    format_metric_name,
)
from assets.words.text import format_count
from db.manifest.datasets import Dataset
from db.reports.judgements import RaterAnswer, list_answers
from db.scores.sample_scores import SIMPLE_SCORES, list_dataset_metrics
from db.scores.score_arrays import ScoreArrays, load_score_arrays
from db.scores.scorers import StoredScorer, list_scorers
from db.selection.trials import Trial, load_trials
from metrics_core.agreement import AgreementRow
from metrics_core.agreement.conclusions import correct_p_values_of_claims

SECTIONS = (
    *("answers", "metrics", "data", "described", "systems", "people", "trust", "stresses", "judges", "spreads", "cuts"),
    *("rating_cuts", "label_cuts", "groups", "agreement", "estimated_means", "trials"),
)
"""The properties of `Report` that are the rows of sections, in the order of `report.json`."""


class Report:
    """The rows of a report's sections, by name (SECTIONS), each read or computed when something first needs it, from
    the one state of the database that a connection sees. judged: the dataset's judged samples, which may be of an
    earlier state. scorers: by metric, to explain scores. tell: called with lines of progress.
    """

    def __init__(
        self,
        engine: Engine,
        connection: Connection,
        dataset: Dataset,
        scorers: Mapping[str, Scorer],
        judged: JudgedSamples,
        tell: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.dataset, self.version = dataset.name, version("reelsieve")
        self.made_at = datetime.now(timezone.utc)
        self._engine, self._connection, self._dataset = engine, connection, dataset
        self._scorers, self._judged, self._tell = scorers, judged, tell

    @cached_property
    def notices(self) -> tuple[str, ...]:
        """Sentences that a reader needs before the first number."""
        return (*self.provenance, *self.warnings)

    @cached_property
    def provenance(self) -> tuple[str, ...]:
        """Sentences on ratings by a program and on stand-ins for models, with their remedies."""
        synthetic = ("The ratings are synthetic: made by a program, not by people.",)
        return (
            *(synthetic if self.data.synthetic_ratings else ()),
            *(
                f"Scores of {format_metric_name(metric.name)} were made with the {name}; {remedy}."
                for metric in self.metrics
                for name, remedy in metric.stand_ins.items()
            ),
        )

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """Sentences on what may mislead: old or missing results, what is left out, holes and careless raters."""
        return (
            *_list_warnings(self.dataset, self.data, self.metrics, self._judged, self.age),
            *(stress["warning"] for stress in self.stresses if stress["warning"]),
            *(sentence for _, sentence in self._careless),
        )

    @cached_property
    def answers(self) -> ReportAnswers:
        """The first screen of the report."""
        return build_answers(
            *(self.dataset, self.data, self.described, self._plan, self.metrics, self.trust),
            *(self.side_by_side, self.age, self.systems, self.people, self._trials),
        )

    @cached_property
    def metrics(self) -> tuple[MetricSummary, ...]:
        """The metrics that have results."""
        return load_metric_summaries(self._connection, self._dataset, self._samples, self._active)

    @cached_property
    def data(self) -> DataSummary:
        """Counts of what the dataset holds."""
        return load_data_summary(self._connection, self._dataset, self._samples, self._answers_of_raters)

    @cached_property
    def described(self) -> DatasetFacts | None:
        """The facts; None if none are measured."""
        return load_dataset_facts(self._connection, self._dataset)

    @property
    def systems(self) -> tuple[SystemTable, ...]:
        """The systems' means by metrics."""
        return self._claims[0]

    @property
    def people(self) -> tuple[SystemTable, ...]:
        """The systems' means by ratings."""
        return self._claims[1]

    @cached_property
    def trust(self) -> tuple[AspectAgreement, ...]:
        """How metrics compare with people, by aspect."""
        return compare_with_people(
            *(self._connection, self._dataset, self._judged, self._scorers, self._claims[2]),
            {metric.name: metric.label for metric in self.metrics},
            {rater for rater, _ in self._careless},
            self.data,
        )

    @cached_property
    def age(self) -> str | None:
        """A sentence where the stored agreement is missing, or older than scores or judgements."""
        return explain_stale_agreement(self._connection, self._dataset, *self._stored, self._judged)

    @property
    def side_by_side(self) -> dict[str, list[AgreementRow]]:
        """By aspect, how often metrics, simple scores and raters prefer the caption of two that people prefer."""
        rows: dict[str, list[AgreementRow]] = {}
        for row in self.agreement:
            if row.over == "pairs":
                rows.setdefault(row.aspect, []).append(row)
        return rows

    @property
    def n_judged(self) -> int:
        """The number of samples that people judged."""
        return self._judged.sample_ids.size

    @cached_property
    def unscored(self) -> dict[str, dict[str, int]]:
        """By metric, how many of the judged samples have no value, by reason."""
        unscored, judged = {}, self._judged
        for metric in self.metrics:
            values = judged.metric_values.get(metric.name, np.full(self.n_judged, np.nan))
            n_stale = judged.n_stale.get(metric.name, 0)
            unscored[metric.name] = {
                "have a stale score": n_stale,
                "have no value": int(np.isnan(values).sum()) - n_stale,
            }
        return unscored

    @cached_property
    def stresses(self) -> tuple[Mapping[str, Any], ...]:
        """Stresses of metrics; a metric whose active scorer was not stressed is left out."""
        stored = load_stresses(self._connection, self._dataset)
        return tuple(
            describe_holes(stored[metric.name], metric.label, self.dataset)
            for metric in self.metrics
            if metric.name in stored
        )

    @cached_property
    def judges(self) -> tuple[JudgeSteadiness, ...]:
        """The variance of judges that were asked several times about a text."""
        names = sorted(metric.name for metric in self.metrics)
        return tuple(load_judge_steadiness(self._connection, self._dataset, [self._active[name] for name in names]))

    @cached_property
    def spreads(self) -> tuple[Row, ...]:
        """The histograms of scores."""
        return compute_spread_rows(self._samples, self.metrics)

    @cached_property
    def cuts(self) -> tuple[Row, ...]:
        """Thresholds that keep shares of samples."""
        return compute_share_threshold_rows(self._samples, self.metrics, self._judged.by_kind)

    @cached_property
    def rating_cuts(self) -> tuple[Row, ...]:
        """Thresholds by ratings."""
        return load_rating_threshold_rows(self._connection, self._dataset, self._judged, self.metrics, self.trust)

    @cached_property
    def label_cuts(self) -> tuple[Row, ...]:
        """Thresholds by labels of keypoints."""
        return load_label_threshold_rows(self._connection, self._dataset)

    @cached_property
    def groups(self) -> dict[str, list[ShownSample]]:
        """The samples that are shown, by the reason for it. Decodes frames, which may fetch remote videos."""
        return load_shown_samples(
            *(self._engine, self._connection, self._dataset, self._samples, self.metrics, self._scorers, self._judged),
            *(self.described, self._tell),
        )

    @property
    def agreement(self) -> Sequence[AgreementRow]:
        """The rows of table `agreement`."""
        return self._stored[0]

    @cached_property
    def estimated_means(self) -> tuple[EstimatedMean, ...]:
        """The rows of table `estimated_mean`."""
        return load_estimated_means(self._connection, self._dataset)

    @property
    def trials(self) -> tuple[Trial, ...]:
        """The newest training trial of every selection."""
        newest: dict[int, Trial] = {}
        for trial in self._trials:
            newest.setdefault(trial.selection_id, trial)
        return tuple(newest.values())

    @cached_property
    def _active(self) -> dict[str, StoredScorer]:
        """The active scorers by metric, also those that are not in `scorers`: some scores were imported."""
        active = {scorer.metric: scorer for scorer in list_scorers(self._connection) if scorer.status == "active"}
        metrics = list_dataset_metrics(self._connection, self._dataset)
        return {name: active[name] for name in metrics if name in active}

    @cached_property
    def _samples(self) -> dict[str, ScoreArrays]:
        """All samples with their values, by kind."""
        self._tell("reading the scores")
        ids = {name: scorer.scorer_id for name, scorer in self._active.items()}
        return load_score_arrays(self._connection, self._dataset, ids)

    @cached_property
    def _answers_of_raters(self) -> list[RaterAnswer]:
        return list_answers(self._connection, self._dataset.dataset_id)

    @cached_property
    def _careless(self) -> list[tuple[tuple[str, bool, str], str]]:
        """The raters who answer in a pattern or fail attention checks, as the keys of `explain_patterns`, with why."""
        patterns, failed = explain_patterns(self._answers_of_raters), explain_failed_checks(self.data.checks)
        return [*patterns.items(), *failed.items()]

    @cached_property
    def _stored(self) -> tuple[Sequence[AgreementRow], datetime | None]:
        return load_agreement(self._connection, self._dataset)

    @cached_property
    def _trials(self) -> list[Trial]:
        return load_trials(self._connection, dataset_id=self._dataset.dataset_id)

    @cached_property
    def _plan(self) -> Plan | None:
        """The plan with the needs of every metric; None where something is scored."""
        if self.metrics:
            return None
        scorers = {name: scorer for name, scorer in self._scorers.items() if name not in SIMPLE_SCORES}
        inputs = list_scorer_inputs(scorers.values())
        return build_plan(load_dataset_holdings(self._connection, self._dataset, inputs), scorers)

    @cached_property
    def _claims(self) -> tuple[tuple[SystemTable, ...], tuple[SystemTable, ...], list[AgreementRow]]:
        """The systems' tables by metrics and by ratings, and the rows of table `agreement` on which claims rest, with
        p-values corrected by Holm, in the two families of `correct_p_values_of_claims`.

        The first family has the claims which system is best, by metrics and by people, and which metrics order captions
        and systems as people do. The second has the differences between metrics and their strongest simple scores.
        """
        self._tell("comparing the systems")
        systems, people = compute_system_tables(self._samples, self._judged.by_kind, self.data, self.metrics)
        leads = [lead for table in (*systems, *people) for lead in table.leads.values()]
        rows, corrected = correct_p_values_of_claims(select_current_rows(self.agreement, self._judged), leads)
        rest = iter(corrected)
        systems, people = (
            tuple(replace(table, leads={name: next(rest) for name in table.leads}) for table in tables)
            for tables in (systems, people)
        )
        return systems, people, rows


def _list_warnings(
    dataset: str, data: DataSummary, metrics: Sequence[MetricSummary], judged: JudgedSamples, age: str | None
) -> Iterator[str]:
    """Yield sentences on stale agreement or scores, and on what is left out. dataset: its name, for commands. age: as
    `explain_stale_agreement` returns it. Nothing where all is well.
    """
    if age:
        yield age
    if data.turned_aspects:
        sentence = explain_turned_aspects(data.turned_aspects)
        yield f"{sentence[0].upper()}{sentence[1:]}."
    if data.n_drawn_apart:
        yield f"{explain_excluded_ratings(data.n_drawn_apart)}."
    if n_old := data.counts["old_ratings"]:
        yield f"{explain_old_ratings(n_old)}."
    for metric in metrics:
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
