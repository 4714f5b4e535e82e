"""Measure how far the sentences of a context support a statement, and where in the context an event comes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from metrics_core.arrays import FloatArray
from metrics_core.ecs.verify import EntailmentCache
from metrics_core.models.lexical_verifier import compute_word_recall
from metrics_core.models.nli_inputs import HypothesisTooLong
from metrics_core.models.word_tokenizer import split_words
from metrics_core.protocols import EntailmentModel, TextEncoder
from metrics_core.qeva.replies import has_same_words
from metrics_core.vectors import normalise_rows

# Words for the time of an event, which may come before the subject of a sentence.
_WHEN = (
    r"(?:(?:at|in|toward|towards|near|by) the (?:very )?(?:end|start|beginning|close)|after (?:that|this)|all at once|"
    r"then|next|now|later|again|first|finally|lastly|suddenly|slowly|meanwhile|afterwards|eventually)"
)
_OPENING = rf"(?:{_WHEN},? (?:and )?)*"
_HOW = (
    r"(?:hand|held|handheld|shaky|unsteady|steady|static|fixed|moving|still|first|second|last|next|opening|final|whole|"
    r"entire|same|wide|close|long|aerial|high|low|overhead|mobile|phone|video|point|of)"
)
_PICTURE = r"(?:cameras?|lens|viewpoint|framing|angle|zoom|shot|view|frame|footage|video|clip|film|picture|image)"
_CAMERA_SUBJECT = re.compile(
    rf"{_OPENING}(?:the|a|an|this|our) (?:{_HOW}[ -])*{_PICTURE}\b(?!['’-]| (?:man|woman|person|operator|crew)\b)",
    re.IGNORECASE,
)
_SUBJECT = re.compile(
    rf"{_OPENING}(?:there (?:is|are|was|were) )?(?:(?:the|an?|this|that|these|those|its|some|several|both|two|three|"
    r"four|five|\d+)\b ?)*(\w+)",
    re.IGNORECASE,
)


def _is_about_camera(sentence: str) -> bool:
    """Return whether the subject of a sentence is the camera, or what it shows.

    >>> [_is_about_camera(text) for text in ("Then the camera pans left.", "A man looks at the camera.")]
    [True, False]
    """
    return _CAMERA_SUBJECT.match(sentence.strip()) is not None


def _can_prove(sentence: str, statement: str) -> bool:
    """Return whether a sentence may prove a statement. A sentence about the camera (`_is_about_camera`) may prove a
    statement about the camera; another one only if it names the statement's subject, and the statement does not mention
    the camera. Every other sentence may prove any statement.

    That the camera follows a woman does not mean that she looks at it.

    >>> [_can_prove("The camera turns to the crowd.", text) for text in ("He turns to the crowd.", "The crowd waits.")]
    [False, True]
    >>> _can_prove("The camera follows a woman.", "The woman looks at the camera.")
    False
    """
    if not _is_about_camera(sentence) or _is_about_camera(statement):
        return True
    subject = _SUBJECT.match(statement.strip())
    is_named = subject is None or subject[1].lower() in split_words(sentence)
    return is_named and not {"camera", "cameras"} & set(split_words(statement))


@dataclass(frozen=True, slots=True, eq=False)
class StatementEvidence:
    """How similar m sentences are to one statement, and P(entailment) of the statement by every sentence. similarities
    (m,): the similarity of a sentence and the statement, at most 1. probabilities (m,): in [0, 1]; NaN for a sentence
    that was not verified.

    A sentence is not verified because others are nearer, or because it speaks of the camera and the statement of
    something else.
    """

    similarities: FloatArray
    probabilities: FloatArray

    @property
    def best_sentence(self) -> int | None:
        """The index of the sentence with the highest probability, of equal ones the first; None where none was
        verified.
        """
        return None if np.isnan(self.probabilities).all() else int(np.nanargmax(self.probabilities))

    @property
    def best_probability(self) -> float:
        """The highest probability; 0 where no sentence was verified."""
        return 0.0 if self.best_sentence is None else float(self.probabilities[self.best_sentence])


def gather_evidence(
    statements: Sequence[tuple[str, Sequence[str]]], model: EntailmentModel, encoder: TextEncoder | None, r: int
) -> list[StatementEvidence | None]:
    """Return the evidence for every statement, in order; None for one too long for the model. statements: (statement,
    sentences of its context). The model verifies the r most similar sentences, those about the camera only where they
    can prove it. encoder: gives the similarity; None takes the share of the statement's content words in a sentence.

    All pairs are one batch, and every distinct pair is asked once. A sentence with the statement's own words entails it
    without being asked.

    >>> from metrics_core.models.lexical_verifier import LexicalVerifier
    >>> context = ["A cat sits.", "A dog runs", "A dog."]
    >>> (evidence,) = gather_evidence([("A dog runs.", context)], LexicalVerifier(), None, r=2)
    >>> evidence.best_sentence, evidence.probabilities.tolist()
    (1, [nan, 1.0, 0.5])
    """
    similarities = _compute_sentence_similarities(statements, encoder)
    nearest = [
        [place for place in np.argsort(-row, kind="stable").tolist() if _can_prove(sentences[place], statement)][:r]
        for (statement, sentences), row in zip(statements, similarities, strict=True)
    ]
    answers = EntailmentCache(model)
    too_long = ask_fitting_pairs(
        answers,
        [
            (sentences[place], statement)
            for (statement, sentences), places in zip(statements, nearest, strict=True)
            for place in places
            if not has_same_words(statement, sentences[place])
        ],
    )
    gathered: list[StatementEvidence | None] = []
    for (statement, sentences), row, places in zip(statements, similarities, nearest, strict=True):
        unknown = [place for place in places if not has_same_words(statement, sentences[place])]
        if unknown and statement in too_long:
            gathered.append(None)
            continue
        probability = np.full(len(sentences), np.nan)
        probability[places] = 1.0
        for place in unknown:
            probability[place] = answers.probability_by_pair[sentences[place], statement]
        gathered.append(StatementEvidence(row, probability))
    return gathered


def ask_fitting_pairs(answers: EntailmentCache, pairs: Sequence[tuple[str, str]]) -> frozenset[str]:
    """Let the model judge (premise, hypothesis) pairs, and return the hypotheses that are too long for it, whose pairs
    are left out. The probabilities are kept in `answers`.
    """
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


def _compute_sentence_similarities(
    statements: Sequence[tuple[str, Sequence[str]]], encoder: TextEncoder | None
) -> list[FloatArray]:
    """Return for every statement its similarity with each sentence of its context, as arrays (m,): cosines, or without
    an encoder shares of content words. statements: (statement, sentences of its context).
    """
    if encoder is None:
        return [
            np.array([compute_word_recall(sentence, statement) for sentence in sentences], dtype=np.float64)
            for statement, sentences in statements
        ]
    texts = (text for statement, sentences in statements for text in (statement, *sentences))
    vectors = encode_unit_vectors(texts, encoder)
    # Rounded, so that neither the form of the product nor the batch that a vector was made in decides between two
    # sentences that are equally similar.
    return [
        np.array([vectors[statement] @ vectors[sentence] for sentence in sentences], dtype=np.float64).round(5)
        for statement, sentences in statements
    ]


def encode_unit_vectors(texts: Iterable[str], encoder: TextEncoder) -> dict[str, FloatArray]:
    """Return the vector of every distinct text, scaled to length 1, by text. Raises BadFeature for a text whose vector
    is zero or not finite.
    """
    distinct = list(dict.fromkeys(texts))
    if not distinct:
        return {}
    rows = normalise_rows("text", np.asarray(encoder.encode(distinct), dtype=np.float64))
    return dict(zip(distinct, rows, strict=True))


SIMILARITY_SPREAD = 0.1
"""A sentence whose similarity is less by this much weighs e times less."""

ENTAILMENT_WEIGHT = 0.2
"""The power of the odds of entailment in a sentence's weight. Two wordings of one event seldom entail each other."""

