"""Answers to QEVA's questions by an entailment model, and whether open ones are right, without a language model."""

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
from metrics_core.qeva.replies import drop_repeated_texts, has_same_words

VERSION = 2
"""Raised by hand whenever the rules below give other answers."""

DEFAULT_R = 4
"""Sentences verified for a statement."""

NO_STATEMENT = "the question has no statement that an entailment model could check: set a language model to answer it"
TOO_LONG = "a statement is too long for the verifier: split the sentence"
NO_FRAMES = "an entailment model cannot look at frames: set a video model, or give the video references or keypoints"


@dataclass(frozen=True)
class EntailmentAnswerer:
    """Checks the statements of questions against the sentences of their context; fulfils Answerer.

    threshold: the least P(entailment) at which a sentence supports a statement. encoder: chooses the r sentences most
    alike a statement, which alone are verified; without it the words in common choose. forced: a guess instead of an
    abstention where nothing supports an answer.

    - yes_no: "yes" where a sentence supports the statement; otherwise it abstains, forced "no".
    - open: the sentence that supports the statement is the answer; forced the best sentence.
    - choice: the choice with the most support; it abstains where none is supported or two are equal.
    - chronology: the events' places in the context are compared (`evidence.place_of`). "Followed at once" is read as
      "earlier", because a summary leaves events out. It abstains where an event is not told or two have one place.

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
        """The entailment model with everything that changes the answers."""
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

    def answer(self, asked: Sequence[ContextQuestion]) -> list[Reply]:
        """One reply for each, in order.

        Refused are a question without statements, frames as context, and a statement that is too long for the model.
        """
        read = _PremiseReader(self.splitter)
        sentences = [read.list_premises(one.question, one.context) for one in asked]
        wanted = [
            (statement, premises)
            for one, premises in zip(asked, sentences, strict=True)
            if premises is not None
            for statement in one.question.statements
        ]
        found = iter(gather_evidence(wanted, self.model, self.encoder, self.r))
        return [
            _build_refusal(one)
            if premises is None or not one.question.statements
            else self._build_reply(one, premises, [next(found) for _ in one.question.statements])
            for one, premises in zip(asked, sentences, strict=True)
        ]

    def _build_reply(
        self, one: ContextQuestion, premises: Sequence[str], gathered: Sequence[StatementEvidence | None]
    ) -> Reply:
        found = [evidence for evidence in gathered if evidence is not None]
        if len(found) < len(gathered):
            return Reply("refused", reason=TOO_LONG)
        if one.question.dimension == "chronology":
            return self._answer_order(one, premises, found)
        support = [evidence.best_probability for evidence in found]
        best = max(range(len(found)), key=support.__getitem__)
        place = found[best].best_sentence
        evidence = None if place is None else premises[place] or None
        if support[best] >= self.threshold and support.count(support[best]) == 1:
            return _build_choice_reply(one.question, best, evidence, support[best])
        if self.forced:
            return self._build_guess(one.question, best, evidence, support[best])
        reason = f"nothing supports it: the best probability is {support[best]:.3f}, below {self.threshold:.3f}"
        if support[best] >= self.threshold:
            reason = f"two choices have the same probability, {support[best]:.3f}"
        return Reply("abstain", reason=reason, score=support[best], evidence=evidence)

    def _build_guess(self, question: Question, best: int, evidence: str | None, support: float) -> Reply:
        if question.kind == "yes_no":
            return Reply("ok", NO, NO, "nothing supports it", support, evidence)
        return _build_choice_reply(question, best, evidence, support)

    def _answer_order(self, one: ContextQuestion, premises: Sequence[str], found: Sequence[StatementEvidence]) -> Reply:
        if one.context is None:
            return Reply("abstain", reason="without a context the order of events is not known")
        places = [locate_event(evidence, self.threshold, self.forced) for evidence in found]
        order = sort_events(places)
        told = " | ".join(premises[round(place)] if place is not None else "(not told)" for place in places)
        if order is None and not (self.forced and premises):
            missing = any(place is None for place in places)
            reason = "an event is not told" if missing else "two events are told at the same place"
            return Reply("abstain", reason=reason, evidence=told or None)
        answer = _format_order(one.question, order or tuple(range(len(places))))
        return Reply("ok", answer, answer, None, None, told)


@dataclass(frozen=True)
class _PremiseReader:
    """Splits every summary once."""

    splitter: SentenceSplitter
    split: dict[str, list[str]] = field(default_factory=dict)

    def list_premises(self, question: Question, context: Context) -> Sequence[str] | None:
        """The premises that a context gives for a question, None where it gives none that can be read."""
        if context is None:
            return [""]
        if isinstance(context, VideoAsFrames):
            return None
        if isinstance(context, VideoNotes):
            chronology = question.dimension == "chronology"
            return (
                context.events if chronology else drop_repeated_texts((*context.facts, *context.events, *context.more))
            )
        if context not in self.split:
            self.split[context] = split_premises(context, self.splitter)
        return self.split[context]


def _build_refusal(one: ContextQuestion) -> Reply:
    return Reply("refused", reason=NO_STATEMENT if not one.question.statements else NO_FRAMES)


def _build_choice_reply(question: Question, best: int, evidence: str | None, support: float) -> Reply:
    """The reply that statement `best` holds."""
    if question.kind == "yes_no":
        return Reply("ok", YES, YES, None, support, evidence)
    answer = question.choices[best] if question.kind == "choice" else evidence
    if answer is None:
        return Reply("abstain", reason="the context has no sentence", score=support)
    return Reply("ok", answer, answer, None, support, evidence)


def _format_order(question: Question, order: Sequence[int]) -> str:
    """The choice that names the events in this order; `order` are positions among the question's statements."""
    if question.kind == "order":
        return "".join("ABCDEFGH"[event] for event in order)
    if question.kind == "yes_no":
        return YES if order[0] == 0 else NO
    return question.choices[order[0]]


