"""ECS over a dataset: embed, plan, verify and decide, each text and each pair once, with progress on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.ecs_data import Caption, DataSet
from metrics_core.arrays import BoolArray, FloatArray
from metrics_core.calibration import find_dimension_thresholds
from metrics_core.ecs import Pair, RankedPremises, choose_premises, rank_nearest_sentences, verify_keypoints
from metrics_core.models.word_tokenizer import split_words
from metrics_core.protocols import (
    EntailmentModel,
    Entailments,
    ModelIdentity,
    TextEncoder,
    WholeTextWeigher,
    find_weigher,
)

CHUNK = 1024
EVERY_S = 10.0


class Progress:
    """Says on stderr, every ten seconds, how much of something is done."""

    def __init__(self, what: str, total: int) -> None:
        self._what, self._total = what, total
        self._started = self._said = time.perf_counter()

    def at(self, done: int) -> None:
        """So much is done."""
        now = time.perf_counter()
        if now - self._said > EVERY_S:
            self._said = now
            rate = done / (now - self._started)
            print(f"  {done:,} of {self._total:,} {self._what}, {rate:.0f} a second", file=sys.stderr, flush=True)


class Embeddings:
    """A text encoder that embeds each different text once and adds up the seconds that it took."""

    def __init__(self, encoder: TextEncoder) -> None:
        self._encoder = encoder
        self._vectors: dict[str, npt.NDArray[np.float32]] = {}
        self.seconds = 0.0

    @property
    def identity(self) -> ModelIdentity:
        """The encoder's."""
        return self._encoder.identity

    def encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Vectors (n, dim) of the texts."""
        started = time.perf_counter()
        new = sorted((text for text in dict.fromkeys(texts) if text not in self._vectors), key=len)
        progress = Progress("texts embedded", len(new))
        for first in range(0, len(new), CHUNK):
            chunk = new[first : first + CHUNK]
            self._vectors.update(zip(chunk, self._encoder.encode(chunk), strict=True))
            progress.at(first + len(chunk))
        self.seconds += time.perf_counter() - started
        return np.array([self._vectors[text] for text in texts])


class Answers:
    """A verifier that judges each different pair once, pairs of like length together, and adds up the seconds."""

    def __init__(self, model: EntailmentModel) -> None:
        self._model = model
        self._found: dict[Pair, tuple[float, bool]] = {}
        self.seconds = 0.0

    @property
    def identity(self) -> ModelIdentity:
        """The verifier's."""
        return self._model.identity

    @property
    def whole_text(self) -> WholeTextWeigher | None:
        """The verifier's weigher."""
        return find_weigher(self._model)

    @property
    def n_pairs(self) -> int:
        """Different pairs that were judged."""
        return len(self._found)

    def entailment(self, pairs: Sequence[Pair]) -> Entailments:
        """What the verifier says, now or before."""
        started = time.perf_counter()
        new = sorted((pair for pair in dict.fromkeys(pairs) if pair not in self._found), key=lambda p: len(p[0] + p[1]))
        progress = Progress("pairs judged", len(new))
        for first in range(0, len(new), CHUNK):
            chunk = new[first : first + CHUNK]
            answers = self._model.entailment(chunk)
            judged = zip(answers.probabilities.tolist(), answers.truncated.tolist(), strict=True)
            self._found.update(zip(chunk, judged, strict=True))
            progress.at(first + len(chunk))
        self.seconds += time.perf_counter() - started
        found = [self._found[pair] for pair in pairs]
        return Entailments(np.array([each for each, _ in found]), np.array([cut for _, cut in found], dtype=np.bool_))


class Unweighed:
    """A verifier without its weigher: its probabilities of single sentences stand as they are."""

    def __init__(self, model: EntailmentModel) -> None:
        self._model = model

    @property
    def identity(self) -> ModelIdentity:
        """The verifier's."""
        return self._model.identity

    def entailment(self, pairs: Sequence[Pair]) -> Entailments:
        """What the verifier says."""
        return self._model.entailment(pairs)


class Items:
    """The keypoints of captions one after the other: what each belongs to, and how scores of them become captions'."""

    def __init__(self, captions: Sequence[Caption]) -> None:
        self.captions = captions
        self.caption = np.repeat(np.arange(len(captions)), [len(each.keypoints) for each in captions])

    @cached_property
    def clips(self) -> npt.NDArray[np.object_]:
        """Clip of each keypoint."""
        return np.array([each.clip for each in self.captions], dtype=object)[self.caption]

    @cached_property
    def dimensions(self) -> npt.NDArray[np.object_]:
        """Dimension of each keypoint."""
        return np.array([name for each in self.captions for name in each.dimensions], dtype=object)

    @cached_property
    def labels(self) -> BoolArray:
        """What the labels say of each keypoint."""
        return np.array([label for each in self.captions for label in each.covered], dtype=np.bool_)

    def words(self) -> FloatArray:
        """For each keypoint the number of words of its caption."""
        lengths = [sum(len(split_words(sentence)) for sentence in each.sentences) for each in self.captions]
        return np.array(lengths, dtype=np.float64)[self.caption]

    def means(self, values: npt.NDArray[Any]) -> FloatArray:
        """Mean over the keypoints of each caption."""
        return np.bincount(self.caption, values, len(self.captions)) / np.bincount(self.caption)


def plans_of(
    captions: Sequence[Caption], encoder: TextEncoder | None = None, r: int | None = None
) -> list[RankedPremises]:
    """Plans of all keypoints one after the other: all sentences, or with an encoder the r nearest."""
    if encoder is not None:
        encoder.encode([text for each in captions for text in (*each.sentences, *each.keypoints)])
    plans = []
    for each in captions:
        nearest = None
        if encoder is not None:
            nearest = rank_nearest_sentences(encoder.encode(each.keypoints), encoder.encode(each.sentences), r)
        plans += choose_premises(each.keypoints, each.sentences, nearest)
    return plans


def scores_of(plans: Sequence[RankedPremises], model: EntailmentModel) -> FloatArray:
    """The probability of each keypoint by its best sentence; 0 where the caption has none."""
    return np.array([verdict.probability or 0.0 for verdict in verify_keypoints(plans, model).verdicts])


def levels_of(data: DataSet, scores: FloatArray, *, per_dimension: bool = True) -> FloatArray:
    """For each keypoint the threshold, best for F1, of the fold that judges it; NaN where none does."""
    items, levels = Items(data.captions), np.full(scores.size, np.nan)
    dimensions = items.dimensions if per_dimension else np.full(scores.size, "all", dtype=object)
    for fold in data.folds:
        given, judged = (np.array([clip in part for clip in items.clips]) for part in (fold.calibrate, fold.judge))
        labelled = scores[given], items.labels[given], dimensions[given].tolist()
        # Few labels give the pooled threshold, and a poor rule says yes to everything: the tables show both.
        pooled, found = find_dimension_thresholds(*labelled, n_resamples=0)
        levels[judged] = [found.get(name, pooled).at_least for name in dimensions[judged]]
    return levels
