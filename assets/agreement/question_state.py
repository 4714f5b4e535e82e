"""The state of a question that ratings are drawn for: the answer so far, or why it is open."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from sqlalchemy.engine import Connection, Engine

from assets.agreement.questions import BadQuestion, QuestionDraw, SettleQuestion, draw_for_question, parse_question
from assets.agreement.scales import RatingSettings, load_scale
from assets.home.settings import read_settings
from assets.ingest.scales import Scale
from assets.words.labels import format_goodness
from assets.words.text import format_count
from db.manifest.datasets import Dataset
from db.manifest.rating_draws import list_rating_questions, load_drawn_ratings
from db.manifest.rating_scales import load_turned_aspects
from metrics_core.agreement.difference_estimates import (
    DifferenceEstimate,
    choose_least_good_rating,
    compute_rating_difference,
    compute_tau_difference,
    compute_youden_difference,
)
from metrics_core.agreement.sampling import compute_draw_weights
from metrics_core.arrays import FloatArray, IntArray
from metrics_core.calibration.rated_search import FEWEST_VIDEOS


@dataclass(frozen=True, slots=True)
class QuestionState:
    """A question that ratings are drawn for, with the answer so far by one aspect of the ratings. answer: None where no
    drawn rating counts yet. n_other: ratings that were drawn for it when scores or captions were different; they do not
    count now. goodness: what statistics take for the ratings, the aspect or such as "20 − errors".
    """

    question: SettleQuestion
    aspect: str
    answer: DifferenceEstimate | None
    n_other: int = 0
    goodness: str = ""

    @property
    def is_settled(self) -> bool:
        """Whether the ratings show, by more than chance, which of the two is better. False below 10 videos
        (FEWEST_VIDEOS), and without an answer.
        """
        return self.answer is not None and self.answer.winner is not None

    def explain_blindly(self) -> str:
        """Return a clause: that the question is settled, or that it is open, with how many ratings count. It does not
        name the better one, so that people who rate are not influenced.
        """
        if self.is_settled:
            return "settled by more than chance: you can stop"
        return f"open so far, with {format_count(self.answer.n if self.answer else 0, 'rating')} that count"

    def explain(self) -> str:
        """Return the state of the question as a sentence that begins with aspect and question: which one is better if
        it is settled, else that it is open. The difference and its interval follow, and how many ratings do not count
        now.
        """
        sentence = f"{self.aspect}, {self.question.text}: {self._explain_answer()}"
        if self.n_other:
            were = "rating was" if self.n_other == 1 else "ratings were"
            sentence += (
                f"; {self.n_other} more {were} drawn before scores or captions changed, and only count if drawn again"
            )
        return sentence

    def _explain_answer(self) -> str:
        """Return the answer so far with its number as the end of a sentence."""
        names, what = _WORDS[self.question.kind](self.question)
        if self.question.kind == "systems" and self.goodness not in ("", self.aspect):
            what = what.replace("the mean rating", f"the mean of {self.goodness}", 1)
        answer = self.answer
        if answer is None or answer.value is None:
            return "open: too few ratings were drawn for it"
        units = "videos" if self.question.kind == "systems" else "captions"
        interval = "" if answer.low is None or answer.high is None else f" ({answer.low:.3f} to {answer.high:.3f})"
        number = f"{what} {answer.value:.3f}{interval}, from {answer.n} {units}, weighted by their chance to be drawn"
        if answer.n_videos < FEWEST_VIDEOS:
            return f"open: {format_count(answer.n_videos, 'video')}, {FEWEST_VIDEOS} needed; {number}"
        if answer.winner is None:
            return f"open; {number}"
        return f"{names[answer.winner]} by more than chance, so you can stop; {number}"


_WORDS = {
    "metrics": lambda q: (
        tuple(f"{name} is closer to people" for name in (q.first, q.second)),
        f"Kendall's tau-b of {q.second} minus that of {q.first} is",
    ),
    "cuts": lambda q: (
        tuple(f"the threshold {q.first} >= {threshold:g} is better" for threshold in q.thresholds),
        f"Youden's J of {q.thresholds[1]:g} minus that of {q.thresholds[0]:g} is",
    ),
    "systems": lambda q: (
        tuple(f"{name} is better" for name in (q.first, q.second)),
        f"the mean rating of {q.second} minus that of {q.first} is",
    ),
}


def compute_question_state(connection: Connection, dataset: Dataset, aspect: str, drawn: QuestionDraw) -> QuestionState:
    """Compute the answer to a question so far from the stored ratings of one aspect. drawn: all captions with their
    present chances and keys for the question. A rating counts if the key of its caption is at most the highest key
    drawn for the question so far. Reads the database and, for two thresholds, REELSIEVE_GOOD_RATINGS.

    Of the keys that were stored with ratings, only those that the present draw gives again mark how far the draw has
    come. The other ratings drawn for the question are counted in `n_other`.
    """
    last_key, n_other = 0.0, 0
    ratings = np.full(drawn.captions.sample_ids.size, np.nan)
    for sample_id, value, marks in load_drawn_ratings(connection, dataset, aspect):
        row = drawn.find_row(sample_id)
        if row is None:
            continue
        ratings[row] = value
        question_marks = [mark for mark in marks if mark.question == drawn.question.text]
        current_marks = [mark for mark in question_marks if math.isclose(mark.key, drawn.keys[row], rel_tol=1e-6)]
        last_key = max(last_key, float(drawn.keys[row]) if current_marks else 0.0)
        n_other += len(question_marks) - len(current_marks)
    rated = np.flatnonzero(np.isfinite(ratings) & (drawn.keys <= last_key))
    scale = load_scale(connection, dataset, aspect)
    answer = _compute_answer(drawn, ratings, rated, aspect, scale) if rated.size else None
    goodness = format_goodness(aspect, load_turned_aspects(connection, dataset.dataset_id))
    return QuestionState(drawn.question, aspect, answer, n_other, goodness)


def _compute_answer(
    drawn: QuestionDraw, ratings: FloatArray, rated: IntArray, aspect: str, scale: Scale
) -> DifferenceEstimate:
    """Compute the answer from the rated captions, weighed by their chance to be drawn."""
    question, videos = drawn.question, drawn.captions.video_ids[rated].tolist()
    weights = compute_draw_weights(drawn.keys[rated], drawn.shares[rated])
    first, second = (side[rated] for side in drawn.values)
    if question.kind == "metrics":
        return compute_tau_difference(first, second, ratings[rated], weights, videos)
    if question.kind == "cuts":
        least = read_settings(RatingSettings).good_ratings.get(
            aspect, choose_least_good_rating(ratings[rated], weights)
        )
        return compute_youden_difference(first, ratings[rated] >= least, *question.thresholds, weights, videos)
    by_unit: dict[int, dict[int, int]] = {}
    sides = zip(drawn.units[rated].tolist(), drawn.captions.system_places[rated].tolist(), strict=True)
    for place, (unit, side) in enumerate(sides):
        by_unit.setdefault(unit, {})[side] = place
    pairs = np.array([(rows[0], rows[1]) for rows in by_unit.values() if len(rows) == 2], dtype=np.int64)
    pairs = pairs.reshape(-1, 2)
    differences = ratings[rated][pairs[:, 1]] - ratings[rated][pairs[:, 0]]
    # Real numbers have no ends: those of the ratings so far are the nearest.
    ends = ratings[rated] if scale.least is None or scale.most is None else np.array([scale.least, scale.most])
    return compute_rating_difference(
        differences,
        weights[pairs[:, 0]],
        [videos[place] for place in pairs[:, 0].tolist()],
        greatest_difference=float(np.ptp(ends)) or 1.0,
    )


def explain_questions(engine: Engine, dataset: Dataset) -> list[str]:
    """Return a sentence on the state of every question that ratings of a dataset were drawn for, one for every
    question, seed and aspect. Empty without such ratings. Loads the scores and draws again. A question that can no
    longer be drawn is open, and its sentence gives the reason.
    """
    sentences = []
    with engine.connect() as connection:
        for text, seed, aspect in list_rating_questions(connection, dataset):
            try:
                drawn = draw_for_question(connection, dataset, parse_question(connection, dataset, text), seed)
                sentences.append(compute_question_state(connection, dataset, aspect, drawn).explain())
            except BadQuestion as error:
                sentences.append(f"{aspect}, {text}: open, since {error}")
    return sentences
