"""Whether an answer to an open question gives what the reference answer gives, without a language model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from metrics_core.ecs.verify import Answers
from metrics_core.models.word_tokenizer import split_words
from metrics_core.protocols import EntailmentModel, ModelIdentity, TextEncoder
from metrics_core.qeva.evidence import ask_what_fits, encoded
from metrics_core.qeva.records import Judgement, Question, Reply
from metrics_core.qeva.texts import same_words

TOO_LONG = "the reference answer is too long for the verifier: split the sentence"

VERSION = 1
"""Raised by hand whenever a matcher below gives other scores."""


@dataclass(frozen=True)
class TokenF1Matcher:
    """Right where the words in common reach `threshold`; the rule that other matchers have to beat."""

    threshold: float = 0.5

    @property
    def identity(self) -> ModelIdentity:
        """The rule, its version and the threshold."""
        return ModelIdentity("token-f1", str(VERSION), {"threshold": self.threshold})

    def match(self, answered: Sequence[tuple[Question, Reply]]) -> list[Judgement]:
        """Decide each by `token_f1`."""
        scores = [token_f1(answer_of(reply), question.answer) for question, reply in answered]
        return [Judgement(score >= self.threshold) for score in scores]


@dataclass(frozen=True)
class CosineMatcher:
    """Right where the cosine of the two answers reaches `threshold`."""

    encoder: TextEncoder
    threshold: float = 0.8

    @property
    def identity(self) -> ModelIdentity:
        """The encoder with the threshold."""
        of_encoder = self.encoder.identity
        params = {"encoder": of_encoder.as_dict(), "threshold": self.threshold, "version": VERSION}
        return ModelIdentity(f"cosine:{of_encoder.model_id}", of_encoder.revision, params)

    def match(self, answered: Sequence[tuple[Question, Reply]]) -> list[Judgement]:
        """Decide each by `scores`."""
        return [Judgement(score >= self.threshold) for score in self.scores(answered)]

    def scores(self, answered: Sequence[tuple[Question, Reply]]) -> list[float]:
        """Cosines in [-1, 1]."""
        pairs = [(answer_of(reply), question.answer) for question, reply in answered]
        vectors = encoded((text for pair in pairs for text in pair), self.encoder)
        return [float(np.dot(vectors[given], vectors[reference])) for given, reference in pairs]


@dataclass(frozen=True)
class EntailmentMatcher:
    """Right where P(the answer entails the reference answer) reaches `threshold`; the default without a server.

    Both are given to the model without the question: with it the area under the curve was no better on VAQ-Bench
    (benchmarks/qeva_matchers.py).
    """

    model: EntailmentModel
    threshold: float

    @property
    def identity(self) -> ModelIdentity:
        """The entailment model with the threshold."""
        verifier = self.model.identity
        params = {"verifier": verifier.as_dict(), "threshold": self.threshold, "version": VERSION}
        return ModelIdentity(f"entailment:{verifier.model_id}", verifier.revision, params)

    def match(self, answered: Sequence[tuple[Question, Reply]]) -> list[Judgement]:
        """Decide each by `scores`. A reference answer that is too long for the model is refused."""
        return [
            Judgement(None, "refused", TOO_LONG) if score is None else Judgement(score >= self.threshold)
            for score in self.scores(answered)
        ]

    def scores(self, answered: Sequence[tuple[Question, Reply]]) -> list[float | None]:
        """P(entailment) in [0, 1]; 1 for an answer with the reference's own words, None where that is too long."""
        pairs = [(answer_of(reply), question.answer) for question, reply in answered]
        answers = Answers(self.model)
        ask_what_fits(answers, [pair for pair in pairs if not same_words(*pair)])
        return [1.0 if same_words(*pair) else answers.probability_of.get(pair) for pair in pairs]


def answer_of(reply: Reply) -> str:
    """The answer that a reply with the status "ok" gives. Raises ValueError for another reply."""
    if reply.normalised is None:
        raise ValueError(f'A reply with the status "{reply.status}" has no answer to match: leave it out.')
    return reply.normalised


def token_f1(given: str, reference: str) -> float:
    """The harmonic mean of precision and recall of words, each counted as often as it occurs; in [0, 1].

    >>> token_f1("A red car", "the car is red"), token_f1("", "9")
    (0.5714285714285714, 0.0)
    """
    left, right = Counter(split_words(given)), Counter(split_words(reference))
    shared = (left & right).total()
    return 2 * shared / (left.total() + right.total()) if shared else 0.0