REFERENCE_TOO_LONG = "the reference answer is too long for the verifier: split the sentence"

MATCHER_VERSION = 1
"""Raised by hand whenever a matcher below gives other scores."""


@dataclass(frozen=True)
class TokenF1Matcher:
    """Right where the words in common reach `threshold`; the rule that other matchers have to beat."""

    threshold: float = 0.5

    @property
    def identity(self) -> ModelIdentity:
        """The rule, its version and the threshold."""
        return ModelIdentity("token-f1", str(MATCHER_VERSION), {"threshold": self.threshold})

    def judge_answers(self, answered: Sequence[tuple[Question, Reply]]) -> list[AnswerJudgement]:
        """Decide each by `token_f1`."""
        scores = [token_f1(require_answer(reply), question.answer) for question, reply in answered]
        return [AnswerJudgement(score >= self.threshold) for score in scores]


@dataclass(frozen=True)
class CosineMatcher:
    """Right where the cosine of the two answers reaches `threshold`."""

    encoder: TextEncoder
    threshold: float = 0.8

    @property
    def identity(self) -> ModelIdentity:
        """The encoder with the threshold."""
        of_encoder = self.encoder.identity
        params = {"encoder": of_encoder.as_dict(), "threshold": self.threshold, "version": MATCHER_VERSION}
        return ModelIdentity(f"cosine:{of_encoder.model_id}", of_encoder.revision, params)

    def judge_answers(self, answered: Sequence[tuple[Question, Reply]]) -> list[AnswerJudgement]:
        """Decide each by `scores`."""
        return [AnswerJudgement(score >= self.threshold) for score in self.compute_cosines(answered)]

    def compute_cosines(self, answered: Sequence[tuple[Question, Reply]]) -> list[float]:
        """Cosines in [-1, 1]."""
        pairs = [(require_answer(reply), question.answer) for question, reply in answered]
        vectors = encode_unit_vectors((text for pair in pairs for text in pair), self.encoder)
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
        params = {"verifier": verifier.as_dict(), "threshold": self.threshold, "version": MATCHER_VERSION}
        return ModelIdentity(f"entailment:{verifier.model_id}", verifier.revision, params)

    def judge_answers(self, answered: Sequence[tuple[Question, Reply]]) -> list[AnswerJudgement]:
        """Decide each by `scores`. A reference answer that is too long for the model is refused."""
        return [
            AnswerJudgement(None, "refused", REFERENCE_TOO_LONG)
            if score is None
            else AnswerJudgement(score >= self.threshold)
            for score in self.compute_probabilities(answered)
        ]

    def compute_probabilities(self, answered: Sequence[tuple[Question, Reply]]) -> list[float | None]:
        """P(entailment) in [0, 1]; 1 for an answer with the reference's own words, None where that is too long."""
        pairs = [(require_answer(reply), question.answer) for question, reply in answered]
        answers = EntailmentCache(self.model)
        ask_fitting_pairs(answers, [pair for pair in pairs if not has_same_words(*pair)])
        return [1.0 if has_same_words(*pair) else answers.probability_by_pair.get(pair) for pair in pairs]


def require_answer(reply: Reply) -> str:
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