PROBABILITY_FLOOR = 1e-3
"""Added to every probability, so that its odds are finite; that of a sentence that was not verified counts as 0."""

SAME_PLACE = 1e-4
"""Places that differ by less are the same: a vector differs in its last digits with the batch it was made in."""

MENTION_THRESHOLD = 0.2
"""An event whose similarity to every sentence is less, and that none entails, is not mentioned in the text."""


def locate_event(evidence: StatementEvidence, threshold: float, forced: bool = False) -> float | None:
    """Return the place where sentences describe an event, from 0 to m - 1: the weighted mean of the positions of all m
    sentences. None where no sentence was verified, or none mentions the event. threshold: the lowest P(entailment) that
    counts as a mention. forced: an event has a place although no sentence mentions it.

    A sentence weighs exp(similarity / SIMILARITY_SPREAD) times the odds of entailment to the power of
    ENTAILMENT_WEIGHT. No sentence mentions the event where all probabilities are below the threshold and all
    similarities below MENTION_THRESHOLD.

    >>> evidence = StatementEvidence(np.array([0.2, 0.8, 0.2]), np.array([0.0, 0.9, 0.0]))
    >>> round(locate_event(evidence, threshold=0.5), 2)
    1.0
    >>> locate_event(StatementEvidence(np.array([0.1]), np.array([0.0])), threshold=0.5) is None
    True
    """
    if evidence.best_sentence is None:
        return None
    highest = evidence.similarities.max()
    if highest < MENTION_THRESHOLD and evidence.best_probability < threshold and not forced:
        return None
    probability = np.nan_to_num(evidence.probabilities, nan=0.0)
    odds = (probability + PROBABILITY_FLOOR) / (1 - probability + PROBABILITY_FLOOR)
    weights = np.exp((evidence.similarities - highest) / SIMILARITY_SPREAD) * odds**ENTAILMENT_WEIGHT
    return float(weights @ np.arange(len(weights)) / weights.sum())


def sort_events(places: Sequence[float | None]) -> tuple[int, ...] | None:
    """Return the numbers of the events in the order of their places; None where a place is missing or two are the same.
    places: by number of the event, None where it is not mentioned. Places that differ by less than SAME_PLACE are the
    same.

    >>> sort_events([2.0, 0.0, 1.5]), sort_events([1.0, 1.0]), sort_events([1.0, None])
    ((1, 2, 0), None, None)
    """
    known = [place for place in places if place is not None]
    order = sorted(range(len(known)), key=known.__getitem__)
    apart = all(known[later] - known[earlier] > SAME_PLACE for earlier, later in pairwise(order))
    return tuple(order) if apart and len(known) == len(places) else None
