"""Compares metrics with people, aspect by aspect, from the stored agreement: which metrics can be trusted for a
dataset?
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone

import numpy as np
from sqlalchemy.engine import Connection

from assets.agreement.judged import COMMON_WORDS, COSINE, SEED, JudgedSamples
from assets.agreement.raters import compare_each_rater, explain_raters
from assets.reports.data import DataSummary
from assets.scores.base import Scorer
from assets.words.labels import format_rating
from assets.words.text import format_count, format_number, format_percent, group_names, join_names
from db.manifest.datasets import Dataset
from db.reports.agreement import count_references, find_newest_score_time
from db.reports.judgements import LABELS_ASPECT
from db.schema.inputs import REFERENCES
from metrics_core.agreement.coefficients import KENDALL, TIED_PAIRS
from metrics_core.agreement.conclusions import Conclusion, explain_agreement, explain_system_order
from metrics_core.agreement.rater_checks import compute_human_ceiling
from metrics_core.agreement.raters import compute_mean_ratings
from metrics_core.agreement.row import (
    CALIBRATED,
    DIFFERENCE,
    ONE_RATER,
    PEOPLE,
    RATERS,
    RIVAL,
    SIMPLE,
    AgreementRow,
    index_comparisons,
    turn_positive,
)
from metrics_core.arrays import FloatArray
from metrics_core.intervals import Estimate

MANY_TIES = 0.2
"""Of a metric that ties a larger share of the pairs, the page also shows a statistic in which ties count."""


@dataclass(frozen=True, slots=True)
class _ReferenceCount:
    """How many references the videos of the compared captions have: the fewest, the median and the most.

    >>> str(_ReferenceCount(1, 1.0, 1)), str(_ReferenceCount(0, 2.5, 9))
    ('1 reference', '0 to 9 references, median 2.5')
    """

    least: int
    median: float
    most: int

    def __str__(self) -> str:
        if self.least == self.most:
            return format_count(self.most, "reference")
        return f"{self.range} references, median {self.median:g}"

    @property
    def range(self) -> str:
        """The fewest and the most as text; one number if they are equal."""
        return f"{self.most}" if self.least == self.most else f"{self.least} to {self.most}"


@dataclass(frozen=True, eq=False)
class AspectAgreement:
    """Agreement of every metric's order of captions, and of systems, with people's by one aspect. Numbers are rows of
    table `agreement`, with p-values corrected for the page. Mappings are by metric.
    """

    aspect: str
    n_samples: int
    n_ratings: int
    n_raters: int
    synthetic: bool  # Whether a program made the ratings.
    missing: tuple[str, ...]  # Sentences on what cannot be compared.
    coefficients: Mapping[str, AgreementRow]  # Of captions.
    baselines: tuple[AgreementRow, ...]  # Of captions, by simple scores.
    strongest: AgreementRow | None  # The simple score farthest from 0; its sign is turned if it is negative.
    ceiling: AgreementRow | None  # Of one more rater with the others; None without two raters.
    careless: tuple[str, ...]  # Raters of the ceiling who are far from the others, answer in a pattern or fail checks.
    ceiling_without_careless: Estimate | None
    raters: tuple[str, ...]  # Sentences on raters who are left out or far from the others.
    ties: tuple[str, ...]  # Sentences on pairs of captions that metrics tie.
    beside_rater: tuple[str, ...]  # Sentences that compare metrics with one more rater.
    verdicts: Mapping[str, Conclusion]  # On captions.
    rivals: Mapping[str, AgreementRow]  # The strongest simple score (`against`) on the samples that the metric scored.
    system_coefficients: Mapping[str, AgreementRow]  # Of the systems' means, also by simple score.
    order_verdicts: Mapping[str, Conclusion]  # On the order of systems.
    references: Mapping[str, _ReferenceCount]  # Of the videos; also by simple score that compares with references.
    fewer: tuple[str, ...]  # Sentences on metrics that are compared on fewer samples.
    orders: tuple[str, ...]  # Sentences on orders of systems.
    rows: tuple[AgreementRow, ...]  # All comparisons with people.


def format_aspect(aspect: str) -> str:
    """Return the name of an aspect for a sentence: "labelled coverage" for the aspect of keypoint labels
    (LABELS_ASPECT), and any other as it is.
    """
    return "labelled coverage" if aspect == LABELS_ASPECT else aspect


def select_current_rows(rows: Iterable[AgreementRow], judged: JudgedSamples) -> list[AgreementRow]:
    """Return the rows of table `agreement` on which claims may rest: all but those on preferences, for the aspects and
    metrics that the judged samples still have. A table that is older than the judgements may have others.
    """
    of_people = {ONE_RATER, RATERS}
    return [
        row
        for row in rows
        if row.aspect in judged.ratings
        and row.over != "pairs"
        and (row.baseline or row.metric in judged.metric_values or row.metric in of_people)
    ]


def explain_stale_agreement(
    connection: Connection,
    dataset: Dataset,
    rows: Sequence[AgreementRow],
    made_at: datetime | None,
    judged: JudgedSamples,
) -> str | None:
    """Return a sentence where the stored agreement is older than the newest scores, was computed from another number of
    judgements than there are now, or is missing although scores and judgements exist; else None. rows, made_at: as
    `load_agreement` returns them. A changed value of a rating is not noticed: ratings are counted, since they have no
    time.
    """
    remedy = f"reelsieve report --dataset {shlex.quote(dataset.name)} computes it"
    if made_at is None:
        has_any = judged.metric_values and (judged.ratings or judged.choices)
        return f"Agreement with people is not computed yet: {remedy}." if has_any else None
    newest = find_newest_score_time(connection, judged.sample_ids.tolist())
    if (newest is None or newest <= made_at) and _count_stored_judgements(rows) == _count_present_judgements(judged):
        return None
    when = f"{made_at.astimezone(timezone.utc):%Y-%m-%d %H:%M} UTC"
    return f"Agreement with people is older than the newest scores or judgements ({when}): {remedy} again."


def _count_stored_judgements(rows: Sequence[AgreementRow]) -> dict[tuple[str, bool], int]:
    """Count the ratings, and the preferences (True), behind the stored agreement, by aspect."""
    return {
        (row.aspect, row.over == "pairs"): row.n + row.n_undefined
        for row in rows
        if row.metric == RATERS or row.over == "pairs"
    }


def _count_present_judgements(judged: JudgedSamples) -> dict[tuple[str, bool], int]:
    """Count the ratings, and the preferences (True), that people have given until now, by aspect."""
    ratings = {(aspect, False): int(np.isfinite(values).sum()) for aspect, values in judged.ratings.items()}
    return ratings | {(aspect, True): values.better.size for aspect, values in judged.choices.items()}


def _count_compared_references(
    connection: Connection, dataset: Dataset, judged: JudgedSamples, scorers: Mapping[str, Scorer]
) -> dict[str, dict[str, _ReferenceCount]]:
    """Count the references of the videos behind every comparison with people: fewest, median and most over the compared
    samples, by aspect, then by metric or simple score. Those that do not read references are left out. A metric that is
    not among `scorers` (by name), such as an imported one, counts as one that reads them.
    """
    counts = count_references(connection, dataset.dataset_id, set(judged.videos))
    n_references = np.array([counts.get(video_id, 0) for video_id in judged.videos])
    reads = {
        name: values
        for name, values in {**judged.metric_values, **judged.baselines}.items()
        if (name in (COMMON_WORDS, COSINE) if name in judged.baselines else _reads_references(scorers.get(name)))
    }
    return {
        aspect: {
            name: _ReferenceCount(int(of_rated.min()), float(np.median(of_rated)), int(of_rated.max()))
            for name, values in reads.items()
            if (of_rated := n_references[np.isfinite(values) & np.isfinite(compute_mean_ratings(ratings))]).size
        }
        for aspect, ratings in judged.ratings.items()
    }


def _reads_references(scorer: Scorer | None) -> bool:
    """Return whether a metric may read references; True for imported scores, of which nobody knows."""
    return scorer is None or any(scorer_input.name == REFERENCES.name for scorer_input in scorer.inputs)


def compare_with_people(
    connection: Connection,
    dataset: Dataset,
    judged: JudgedSamples,
    scorers: Mapping[str, Scorer],
    rows: Sequence[AgreementRow],
    labels: Mapping[str, str],
    careless: Collection[tuple[str, bool, str]],
    data: DataSummary,
) -> tuple[AspectAgreement, ...]:
    """Conclude in sentences how every metric compares with people, aspect by aspect. rows: of `select_current_rows`,
    with p-values corrected by `correct_p_values_of_claims`. scorers: by metric, to know which metrics read references.
    labels: names of metrics. careless: the raters who answer in a pattern or fail checks, as keys of
    `explain_patterns`. data: says whether a program made the ratings, and their scales.
    """
    references = _count_compared_references(connection, dataset, judged, scorers)
    return tuple(
        _build_aspect(
            judged,
            aspect,
            [row for row in rows if row.aspect == aspect],
            labels,
            references[aspect],
            [name for name_of, is_choice, name in careless if (name_of, is_choice) == (aspect, False)],
            data,
        )
        for aspect in sorted(judged.ratings)
    )


def _build_aspect(
    judged: JudgedSamples,
    aspect: str,
    rows: Sequence[AgreementRow],
    labels: Mapping[str, str],
    references: Mapping[str, _ReferenceCount],
    careless: Collection[str],
    data: DataSummary,
) -> AspectAgreement:
    """Build the comparison of every metric with people by one aspect."""
    synthetic = data.synthetic_ratings
    taus = [row for row in rows if (row.against, row.statistic) == (PEOPLE, KENDALL)]
    captions, systems = ({row.metric: row for row in taus if row.over == over} for over in ("captions", "systems"))
    coefficients = {name: row for name, row in captions.items() if name in judged.metric_values}
    compared = {name: index_comparisons(row for row in rows if row.metric == name) for name in coefficients}
    rivals = {name: turn_positive(of[SIMPLE, RIVAL]) for name, of in compared.items() if (SIMPLE, RIVAL) in of}
    orders = {name: systems[name] for name in coefficients if name in systems}
    order_verdicts = {name: explain_system_order(row) for name, row in orders.items()}
    baselines = tuple(row for row in captions.values() if row.baseline)
    mean_ratings, shown = compute_mean_ratings(judged.ratings[aspect]), format_aspect(aspect)
    n_samples = int(np.isfinite(mean_ratings).sum())
    named = {name: labels.get(name, name) for name in coefficients}
    checks = compare_each_rater(judged, aspect)
    suspected = [
        name
        for name, check in checks.items()
        if check.is_counted and (check.is_far or name in careless) and not synthetic
    ]
    kept = judged.ratings[aspect][:, [name not in suspected for name in judged.raters[aspect]]]
    return AspectAgreement(
        aspect=aspect,
        n_samples=n_samples,
        n_ratings=int(np.isfinite(judged.ratings[aspect]).sum()),
        n_raters=judged.ratings[aspect].shape[1],
        synthetic=synthetic,
        missing=tuple(_explain_missing(aspect, mean_ratings, judged, data.scale_ends)),
        coefficients=coefficients,
        baselines=baselines,
        strongest=_find_strongest(baselines),
        ceiling=captions.get(ONE_RATER),
        careless=tuple(suspected),
        ceiling_without_careless=compute_human_ceiling(kept, judged.videos, seed=SEED) if suspected else None,
        raters=tuple(explain_raters(checks)),
        ties=tuple(_explain_ties(rows, named)),
        beside_rater=tuple(
            _explain_rater_difference(named[name], of) for name, of in compared.items() if (ONE_RATER, DIFFERENCE) in of
        ),
        verdicts={name: explain_agreement(named[name], shown, of) for name, of in compared.items()},
        rivals=rivals,
        system_coefficients={
            **orders,
            **{name: row for name, row in systems.items() if row.baseline and row.value is not None},
        },
        order_verdicts=order_verdicts,
        references=references,
        fewer=tuple(
            _explain_fewer(named[name], row, n_samples, rivals.get(name))
            for name, row in coefficients.items()
            if 0 < row.n < n_samples
        ),
        orders=tuple(f"{clause}." for clause in explain_system_orders(order_verdicts, orders, named)),
        rows=tuple(row for row in rows if row.against == PEOPLE),
    )


def _explain_fewer(label: str, row: AgreementRow, n_samples: int, strongest: AgreementRow | None) -> str:
    """Return a sentence on a metric that has no value for some rated samples: on how many it is compared, and with
    which simple score there.
    """
    line = f"{label} is only compared on the {row.n:,} of {n_samples:,} rated samples that it has a value for"
    if strongest is None:
        return f"{line}."
    return f"{line}; there, the strongest simple score is {strongest.against} with {format_number(strongest.value)}."


def _explain_ties(rows: Sequence[AgreementRow], labels: Mapping[str, str]) -> Iterator[str]:
    """Yield how many pairs every metric ties, and how a metric that ties many does when ties count.

    rows: of one aspect. labels: of the metrics, by name.
    """
    tied = {
        row.metric: row.value
        for row in rows
        if (row.over, row.statistic) == ("captions", TIED_PAIRS) and row.metric in labels and row.value is not None
    }
    if tied:
        shares = ", ".join(f"{labels[name]} {format_percent(share)}" for name, share in tied.items())
        yield f"Pairs of captions with equal values, which τ-b cannot order: {shares}."
    calibrated = {row.metric: row for row in rows if (row.over, row.statistic) == ("captions", CALIBRATED)}
    yield from (_explain_many_ties(labels[name], name, calibrated) for name, share in tied.items() if share > MANY_TIES)


def _explain_many_ties(label: str, name: str, calibrated: Mapping[str, AgreementRow]) -> str:
    """Return the pairwise accuracy of a metric that ties many pairs, next to one more rater and simple scores."""
    metric_row = calibrated[name]
    other_rows = [
        row for row in calibrated.values() if row.value is not None and (row.baseline or row.metric == ONE_RATER)
    ]
    if metric_row.value is None:
        return (
            f"{label} ties so many pairs that ties should count, but two halves of the videos have no pairs to compare."
        )
    others = f" ({', '.join(f'{row.metric} {format_percent(row.value)}' for row in other_rows)})" if other_rows else ""
    interval = (
        "" if metric_row.low is None else f", {format_percent(metric_row.low)} to {format_percent(metric_row.high)}"
    )
    return (
        f"{label} ties so many pairs that ties should count: if small differences are ties, it orders or ties "
        f"{format_percent(metric_row.value)}{interval} of the pairs as people do{others}. The largest "
        "difference that counts as a tie was chosen on the other half of the videos."
    )


def _explain_rater_difference(label: str, rows: Mapping[tuple[str, str], AgreementRow]) -> str:
    """Return a sentence that compares a metric with one more rater, both against all raters but one. rows: the metric's
    by `index_comparisons`.
    """
    own, rater, difference = (rows[ONE_RATER, statistic] for statistic in (KENDALL, RIVAL, DIFFERENCE))
    size = f"{format_number(difference.value)}, {format_number(difference.low)} to {format_number(difference.high)}"
    return (
        f"Compared with the mean of all raters but one, {label} has τ-b {format_number(own.value)}, and the rater who "
        f"is left out has {format_number(rater.value)} (difference {size})."
    )


def _find_strongest(baselines: Sequence[AgreementRow]) -> AgreementRow | None:
    """Return the simple score farthest from 0, its sign turned where it is negative; None where none has a value."""
    known = [row for row in baselines if row.value is not None]
    strongest = max(known, key=lambda row: abs(row.value or 0.0), default=None)
    if strongest is None or (strongest.value or 0.0) >= 0:
        return strongest
    return replace(turn_positive(strongest), metric=f"{strongest.metric}, turned round")


def _explain_missing(
    aspect: str, mean_ratings: FloatArray, judged: JudgedSamples, scale_ends: Mapping[str, float]
) -> Iterable[str]:
    """Yield sentences on why some numbers of an aspect are missing."""
    rated = mean_ratings[np.isfinite(mean_ratings)]
    if rated.size == 1:
        yield "No order can be compared, since only one sample is rated."
    elif rated.size and (rated == rated[0]).all():
        rating = format_rating(f"{rated[0]:g}", aspect, scale_ends)
        yield f"No order can be compared, since all {rated.size:,} samples have the same rating, {rating}."
    if judged.ratings[aspect].shape[1] == 1:
        who = "The labels count as one rater" if aspect == LABELS_ASPECT else "Only one person rated"
        yield f"There is no human ceiling, which needs a second rater. {who}."
    chosen = np.isfinite(mean_ratings)
    systems = {system for system, is_rated in zip(judged.systems, chosen, strict=True) if is_rated}
    if len(systems) == 1:
        yield "Systems cannot be ordered, since only one system was rated."
    videos = {video for video, is_rated in zip(judged.videos, chosen, strict=True) if is_rated}
    if len(videos) == 1:
        yield "There are no intervals, which need several videos: only samples of one video were rated."


def explain_system_orders(
    verdicts: Mapping[str, Conclusion], coefficients: Mapping[str, AgreementRow], labels: Mapping[str, str]
) -> Iterator[str]:
    """Yield one clause without a full stop for all metrics that share a conclusion on how they rank systems, with every
    metric's Kendall's tau-b. verdicts, coefficients, labels: by metric, its conclusion, tau-b and name for people.

    >>> names, rest = ("coverage", "systems", "people", "kendall_b"), (0.8, 1.0, 0.01, 6, 30, 0, 0, False)
    >>> found = {name: AgreementRow(name, *names, tau, *rest) for name, tau in (("vcs", 1.0), ("ecs", 0.9))}
    >>> alike = Conclusion("alike", "", "ranks the 6 systems as people do")
    >>> next(explain_system_orders({"vcs": alike, "ecs": alike}, found, {"vcs": "VCS", "ecs": "ECS"}))
    'VCS (τ-b 1.00) and ECS (τ-b 0.90) rank the 6 systems as people do'
    """
    for words, names in group_names({name: conclusion.short for name, conclusion in verdicts.items()}).items():
        shown = [
            labels[name]
            if (value := coefficients[name].value) is None
            else f"{labels[name]} (τ-b {format_number(value)})"
            for name in names
        ]
        yield f"{join_names(shown)} {words if len(names) == 1 else _format_for_several(words)}"


def _format_for_several(words: str) -> str:
    """Return the words of a conclusion on one metric in the plural, to follow the names of several metrics."""
    return words.replace("ranks ", "rank ", 1).replace("is not", "are not", 1).replace("its ", "their ")
