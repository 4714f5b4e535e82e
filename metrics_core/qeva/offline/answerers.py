"""Answer QEVA's questions by an entailment model, and judge answers to open questions, without a language model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from metrics_core.ecs.premises import split_premises
from metrics_core.ecs.verify import EntailmentCache
from metrics_core.models.word_tokenizer import split_words
from metrics_core.protocols import EntailmentModel, ModelIdentity, SentenceSplitter, TextEncoder
from metrics_core.qeva.offline.statement_evidence import (
    ENTAILMENT_WEIGHT,
    MENTION_THRESHOLD,
    PROBABILITY_FLOOR,
    SIMILARITY_SPREAD,
    StatementEvidence,
    ask_fitting_pairs,
    encode_unit_vectors,
    gather_evidence,
    locate_event,
    sort_events,
)
from metrics_core.qeva.records import (
    NO,
    YES,
    AnswerJudgement,
    Context,
    ContextQuestion,
    Question,
    Reply,
    VideoAsFrames,
    VideoNotes,
)
from metrics_core.qeva.replies import has_same_words, list_distinct_texts

VERSION = 2
"""Increased by hand whenever the rules below give other answers."""

DEFAULT_R = 4
"""Sentences verified for a statement."""

NO_STATEMENT = "the question has no statement that an entailment model could check: set a language model to answer it"
TOO_LONG = "a statement is too long for the verifier: split the sentence"
NO_FRAMES = "an entailment model cannot look at frames: set a video model, or give the video references or keypoints"


@dataclass(frozen=True)
class EntailmentAnswerer:
    """An Answerer that checks the questions' statements against the sentences of the context by an entailment model.
    threshold: the lowest P(entailment) at which a sentence supports a statement. encoder: chooses the r most similar
    sentences to verify; without it the words in common do. forced: guess where nothing supports an answer, instead of
    abstaining.

    - yes_no: "yes" where a sentence supports the statement; otherwise it abstains, forced "no".
    - open: the sentence that supports the statement is the answer; forced the best sentence.
    - choice: the choice with the most support; it abstains where none is supported or two are equal.
    - chronology: the events' places in the context are compared (`locate_event`). "Followed at once" is read as
      "earlier", because a summary leaves events out. It abstains where an event is not mentioned or two have one place.

    A closed-book question is checked against an empty premise, which supports only what is almost always true; its
    order of events is an abstention.
    """

    model: EntailmentModel
    threshold: float
    splitter: SentenceSplitter
    encoder: TextEncoder | None = None
    r: int = DEFAULT_R
    forced: bool = False

    @property
    def identity(self) -> ModelIdentity:
        """The identity of the entailment model, with everything else that changes the answers."""
        verifier = self.model.identity
        params = {
            "verifier": verifier.as_dict(),
            "encoder": None if self.encoder is None else self.encoder.identity.as_dict(),
            "splitter": self.splitter.identity.as_dict(),
            "threshold": self.threshold,
            "r": self.r,
            "forced": self.forced,
            "place": {
                "spread": SIMILARITY_SPREAD,
                "weight_of_entailment": ENTAILMENT_WEIGHT,
                "smallest": PROBABILITY_FLOOR,
                "mentioned": MENTION_THRESHOLD,
            },
            "version": VERSION,
        }
        return ModelIdentity(f"entailment:{verifier.model_id}", verifier.revision, params)

    def answer(self, questions: Sequence[ContextQuestion]) -> list[Reply]:
        """Return one reply to every question, in order; the model judges the statements of all questions in one batch.
        A question without statements, frames as context, and a statement that is too long for the model get the status
        "refused".
        """
        reader = _PremiseReader(self.splitter)
        sentences = [reader.list_premises(asked.question, asked.context) for asked in questions]
        statements = [
            (statement, premises)
            for asked, premises in zip(questions, sentences, strict=True)
            if premises is not None
            for statement in asked.question.statements
        ]
        evidence = iter(gather_evidence(statements, self.model, self.encoder, self.r))
        return [
            _build_refusal(asked)
            if premises is None or not asked.question.statements
            else self._build_reply(asked, premises, [next(evidence) for _ in asked.question.statements])
            for asked, premises in zip(questions, sentences, strict=True)
        ]

    def _build_reply(
        self, asked: ContextQuestion, premises: Sequence[str], gathered: Sequence[StatementEvidence | None]
    ) -> Reply:
        evidence = [one_statement for one_statement in gathered if one_statement is not None]
        if len(evidence) < len(gathered):
            return Reply("refused", reason=TOO_LONG)
        if asked.question.dimension == "chronology":
            return self._answer_order(asked, premises, evidence)
        support = [one_statement.best_probability for one_statement in evidence]
        best = max(range(len(evidence)), key=support.__getitem__)
        place = evidence[best].best_sentence
        sentence = None if place is None else premises[place] or None
        if support[best] >= self.threshold and support.count(support[best]) == 1:
            return _build_choice_reply(asked.question, best, sentence, support[best])
        if self.forced:
            return self._build_guess(asked.question, best, sentence, support[best])
        reason = f"the text supports no choice: the best probability is {support[best]:.3f}, below {self.threshold:.3f}"
        if support[best] >= self.threshold:
            reason = f"two choices have the same probability, {support[best]:.3f}"
        return Reply("abstain", reason=reason, score=support[best], evidence=sentence)

    def _build_guess(self, question: Question, best: int, sentence: str | None, support: float) -> Reply:
        if question.kind == "yes_no":
            return Reply("ok", NO, NO, "nothing supports it", support, sentence)
        return _build_choice_reply(question, best, sentence, support)

    def _answer_order(
        self, asked: ContextQuestion, premises: Sequence[str], evidence: Sequence[StatementEvidence]
    ) -> Reply:
        if asked.context is None:
            return Reply("abstain", reason="without a context the order of events is not known")
        places = [locate_event(one_event, self.threshold, self.forced) for one_event in evidence]
        order = sort_events(places)
        sentences = " | ".join(premises[round(place)] if place is not None else "(not mentioned)" for place in places)
        if order is None and not (self.forced and premises):
            missing = any(place is None for place in places)
            reason = (
                "the text does not mention every event" if missing else "two events are mentioned at the same place"
            )
            return Reply("abstain", reason=reason, evidence=sentences or None)
        answer = _format_order(asked.question, order or tuple(range(len(places))))
        return Reply("ok", answer, answer, None, None, sentences)


@dataclass(frozen=True)
class _PremiseReader:
    """Splits contexts into sentences, every summary once."""

    splitter: SentenceSplitter
    split: dict[str, list[str]] = field(default_factory=dict)

    def list_premises(self, question: Question, context: Context) -> Sequence[str] | None:
        """Return the sentences of a context for a question, [""] without context; None for frames, which cannot be
        read.
        """
        if context is None:
            return [""]
        if isinstance(context, VideoAsFrames):
            return None
        if isinstance(context, VideoNotes):
            chronology = question.dimension == "chronology"
            return (
                context.events if chronology else list_distinct_texts((*context.facts, *context.events, *context.more))
            )
        if context not in self.split:
            self.split[context] = split_premises(context, self.splitter)
        return self.split[context]


def _build_refusal(asked: ContextQuestion) -> Reply:
    return Reply("refused", reason=NO_STATEMENT if not asked.question.statements else NO_FRAMES)


def _build_choice_reply(question: Question, best: int, sentence: str | None, support: float) -> Reply:
    """Build the reply to a question whose statement number `best` holds: "yes", the choice, or for an open question the
    sentence that supports it.
    """
    if question.kind == "yes_no":
        return Reply("ok", YES, YES, None, support, sentence)
    answer = question.choices[best] if question.kind == "choice" else sentence
    if answer is None:
        return Reply("abstain", reason="the context has no sentence", score=support)
    return Reply("ok", answer, answer, None, support, sentence)


def _format_order(question: Question, order: Sequence[int]) -> str:
    """Return the choice that puts the events in this order; `order` are positions among the question's statements."""
    if question.kind == "order":
        return "".join("ABCDEFGH"[event] for event in order)
    if question.kind == "yes_no":
        return YES if order[0] == 0 else NO
    return question.choices[order[0]]


