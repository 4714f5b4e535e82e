"""Questions that ratings can settle, and the captions to rate for them.

A question is a text: `vcs:cosine` (which metric is closer to people), `vcs:0.3:0.5` (which threshold of a metric is
better), `gpt:llava` (which system is better). The draw depends on the scores, the question and a seed only.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from threading import Lock, Thread
from typing import Literal

import numpy as np
from sqlalchemy.engine import Connection, Engine

from assets.agreement.judged import LENGTH, SIMPLE_SCORE_COLUMNS
from assets.agreement.scorer_names import UnknownScorer, require_named_scorer
from db.manifest.datasets import Dataset
from db.manifest.rating_draws import DrawableCaptions, DrawMark, load_caption_systems, load_drawable_captions
from db.scores.sample_scores import SIMPLE_SCORES
from db.scores.score_arrays import load_values
from db.scores.scorers import list_scored_datasets, list_scorers, load_named_samples
from metrics_core.agreement.sampling import compute_draw_keys, compute_metric_draw_shares, compute_threshold_draw_shares
from metrics_core.arrays import FloatArray, IntArray
from metrics_core.facts.texts import list_words

# A draw of a million captions takes 100 MB.
_MOST_DRAWS = 4
RENEWAL_THREAD = "draw"
"""The name of the thread that draws again."""
QUESTION_FORMS = "METRIC:METRIC, METRIC:CUT:CUT or SYSTEM:SYSTEM, such as vcs:cosine, vcs:0.3:0.5 or gpt:llava"


class BadQuestion(ValueError):
    """Raised for a question that cannot be settled on a dataset; the message has the reason and a remedy."""

    plain = True


@dataclass(frozen=True, slots=True)
class SettleQuestion:
    """A question that ratings can settle: which of two metrics, two thresholds of one metric, or two systems is better.
    text: the question as it was asked, such as `vcs:cosine`. kind: what the two are; "cuts" are thresholds. first,
    second: names of metrics or systems, the same metric twice for thresholds. thresholds: the lower one first; unused
    for other kinds.
    """

    text: str
    kind: Literal["metrics", "cuts", "systems"]
    first: str
    second: str
    thresholds: tuple[float, float] = (0.0, 0.0)


@dataclass(frozen=True)
class QuestionDraw:
    """A random order of a dataset's captions in which to rate them for a question, as arrays (n,) in the order of
    `captions`. `shares`: how likely a caption is drawn compared with others, 0 where it cannot be. `keys`: random
    numbers divided by the shares; the caption with the lowest key is rated first, one with an infinite key never.
    `units`: the number of the unit that a caption is drawn with. A unit is one caption, or for a question about two
    systems a video with a caption by both; -1 for a caption outside all units. `values`: two arrays of scores, one
    per metric, or twice the same for thresholds of one metric; NaN for a caption without a score, and for systems.
    `least_share`: the least share above 0; None for systems, whose captions are no random sample of the dataset.
    """

    question: SettleQuestion
    captions: DrawableCaptions
    units: IntArray
    shares: FloatArray
    keys: FloatArray
    values: tuple[FloatArray, FloatArray]
    least_share: float | None

    def find_row(self, sample_id: int) -> int | None:
        """Return the row of a caption in the arrays, by its sample id; None for an id that no caption has."""
        row = int(np.searchsorted(self.captions.sample_ids, sample_id))
        return row if row < self.captions.sample_ids.size and self.captions.sample_ids[row] == sample_id else None

    @cached_property
    def ordered_ids(self) -> list[int]:
        """The sample ids of the captions that may be drawn, in the order in which to rate them: the lowest key first.
        Both captions of a pair of systems follow each other in random order.
        """
        rows = np.flatnonzero(np.isfinite(self.keys))
        # Both captions of a pair have the same key; which comes first does not reveal its system.
        rows = rows[np.lexsort((self.captions.chances[rows], self.keys[rows]))]
        ids: list[int] = self.captions.sample_ids[rows].tolist()
        return ids

    def build_mark(self, sample_id: int) -> DrawMark | None:
        """Build the record that is stored with a rating of a drawn caption: question, share, key and the least share.
        None for an id that is not among the captions, or a caption that cannot be drawn.
        """
        row = self.find_row(sample_id)
        if row is None or not math.isfinite(self.keys[row]):
            return None
        return DrawMark(self.question.text, float(self.shares[row]), float(self.keys[row]), self.least_share)


def parse_question(connection: Connection, dataset: Dataset, text: str) -> SettleQuestion:
    """Parse the text of a question, such as `vcs:cosine`, `vcs:0.3:0.5` or `gpt:llava`, and check it in the database.
    Systems must have captions in the dataset, metrics must have scores on it. Raises BadQuestion with the remedy.
    """
    parts = text.split(":")
    if len(parts) == 3 and (thresholds := _parse_thresholds(parts[1:])):
        _find_scorer_id(connection, dataset, parts[0])
        return SettleQuestion(text, "cuts", parts[0], parts[0], thresholds)
    pairs = [(":".join(parts[:at]), ":".join(parts[at:])) for at in range(1, len(parts))]
    systems = load_caption_systems(connection, dataset) if pairs else set[str]()
    for first, second in pairs:
        if {first, second} <= systems and first != second:
            return SettleQuestion(text, "systems", first, second)
    if len(pairs) != 1 or pairs[0][0] == pairs[0][1]:
        raise BadQuestion(f"{text[:80]!r} is no question: give {QUESTION_FORMS}")
    for name in pairs[0]:
        _find_scorer_id(connection, dataset, name)
    return SettleQuestion(text, "metrics", *pairs[0])


def _parse_thresholds(parts: Sequence[str]) -> tuple[float, float] | None:
    """Return two different finite numbers, the lower one first; None for other texts."""
    try:
        low, high = sorted(map(float, parts))
    except ValueError:
        return None
    return (low, high) if math.isfinite(low) and math.isfinite(high) and low < high else None


def _find_scorer_id(connection: Connection, dataset: Dataset, name: str) -> int | None:
    """Return the id of the scorer of this name; None for the length of captions, which has no scorer."""
    if name == SIMPLE_SCORE_COLUMNS[LENGTH]:
        return None
    scorers = list_scorers(connection)
    if name in SIMPLE_SCORES and not any(other.metric == name for other in scorers):
        raise BadQuestion(f"{dataset.name} has no scores of {name} yet: run {_format_score_command(dataset, name)}")
    try:
        scorer = require_named_scorer(scorers, name)
    except UnknownScorer as error:
        simple = ", ".join(SIMPLE_SCORE_COLUMNS.values())
        raise BadQuestion(f"{name!r} is neither a simple score ({simple}) nor a system, and {error}") from error
    if dataset.name not in list_scored_datasets(connection, scorer.scorer_id):
        raise BadQuestion(
            f"{scorer.name} has no score on {dataset.name}: run {_format_score_command(dataset, scorer.metric)}"
        )
    return scorer.scorer_id


def _format_score_command(dataset: Dataset, metric: str) -> str:
    """Return the command that scores a metric."""
    return f"reelsieve score --dataset {dataset.name} --metric {metric}"


def draw_for_question(connection: Connection, dataset: Dataset, question: SettleQuestion, seed: int) -> QuestionDraw:
    """Compute for all captions of a dataset their chances to be drawn for a question, and random keys fixed by `seed`.
    For metrics and thresholds the chances depend on the stored scores. For two systems, all videos with captions of
    both have the same chance, and a video is drawn with one caption of each system. Reads the database. Raises
    BadQuestion where nothing can be drawn.
    """
    systems = (question.first, question.second) if question.kind == "systems" else ()
    captions = load_drawable_captions(connection, dataset, seed, systems)
    if question.kind == "systems":
        return _draw_videos(question, captions)
    values = _load_values(connection, dataset, question.first, captions)
    if question.kind == "cuts":
        both, shares = (values, values), compute_threshold_draw_shares(values, *question.thresholds)
    else:
        both = (values, _load_values(connection, dataset, question.second, captions))
        shares = compute_metric_draw_shares(*both)
    if not (shares > 0).any():
        raise BadQuestion(
            f"no caption of {dataset.name} has the scores that {question.text} needs: run reelsieve score first"
        )
    units, keys = np.arange(shares.size), compute_draw_keys(shares, captions.chances)
    return QuestionDraw(question, captions, units, shares, keys, both, float(shares[shares > 0].min()))


class DrawCache:
    """A cache of at most four draws of captions, for the pages of a server. A draw that is older than `fresh_s`
    seconds, by default 60, is computed again in a thread, while the old one is used. If that fails, the next call
    computes it and raises the reason.
    """

    def __init__(self, engine: Engine, fresh_s: float = 60.0) -> None:
        """fresh_s: after how many seconds a draw is renewed from the scores."""
        self._engine, self._fresh_s = engine, fresh_s
        self._made: dict[tuple[Dataset, str, int], tuple[float, QuestionDraw]] = {}
        self._first = Lock()

    def load(self, dataset: Dataset, text: str, seed: int) -> QuestionDraw:
        """Return the draw for a question (`text`) on a dataset with this seed, from the cache or computed now from the
        database. An old one is returned while a thread renews it. Raises BadQuestion where it is computed now and
        nothing can be drawn.
        """
        name = dataset, text, seed
        with self._first:
            if name not in self._made:
                self._draw(name)
            made_at, drawn = self._made[name]
            if time.monotonic() - made_at >= self._fresh_s:
                self._made[name] = time.monotonic(), drawn
                Thread(target=self._renew, args=[name], name=RENEWAL_THREAD, daemon=True).start()
        return drawn

    def _renew(self, name: tuple[Dataset, str, int]) -> None:
        """Draw again, and forget the old draw if that fails."""
        try:
            self._draw(name)
        except Exception:
            # The next call computes it again and raises the reason.
            self._made.pop(name, None)

    def _draw(self, name: tuple[Dataset, str, int]) -> None:
        """Draw and keep the result; of more than four draws the oldest is dropped."""
        dataset, text, seed = name
        with self._engine.connect() as connection:
            drawn = draw_for_question(connection, dataset, parse_question(connection, dataset, text), seed)
        self._made[name] = time.monotonic(), drawn
        if len(self._made) > _MOST_DRAWS:
            del self._made[min(self._made, key=lambda key: self._made[key][0])]


def _draw_videos(question: SettleQuestion, captions: DrawableCaptions) -> QuestionDraw:
    """Draw videos that have a caption of both systems; of several captions by one system, one is chosen by chance."""
    rows = np.flatnonzero(captions.system_places >= 0)
    rows = rows[np.lexsort((captions.chances[rows], captions.system_places[rows], captions.video_ids[rows]))]
    keys_of_rows = np.stack([captions.video_ids[rows], captions.system_places[rows]])
    rows = rows[np.append(True, (keys_of_rows[:, 1:] != keys_of_rows[:, :-1]).any(axis=0))[: rows.size]]
    # Now every video has one row for each system, and these rows are neighbours.
    is_pair = captions.video_ids[rows][:-1] == captions.video_ids[rows][1:]
    pairs = np.stack([rows[:-1][is_pair], rows[1:][is_pair]])
    n = pairs.shape[1]
    if not n:
        raise BadQuestion(f"no video has captions of both {question.first} and {question.second}: name other systems")
    size = captions.sample_ids.size
    units, shares, keys = np.full(size, -1), np.zeros(size), np.full(size, np.inf)
    units[pairs], shares[pairs], keys[pairs] = np.arange(n), 1 / n, captions.video_chances[pairs[0]] * n
    no_values = np.full(size, np.nan)
    return QuestionDraw(question, captions, units, shares, keys, (no_values, no_values), None)


def _load_values(connection: Connection, dataset: Dataset, name: str, captions: DrawableCaptions) -> FloatArray:
    """Load the values of a scorer, or the lengths of captions, (n,), NaN for none."""
    scorer_id = _find_scorer_id(connection, dataset, name)
    if scorer_id is None:
        texts = load_named_samples(connection, captions.sample_ids.tolist())
        return np.array(
            [len(list_words(texts[sample_id].text)) for sample_id in captions.sample_ids.tolist()], dtype=np.float64
        )
    return load_values(connection, scorer_id, captions.sample_ids)
