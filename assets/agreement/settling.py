"""What to rate next to settle a question on a dataset: its draw, what its ratings say so far, and that in words.

A question is a text: `vcs:cosine` (which metric is closer to people), `vcs:0.3:0.5` (which cut on a metric is better),
`gpt:llava` (which system is better). The draw follows from the scores, the question and a seed alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from sqlalchemy.engine import Connection, Engine

from assets.agreement.comparing import UnknownScorer, find_named
from assets.agreement.rows import COMMON_WORDS, COSINE, LENGTH, baselines_of
from assets.settings import read_settings
from assets.thresholds.settings import RatingSettings
from db.manifest.datasets import Dataset
from db.manifest.rating import Caption, Mark, captions_of, drawn_ratings, questions_of, systems_of_captions
from db.reports.agreement import JudgedSample
from db.scores.scorers import list_scorers, named_samples, scored_datasets, values_of
from metrics_core.agreement.sampling import (
    Answer,
    better_cut,
    better_system,
    closer_metric,
    keys_of,
    middle_rating,
    shares_of_cuts,
    shares_of_metrics,
    weights_of,
)
from metrics_core.arrays import FloatArray, IntArray
from metrics_core.calibration.rated import FEWEST_VIDEOS

BASELINES: Mapping[str, str] = {"cosine": COSINE, "words": COMMON_WORDS, "length": LENGTH}
"""Baselines by the names that a question gives them."""
FORMS = "METRIC:METRIC, METRIC:CUT:CUT or SYSTEM:SYSTEM, such as vcs:cosine, vcs:0.3:0.5 or gpt:llava"


class BadQuestion(ValueError):
    """A question that cannot be settled on a dataset; the message says why and what to do."""

    plain = True


@dataclass(frozen=True, slots=True)
class Question:
    """Which of two is better? kind: what the two are. cuts: both cuts on metric `first`, the lower one first."""

    text: str
    kind: Literal["metrics", "cuts", "systems"]
    first: str
    second: str
    cuts: tuple[float, float] = (0.0, 0.0)


@dataclass(frozen=True)
class Draw:
    """All captions of a dataset with their shares and keys (n,), and both metrics' values (n,), NaN for none.

    unit: the number of what is drawn as one (n,), a caption, or of systems a video. least: the least share of a caption
    that may be drawn; None where those captions are no random sample of the dataset.
    """

    question: Question
    captions: Sequence[Caption]
    unit: IntArray
    shares: FloatArray
    keys: FloatArray
    values: tuple[FloatArray, FloatArray]
    least: float | None

    @cached_property
    def row_of(self) -> dict[int, int]:
        """The row of each caption, by its id."""
        return {each.sample_id: row for row, each in enumerate(self.captions)}

    @cached_property
    def order(self) -> list[int]:
        """Ids of the captions that may be drawn, the first to rate first."""
        rows = np.flatnonzero(np.isfinite(self.keys))
        # Both captions of a pair have one key; which comes first tells nothing of its system.
        rows = rows[np.lexsort(([self.captions[row].chance for row in rows.tolist()], self.keys[rows]))]
        return [self.captions[row].sample_id for row in rows.tolist()]

    def mark_of(self, sample_id: int) -> Mark | None:
        """What is stored with a rating of a caption; None for one that is not drawn."""
        row = self.row_of.get(sample_id)
        if row is None or not math.isfinite(self.keys[row]):
            return None
        return Mark(self.question.text, float(self.shares[row]), float(self.keys[row]), self.least)


def question_of(connection: Connection, dataset: Dataset, text: str) -> Question:
    """Understand a question. Raises BadQuestion, with the remedy."""
    parts = text.split(":")
    if len(parts) == 3 and (cuts := _cuts(parts[1:])):
        _scorer_or_baseline(connection, dataset, parts[0])
        return Question(text, "cuts", parts[0], parts[0], cuts)
    pairs = [(":".join(parts[:at]), ":".join(parts[at:])) for at in range(1, len(parts))]
    systems = systems_of_captions(connection, dataset) if pairs else set[str]()
    for first, second in pairs:
        if {first, second} <= systems and first != second:
            return Question(text, "systems", first, second)
    if len(pairs) != 1 or pairs[0][0] == pairs[0][1]:
        raise BadQuestion(f"{text[:80]!r} names no question: give {FORMS}")
    for name in pairs[0]:
        _scorer_or_baseline(connection, dataset, name)
    return Question(text, "metrics", *pairs[0])


def _cuts(parts: Sequence[str]) -> tuple[float, float] | None:
    try:
        low, high = sorted(map(float, parts))
    except ValueError:
        return None
    return (low, high) if math.isfinite(low) and math.isfinite(high) and low < high else None


def _scorer_or_baseline(connection: Connection, dataset: Dataset, name: str) -> int | None:
    """The number of the scorer of this name; None for a baseline."""
    if name in BASELINES:
        return None
    try:
        found = find_named(list_scorers(connection), name)
    except UnknownScorer as error:
        baselines = ", ".join(BASELINES)
        raise BadQuestion(f"{name!r} is neither a baseline ({baselines}) nor a system, and {error}") from error
    if dataset.name not in scored_datasets(connection, found.scorer_id):
        remedy = f"run reelsieve score --dataset {dataset.name} --metric {found.metric}"
        raise BadQuestion(f"{found.name} has not scored {dataset.name}: {remedy}")
    return found.scorer_id


def draw(connection: Connection, dataset: Dataset, question: Question, seed: int) -> Draw:
    """Draw all captions of a dataset for a question. Raises BadQuestion where nothing can be drawn."""
    captions = captions_of(connection, dataset, seed)
    if question.kind == "systems":
        return _draw_of_systems(question, captions)
    values = _values(connection, dataset, question.first, captions)
    if question.kind == "cuts":
        both, shares = (values, values), shares_of_cuts(values, *question.cuts)
    else:
        both = (values, _values(connection, dataset, question.second, captions))
        shares = shares_of_metrics(*both)
    if not (shares > 0).any():
        raise BadQuestion(f"no caption of {dataset.name} has the values that {question.text} asks for: score it first")
    keys = keys_of(shares, np.array([each.chance for each in captions]))
    return Draw(question, captions, np.arange(len(captions)), shares, keys, both, float(shares[shares > 0].min()))


def _draw_of_systems(question: Question, captions: Sequence[Caption]) -> Draw:
    """Videos at random, of those that have one caption of each system."""
    by_video: dict[int, dict[str, list[int]]] = {}
    for row, each in enumerate(captions):
        if each.system in (question.first, question.second):
            by_video.setdefault(each.video_id, {}).setdefault(each.system, []).append(row)
    pairs = [rows for rows in by_video.values() if len(rows) == 2]
    if not pairs:
        raise BadQuestion(f"no video has captions of both {question.first} and {question.second}: name other systems")
    unit, shares, keys = np.full(len(captions), -1), np.zeros(len(captions)), np.full(len(captions), np.inf)
    for number, of_pair in enumerate(pairs):
        one, other = (min(rows, key=lambda row: captions[row].chance) for rows in of_pair.values())
        unit[[one, other]], shares[[one, other]] = number, 1 / len(pairs)
        keys[[one, other]] = captions[one].video_chance * len(pairs)
    none = np.full(len(captions), np.nan)
    return Draw(question, captions, unit, shares, keys, (none, none), None)


def _values(connection: Connection, dataset: Dataset, name: str, captions: Sequence[Caption]) -> FloatArray:
    """The values of a scorer or a baseline, (n,), NaN for none."""
    scorer_id, ids = _scorer_or_baseline(connection, dataset, name), [each.sample_id for each in captions]
    if scorer_id is not None:
        stored = values_of(connection, scorer_id, dataset.dataset_id)
        found = [stored.get(sample_id, (None, ""))[0] for sample_id in ids]
        return np.array([math.nan if value is None else value for value in found])
    texts = named_samples(connection, ids)
    samples = [
        JudgedSample(each.sample_id, 0, each.video_id, each.system, texts[each.sample_id].text or "", None)
        for each in captions
    ]
    values = baselines_of(connection, dataset.dataset_id, samples).get(BASELINES[name])
    if values is None:
        raise BadQuestion(f"no encoder knows the captions of {dataset.name}, which {name} needs: score vcs first")
    return values


# What the ratings say so far.


@dataclass(frozen=True, slots=True)
class State:
    """A question, an aspect and the answer so far; without one, why there is none. n_other: see `sentence`."""

    question: Question
    aspect: str
    answer: Answer | None
    n_other: int = 0

    @property
    def is_settled(self) -> bool:
        """Whether the ratings tell which one is better, by more than chance."""
        return self.answer is not None and self.answer.better is not None

    def blind(self) -> str:
        """Whether it is settled, without telling which one is better: for whoever rates."""
        if self.is_settled:
            return "settled by more than chance: enough is enough"
        return f"open so far, by {self.answer.n if self.answer else 0} ratings that count"

    def sentence(self) -> str:
        """What is known, in a sentence."""
        said = f"{self.aspect}, {self.question.text}: {self._said()}"
        if self.n_other:
            said += f"; {self.n_other} ratings were drawn by other scores or captions, and count once drawn again"
        return said

    def _said(self) -> str:
        names, what = _WORDS[self.question.kind](self.question)
        answer = self.answer
        if answer is None or answer.value is None:
            return "open: too few ratings were drawn for it"
        units = "videos" if self.question.kind == "systems" else "captions"
        interval = "" if answer.low is None or answer.high is None else f" ({answer.low:.3f} to {answer.high:.3f})"
        number = f"{what} {answer.value:.3f}{interval}, by {answer.n} {units} weighed by their chance to be drawn"
        if answer.n_videos < FEWEST_VIDEOS:
            return f"open: {answer.n_videos} videos, {FEWEST_VIDEOS} needed; {number}"
        if answer.better is None:
            return f"open; {number}"
        return f"{names[answer.better]} by more than chance: enough is enough; {number}"


_WORDS = {
    "metrics": lambda q: (
        tuple(f"{name} is closer to people" for name in (q.first, q.second)),
        f"Kendall's tau-b of {q.second} less that of {q.first} is",
    ),
    "cuts": lambda q: (
        tuple(f"the cut {q.first} >= {cut:g} is better" for cut in q.cuts),
        f"Youden's J of {q.cuts[1]:g} less that of {q.cuts[0]:g} is",
    ),
    "systems": lambda q: (
        tuple(f"{name} is better" for name in (q.first, q.second)),
        f"the mean rating of {q.second} less that of {q.first} is",
    ),
}


def state_of(connection: Connection, dataset: Dataset, aspect: str, drawn: Draw) -> State:
    """What the ratings of an aspect say of a question.

    Every rating of a caption whose key comes before the end of the draw counts, whoever gave it and why.
    """
    end, n_other = 0.0, 0
    people = np.full(len(drawn.captions), np.nan)
    for sample_id, value, marks in drawn_ratings(connection, dataset, aspect):
        row = drawn.row_of.get(sample_id)
        if row is None:
            continue
        people[row] = value
        own = [mark for mark in marks if mark.question == drawn.question.text]
        same = [mark for mark in own if math.isclose(mark.key, drawn.keys[row], rel_tol=1e-6)]
        end = max(end, float(drawn.keys[row]) if same else 0.0)
        n_other += len(own) - len(same)
    rated = np.flatnonzero(np.isfinite(people) & (drawn.keys <= end))
    return State(drawn.question, aspect, _answered(drawn, people, rated, aspect) if rated.size else None, n_other)


def _answered(drawn: Draw, people: FloatArray, rated: IntArray, aspect: str) -> Answer:
    """What the rated captions say."""
    question, videos = drawn.question, [drawn.captions[row].video_id for row in rated.tolist()]
    weights = weights_of(drawn.keys[rated], drawn.shares[rated])
    first, second = (side[rated] for side in drawn.values)
    if question.kind == "metrics":
        return closer_metric(first, second, people[rated], weights, videos)
    if question.kind == "cuts":
        least = read_settings(RatingSettings).good_ratings.get(aspect, middle_rating(people[rated], weights))
        return better_cut(first, people[rated] >= least, *question.cuts, weights, videos)
    side = np.array([drawn.captions[row].system == question.second for row in rated.tolist()])
    by_unit: dict[int, dict[bool, int]] = {}
    for place, (unit, is_second) in enumerate(zip(drawn.unit[rated].tolist(), side.tolist(), strict=True)):
        by_unit.setdefault(unit, {})[is_second] = place
    pairs = np.array([(rows[False], rows[True]) for rows in by_unit.values() if len(rows) == 2], dtype=np.int64)
    pairs = pairs.reshape(-1, 2)
    moved = people[rated][pairs[:, 1]] - people[rated][pairs[:, 0]]
    return better_system(moved, weights[pairs[:, 0]], [videos[place] for place in pairs[:, 0].tolist()])


def told(engine: Engine, dataset: Dataset) -> list[str]:
    """What is known of every question that ratings of a dataset were drawn for, in sentences."""
    found = []
    with engine.connect() as connection:
        for text, seed, aspect in questions_of(connection, dataset):
            try:
                drawn = draw(connection, dataset, question_of(connection, dataset, text), seed)
                found.append(state_of(connection, dataset, aspect, drawn).sentence())
            except BadQuestion as error:
                found.append(f"{aspect}, {text}: open, since {error}")
    return found
