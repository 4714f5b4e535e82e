"""What the sentences of a context say of a statement: their entailment and their likeness, for many statements."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from metrics_core.arrays import FloatArray
from metrics_core.ecs.verify import Answers
from metrics_core.models.lexical_verifier import content_recall
from metrics_core.models.nli_inputs import HypothesisTooLong
from metrics_core.protocols import EntailmentModel, TextEncoder
from metrics_core.qeva.camera import may_prove
from metrics_core.qeva.texts import same_words
from metrics_core.vectors import unit_rows


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """What m sentences say of one statement.

    likeness (m,): how alike each sentence and the statement are, at most 1. probability (m,): P(entailment) of the
    statement, in [0, 1]; NaN for a sentence that was not verified, because others are nearer or because it speaks of
    the camera and the statement of something else.
    """

    likeness: FloatArray
    probability: FloatArray

    @property
    def best(self) -> int | None:
        """The sentence with the greatest probability, of equal ones the first; None where none was verified."""
        return None if np.isnan(self.probability).all() else int(np.nanargmax(self.probability))

    @property
    def support(self) -> float:
        """The greatest probability; 0 where no sentence was verified."""
        return 0.0 if self.best is None else float(self.probability[self.best])


def gather(
    asked: Sequence[tuple[str, Sequence[str]]], model: EntailmentModel, encoder: TextEncoder | None, r: int
) -> list[Evidence | None]:
    """Find the evidence for statements, each with the sentences of its context, in order.

    Of every context the r sentences most alike that may prove the statement (`camera.may_prove`) are verified. All
    pairs are one batch, and every distinct pair is asked once. A sentence with the statement's own words entails it
    without being asked. Without an encoder likeness is the
    share of the statement's content words that the sentence contains. None for a statement too long for the model.

    >>> from metrics_core.models.lexical_verifier import LexicalVerifier
    >>> found, = gather([("A dog runs.", ["A cat sits.", "A dog runs", "A dog."])], LexicalVerifier(), None, r=2)
    >>> found.best, found.probability.tolist()
    (1, [nan, 1.0, 0.5])
    """
    likeness = likenesses(asked, encoder)
    nearest = [
        [place for place in np.argsort(-row, kind="stable").tolist() if may_prove(sentences[place], statement)][:r]
        for (statement, sentences), row in zip(asked, likeness, strict=True)
    ]
    answers = Answers(model)
    too_long = ask_what_fits(
        answers,
        [
            (sentences[place], statement)
            for (statement, sentences), places in zip(asked, nearest, strict=True)
            for place in places
            if not same_words(statement, sentences[place])
        ],
    )
    gathered: list[Evidence | None] = []
    for (statement, sentences), row, places in zip(asked, likeness, nearest, strict=True):
        unknown = [place for place in places if not same_words(statement, sentences[place])]
        if unknown and statement in too_long:
            gathered.append(None)
            continue
        probability = np.full(len(sentences), np.nan)
        probability[places] = 1.0
        for place in unknown:
            probability[place] = answers.probability_of[sentences[place], statement]
        gathered.append(Evidence(row, probability))
    return gathered


def ask_what_fits(answers: Answers, pairs: Sequence[tuple[str, str]]) -> frozenset[str]:
    """Have (premise, hypothesis) pairs judged; returns the hypotheses too long for the model, whose pairs are not."""
    too_long: frozenset[str] = frozenset()
    while True:
        try:
            answers.ask([pair for pair in pairs if pair[1] not in too_long])
        except HypothesisTooLong as error:
            if too_long.issuperset(error.hypotheses):
                raise
            too_long = too_long.union(error.hypotheses)
        else:
            return too_long


def likenesses(asked: Sequence[tuple[str, Sequence[str]]], encoder: TextEncoder | None) -> list[FloatArray]:
    """How alike every statement and each sentence of its context are: cosines, or shares of content words."""
    if encoder is None:
        return [
            np.array([content_recall(sentence, statement) for sentence in sentences], dtype=np.float64)
            for statement, sentences in asked
        ]
    vectors = encoded((text for statement, sentences in asked for text in (statement, *sentences)), encoder)
    # Rounded, so that neither the form of the product nor the batch that a vector was made in decides between two
    # sentences that are equally alike.
    return [
        np.array([vectors[statement] @ vectors[sentence] for sentence in sentences], dtype=np.float64).round(5)
        for statement, sentences in asked
    ]


def encoded(texts: Iterable[str], encoder: TextEncoder) -> dict[str, FloatArray]:
    """The unit vector of every distinct text. Raises BadFeature for a text without a direction."""
    distinct = list(dict.fromkeys(texts))
    if not distinct:
        return {}
    rows = unit_rows("text", np.asarray(encoder.encode(distinct), dtype=np.float64))
    return dict(zip(distinct, rows, strict=True))