REFERENCE_TOO_LONG = "the reference answer is too long for the verifier: split the sentence"

MATCHER_VERSION = 1
"""Increased by hand whenever a matcher below gives other scores."""


@dataclass(frozen=True)
class TokenF1Matcher:
    """An AnswerMatcher that judges an answer right where its `token_f1` with the reference answer reaches `threshold`.
    It is the baseline that other matchers must beat.
    """

    threshold: float = 0.5

    @property
    def identity(self) -> ModelIdentity:
        """The rule's name and version, with the threshold."""
        return ModelIdentity("token-f1", str(MATCHER_VERSION), {"threshold": self.threshold})

    def judge_answers(self, answered: Sequence[tuple[Question, Reply]]) -> list[AnswerJudgement]:
        """Return one judgement for every (question, reply), in order: right where `token_f1` reaches the threshold.
        Raises ValueError for a reply whose status is not "ok".
        """
        scores = [token_f1(_require_answer(reply), question.answer) for question, reply in answered]
        return [AnswerJudgement(score >= self.threshold) for score in scores]


@dataclass(frozen=True)
class CosineMatcher:
    """An AnswerMatcher that judges an answer right where the cosine of its vector with the reference answer's reaches
    `threshold`.
    """

    encoder: TextEncoder
    threshold: float = 0.8

    @property
    def identity(self) -> ModelIdentity:
        """The identity of the encoder, with the threshold."""
        encoder = self.encoder.identity
        params = {"encoder": encoder.as_dict(), "threshold": self.threshold, "version": MATCHER_VERSION}
        return ModelIdentity(f"cosine:{encoder.model_id}", encoder.revision, params)

    def judge_answers(self, answered: Sequence[tuple[Question, Reply]]) -> list[AnswerJudgement]:
        """Return one judgement for every (question, reply), in order: right where the cosine reaches the threshold.
        Raises ValueError for a reply whose status is not "ok", and BadFeature for a text without a direction.
        """
        return [AnswerJudgement(score >= self.threshold) for score in self.compute_cosines(answered)]

    def compute_cosines(self, answered: Sequence[tuple[Question, Reply]]) -> list[float]:
        """Return the cosine, in [-1, 1] up to rounding, of every answer with its reference answer, in order. Raises
        ValueError for a reply whose status is not "ok", and BadFeature for a text without a direction.
        """
        pairs = [(_require_answer(reply), question.answer) for question, reply in answered]
        vectors = encode_unit_vectors((text for pair in pairs for text in pair), self.encoder)
        return [float(np.dot(vectors[answer], vectors[reference])) for answer, reference in pairs]


