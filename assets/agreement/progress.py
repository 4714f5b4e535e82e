"""What people who rate want to know: who agrees with them so far, how many more ratings are needed, when to stop."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from sqlalchemy.engine import Connection

from assets.agreement.judged import SEED, Judged, load_judged
from assets.agreement.raters import pattern_sentences, rater_sentences
from assets.reports.labels import metric_label
from assets.reports.text import number, percent, plural
from db.manifest.datasets import Dataset
from db.reports.agreement import GivenAnswer, list_answers
from db.scores.present import known_metrics
from metrics_core.agreement import Consistency, Race, Standing, consistency, standing, standing_of_choices
from metrics_core.agreement.verdicts import NEAR
from metrics_core.calibration.rated import FEWEST_VIDEOS
from metrics_core.intervals import Estimate

CEILING = "one rater with the others"


@dataclass(frozen=True, slots=True)
class Row:
    """A metric, a simple score or the human ceiling: the number so far, its interval, and the items that count."""

    name: str
    value: float | None
    low: float | None
    high: float | None
    n: int | None


@dataclass(frozen=True, slots=True)
class Progress:
    """Agreement so far by one aspect. is_enough: whether the first sentence says that people may stop."""

    pairs: bool
    rows: tuple[Row, ...]
    sentences: tuple[str, ...]
    is_enough: bool


def progress_of(connection: Connection, dataset: Dataset, aspect: str, rater: str, *, pairs: bool) -> Progress:
    """Where the ratings of an aspect stand, or with `pairs` the preferences, and how consistent one rater is."""
    judged = load_judged(connection, dataset, known_metrics(connection, dataset))
    answers = [each for each in list_answers(connection, dataset.dataset_id) if each[1:3] == (aspect, pairs)]
    own = [each for each in answers if each.rater == rater]
    repeats = [*(each.sentence for each in list_repeats(own)), *pattern_sentences(answers)]
    found = _standing(judged, aspect, pairs)
    if found is None or not judged.metrics:
        nobody = f"Nobody has {'compared' if pairs else 'rated'} captions by {aspect} yet."
        unscored = f"No caption that people judged has a score: reelsieve score --dataset {dataset.name} makes some."
        return Progress(pairs, (), (nobody if found is None else unscored, *repeats), False)
    labels = {name: metric_label(connection, name) for name in judged.metrics}
    rows = [Row(labels.get(name, name), *_numbers(each), n) for name, (each, n) in found.found.items()]
    if found.ceiling:
        rows.append(Row(CEILING, *_numbers(found.ceiling), None))
    beside = [] if pairs else rater_sentences(judged.rated[aspect], judged.videos)
    lines = [*_race(found.race, labels, pairs), *_ceiling(found), *beside, *repeats]
    is_enough = found.race is not None and found.race.state in ("apart", "alike")
    return Progress(pairs, tuple(rows), tuple(lines), is_enough)


def _standing(judged: Judged, aspect: str, pairs: bool) -> Standing | None:
    """None where nobody judged captions by this aspect."""
    beside = judged.computed_baselines
    if pairs:
        choices = judged.choices.get(aspect)
        return standing_of_choices(judged.metrics, beside, choices, seed=SEED) if choices else None
    if aspect not in judged.ratings:
        return None
    return standing(judged.metrics, beside, judged.ratings[aspect], judged.videos, seed=SEED)


def _numbers(each: Estimate) -> tuple[float | None, float | None, float | None]:
    return each.value, each.low, each.high


def _race(race: Race | None, labels: Mapping[str, str], pairs: bool) -> Iterator[str]:
    """Which of the two that lead is closer to people, or what it takes to know."""
    if race is None:
        yield "There are no two numbers to tell apart yet."
        return
    first, second = (labels.get(name, name) for name in (race.first, race.second))
    things, shown = ("answers", _points) if pairs else ("captions", number)
    interval = race.difference
    if interval.value is None or interval.low is None or interval.high is None:
        yield f"Whether {first} or {second} is closer to people is open: there is no interval yet, rate other videos."
        return
    size = f"{shown(interval.value)}, 95 % interval {shown(interval.low)} to {shown(interval.high)}"
    if race.state == "few videos":
        more = plural(FEWEST_VIDEOS - race.n_videos, "more video")
        yield f"{'Compare' if pairs else 'Rate'} captions of {more} first: below {FEWEST_VIDEOS} nothing is claimed."
    elif race.state == "apart":
        yield f"This is enough: {first} is closer to people than {second} by more than chance ({size})."
    elif race.state == "alike":
        yield f"This is enough: {first} and {second} differ by less than {shown(NEAR)} ({size})."
    elif race.n_more is None:
        yield f"{first} and {second} are so near to each other that nothing can be forecast ({size})."
    else:
        yield (
            f"About {race.n_more:,} more {things} would tell {first} and {second} apart, if they differ as much as it "
            f"seems ({size})."
        )


def _points(share: float) -> str:
    """A difference of shares."""
    return percent(share).replace("-", "−")


def _ceiling(found: Standing) -> Iterator[str]:
    if found.ceiling is None:
        yield "How far people agree with each other is open: no two raters have judged enough of the same."


@dataclass(frozen=True, slots=True)
class OwnRepeats:
    """How consistent a rater is by one aspect; pairs: of preferences between two captions."""

    rater: str
    aspect: str
    pairs: bool
    found: Consistency

    @property
    def sentence(self) -> str:
        """The same in words."""
        found, things = self.found, "pairs" if self.pairs else "captions"
        apart = "" if self.pairs else f", {number(found.mean_difference, 1)} points of 5 apart on average"
        return (
            f"{self.rater} gave {found.n_equal:,} of {found.n:,} {things} that came twice the same answer again "
            f"({self.aspect}; {percent(found.share)}, interval {percent(found.low)} to {percent(found.high)}){apart}."
        )


def list_repeats(answers: Iterable[GivenAnswer]) -> tuple[OwnRepeats, ...]:
    """Return how consistent raters are who were asked the same twice, by rater and aspect."""
    by_rater: dict[tuple[str, str, bool], list[tuple[float, float]]] = {}
    for each in answers:
        if each.first is not None:
            by_rater.setdefault(each[:3], []).append((each.first, each.value))
    return tuple(OwnRepeats(*key, consistency(*zip(*own, strict=True))) for key, own in sorted(by_rater.items()))
