"""Progress of rating: which metric agrees with people so far, how many more ratings are needed, and when to stop."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from sqlalchemy.engine import Connection

from assets.agreement.judged import SEED, load_judged_samples
from assets.agreement.raters import compare_each_rater, explain_patterns, explain_raters
from assets.words.labels import load_metric_label
from assets.words.text import format_count, format_number, format_percent
from db.manifest.datasets import Dataset
from db.reports.judgements import RaterAnswer, list_answers
from db.scores.sample_scores import list_dataset_metrics
from metrics_core.agreement import (
    AnswerConsistency,
    Lead,
    RatingProgress,
    compute_consistency,
    compute_rating_progress,
)
from metrics_core.agreement.conclusions import NEAR_RATER
from metrics_core.calibration.rated_search import FEWEST_VIDEOS
from metrics_core.intervals import Estimate

CEILING_NAME = "one rater with the others"


@dataclass(frozen=True, slots=True)
class Progress:
    """The agreement with people so far by one aspect. rows: name, Kendall's tau-b with ratings or share of equal
    preferences, and number of captions or answers, for every metric and simple score, then for one rater with the
    others. sentences: conclusions for people who rate. pairs: whether preferences are compared. is_enough: whether
    people may stop, as the first sentence says.
    """

    pairs: bool
    rows: tuple[tuple[str, Estimate, int | None], ...]
    sentences: tuple[str, ...]
    is_enough: bool


def compute_progress(connection: Connection, dataset: Dataset, aspect: str, rater: str, *, pairs: bool) -> Progress:
    """Compute from the database the agreement of metrics and simple scores with people so far by one aspect, and how
    consistent `rater` is. pairs: whether to compare with preferences instead of ratings. Without judgements or scores
    there are no rows, and a sentence gives the reason. Answers of any rater that repeat a pattern are named, too.
    """
    judged = load_judged_samples(connection, dataset, list_dataset_metrics(connection, dataset))
    answers = [item for item in list_answers(connection, dataset.dataset_id) if item[1:3] == (aspect, pairs)]
    rater_answers = [item for item in answers if item.rater == rater]
    repeats = [
        *(item.sentence for item in compute_rater_consistency(rater_answers)),
        *explain_patterns(answers).values(),
    ]
    people = (judged.choices if pairs else judged.ratings).get(aspect)
    standing = (
        None
        if people is None
        else compute_rating_progress(judged.metric_values, judged.select_baselines(), people, judged.videos, seed=SEED)
    )
    if standing is None or not judged.metric_values:
        nobody = f"Nobody has {'compared' if pairs else 'rated'} captions by {aspect} yet."
        unscored = (
            f"No caption that people judged has a score: reelsieve score --dataset {dataset.name} computes scores."
        )
        return Progress(pairs, (), (nobody if standing is None else unscored, *repeats), False)
    labels = {name: load_metric_label(connection, name) for name in judged.metric_values}
    rows: list[tuple[str, Estimate, int | None]] = [
        (labels.get(name, name), *counted) for name, counted in standing.estimates.items()
    ]
    if standing.ceiling:
        rows.append((CEILING_NAME, standing.ceiling, None))
    rater_lines = [] if pairs else explain_raters(compare_each_rater(judged, aspect))
    lines = [*_explain_race(standing.lead, labels, pairs), *_explain_ceiling(standing), *rater_lines, *repeats]
    is_enough = standing.lead is not None and standing.lead.state in ("apart", "alike")
    return Progress(pairs, tuple(rows), tuple(lines), is_enough)


def _explain_race(race: Lead | None, labels: Mapping[str, str], pairs: bool) -> Iterator[str]:
    """Yield which of the two best is closer to people, or how many more ratings it takes to know."""
    if race is None:
        yield "Which metric is closer to people is open: there are not yet two numbers to compare."
        return
    first, second = (labels.get(name, name) for name in (race.first, race.second))
    thing, format_size = ("answer", _format_points) if pairs else ("caption", format_number)
    interval = race.difference
    if interval.value is None or interval.low is None or interval.high is None:
        yield (
            f"Whether {first} or {second} is closer to people is open, since their difference has no interval: rate "
            "captions of other videos."
        )
        return
    size = f"{format_size(interval.value)}, 95 % interval {format_size(interval.low)} to {format_size(interval.high)}"
    if race.state == "few videos":
        more = format_count(FEWEST_VIDEOS - race.n_videos, "more video")
        yield f"{'Compare' if pairs else 'Rate'} captions of {more} first: a conclusion needs {FEWEST_VIDEOS}."
    elif race.state == "apart":
        yield f"This is enough: {first} is closer to people than {second} by more than chance ({size})."
    elif race.state == "alike":
        yield f"This is enough: {first} and {second} differ by less than {format_size(NEAR_RATER)} ({size})."
    elif race.n_more is None:
        yield f"{first} and {second} are too close to forecast how many ratings are needed ({size})."
    else:
        yield (
            f"About {format_count(race.n_more, f'more {thing}')} would be enough to tell {first} and {second} apart, "
            f"if their difference stays as it is ({size})."
        )


def _format_points(share: float) -> str:
    """Return a difference of shares as a percentage with a real minus sign."""
    return format_percent(share).replace("-", "−")


def _explain_ceiling(standing: RatingProgress) -> Iterator[str]:
    """Yield a sentence where no two raters judged enough of the same samples."""
    if standing.ceiling is None:
        yield "How well people agree with each other is open: no two raters have judged enough of the same samples."


@dataclass(frozen=True, slots=True)
class RaterConsistency:
    """How often one rater gave the same answer again to captions that came twice, by one aspect. pairs: whether the
    answers are preferences between two captions instead of ratings. found: the counts, with the share and its interval.
    """

    rater: str
    aspect: str
    pairs: bool
    found: AnswerConsistency

    @property
    def sentence(self) -> str:
        """A sentence on how many of the rater's repeated answers were the same, with their share and its interval. For
        ratings it has the mean difference, too; for one repeat only whether it was the same.
        """
        repeats, thing = self.found, "pair" if self.pairs else "caption"
        verb = "compared" if self.pairs else "rated"
        if repeats.n == 1:
            result = "gave the same answer" if repeats.n_equal else "answered differently"
            return f"{self.rater} {verb} 1 {thing} twice and {result} ({self.aspect})."
        low, high = format_percent(repeats.low), format_percent(repeats.high)
        distance = "" if self.pairs else f", {format_number(repeats.mean_difference, 1)} points apart on average"
        return (
            f"{self.rater} {verb} {repeats.n:,} {thing}s twice and gave the same answer to {repeats.n_equal:,} "
            f"({self.aspect}; {format_percent(repeats.share)}, interval {low} to {high}{distance})."
        )


def compute_rater_consistency(answers: Iterable[RaterAnswer]) -> tuple[RaterConsistency, ...]:
    """Compute how consistent raters are who were asked the same twice. Return one record for every rater, aspect and
    kind of answer (ratings before preferences), sorted in this order. Raters who were never asked twice are left out.
    """
    by_rater: dict[tuple[str, str, bool], list[tuple[float, float]]] = {}
    for answer in answers:
        if answer.first_value is not None:
            by_rater.setdefault(answer[:3], []).append((answer.first_value, answer.value))
    return tuple(
        RaterConsistency(*key, compute_consistency(*zip(*pairs, strict=True)))
        for key, pairs in sorted(by_rater.items())
    )