@dataclass(frozen=True)
class EntailmentMatcher:
    """An AnswerMatcher that judges an answer right where P(the answer entails the reference answer) reaches
    `threshold`. It is the default without a server.

    The model reads both without the question, with which the area under the curve was no better on VAQ-Bench
    (benchmarks/qeva_matchers.py).
    """

    model: EntailmentModel
    threshold: float

    @property
    def identity(self) -> ModelIdentity:
        """The identity of the entailment model, with the threshold."""
        verifier = self.model.identity
        params = {"verifier": verifier.as_dict(), "threshold": self.threshold, "version": MATCHER_VERSION}
        return ModelIdentity(f"entailment:{verifier.model_id}", verifier.revision, params)

    def judge_answers(self, answered: Sequence[tuple[Question, Reply]]) -> list[AnswerJudgement]:
        """Return one judgement for every (question, reply), in order: right where the probability reaches the
        threshold. The status is "refused" where the reference answer is too long for the model. Raises ValueError for a
        reply whose status is not "ok".
        """
        return [
            AnswerJudgement(None, "refused", REFERENCE_TOO_LONG)
            if score is None
            else AnswerJudgement(score >= self.threshold)
            for score in self.compute_probabilities(answered)
        ]

    def compute_probabilities(self, answered: Sequence[tuple[Question, Reply]]) -> list[float | None]:
        """Return P(the answer entails the reference answer), in [0, 1], for every (question, reply), in order: 1 for
        the same words, None where the reference answer is too long for the model. Raises ValueError for a reply whose
        status is not "ok".
        """
        pairs = [(_require_answer(reply), question.answer) for question, reply in answered]
        answers = EntailmentCache(self.model)
        ask_fitting_pairs(answers, [pair for pair in pairs if not has_same_words(*pair)])
        return [1.0 if has_same_words(*pair) else answers.probability_by_pair.get(pair) for pair in pairs]


def _require_answer(reply: Reply) -> str:
    """Return the answer in a reply with the status "ok". Raises ValueError for a reply without an answer."""
    if reply.normalised is None:
        raise ValueError(f'A reply with the status "{reply.status}" has no answer to match: leave it out.')
    return reply.normalised


def token_f1(given: str, reference: str) -> float:
    """Return the harmonic mean of precision and recall of words, each counted as often as it occurs; in [0, 1], 0
    without common words.

    >>> token_f1("A red car", "the car is red"), token_f1("", "9")
    (0.5714285714285714, 0.0)
    """
    left, right = Counter(split_words(given)), Counter(split_words(reference))
    shared = (left & right).total()
    return 2 * shared / (left.total() + right.total()) if shared else 0.0
