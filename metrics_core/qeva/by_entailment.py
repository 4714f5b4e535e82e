"""Answers to QEVA's questions by an entailment model, without a language model or a server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from metrics_core.ecs.plan import premise_sentences
from metrics_core.protocols import EntailmentModel, ModelIdentity, SentenceSplitter, TextEncoder
from metrics_core.qeva.evidence import Evidence, gather
from metrics_core.qeva.places import MENTIONED, SMALLEST, SPREAD, WEIGHT_OF_ENTAILMENT, order_of, place_of
from metrics_core.qeva.records import NO, YES, Asked, Context, Question, Reply, VideoFrames, VideoNotes
from metrics_core.qeva.texts import distinct

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
    - chronology: the events' places in the context are compared (`places.place_of`). "Followed at once" is read as
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
                "spread": SPREAD,
                "weight_of_entailment": WEIGHT_OF_ENTAILMENT,
                "smallest": SMALLEST,
                "mentioned": MENTIONED,
            },
            "version": VERSION,
        }
        return ModelIdentity(f"entailment:{verifier.model_id}", verifier.revision, params)

    def answer(self, asked: Sequence[Asked]) -> list[Reply]:
        """One reply for each, in order.

        Refused are a question without statements, frames as context, and a statement that is too long for the model.
        """
        read = _Contexts(self.splitter)
        sentences = [read.sentences(one.question, one.context) for one in asked]
        wanted = [
            (statement, premises)
            for one, premises in zip(asked, sentences, strict=True)
            if premises is not None
            for statement in one.question.statements
        ]
        found = iter(gather(wanted, self.model, self.encoder, self.r))
        return [
            _cannot(one)
            if premises is None or not one.question.statements
            else self._reply(one, premises, [next(found) for _ in one.question.statements])
            for one, premises in zip(asked, sentences, strict=True)
        ]

    def _reply(self, one: Asked, premises: Sequence[str], gathered: Sequence[Evidence | None]) -> Reply:
        found = [evidence for evidence in gathered if evidence is not None]
        if len(found) < len(gathered):
            return Reply("refused", reason=TOO_LONG)
        if one.question.dimension == "chronology":
            return self._order(one, premises, found)
        support = [evidence.support for evidence in found]
        best = max(range(len(found)), key=support.__getitem__)
        place = found[best].best
        evidence = None if place is None else premises[place] or None
        if support[best] >= self.threshold and support.count(support[best]) == 1:
            return _chosen(one.question, best, evidence, support[best])
        if self.forced:
            return self._guess(one.question, best, evidence, support[best])
        reason = f"nothing supports it: the best probability is {support[best]:.3f}, below {self.threshold:.3f}"
        if support[best] >= self.threshold:
            reason = f"two choices have the same probability, {support[best]:.3f}"
        return Reply("abstain", reason=reason, score=support[best], evidence=evidence)

    def _guess(self, question: Question, best: int, evidence: str | None, support: float) -> Reply:
        if question.kind == "yes_no":
            return Reply("ok", NO, NO, "nothing supports it", support, evidence)
        return _chosen(question, best, evidence, support)

    def _order(self, one: Asked, premises: Sequence[str], found: Sequence[Evidence]) -> Reply:
        if one.context is None:
            return Reply("abstain", reason="without a context the order of events is not known")
        places = [place_of(evidence, self.threshold, self.forced) for evidence in found]
        order = order_of(places)
        told = " | ".join(premises[round(place)] if place is not None else "(not told)" for place in places)
        if order is None and not (self.forced and premises):
            missing = any(place is None for place in places)
            reason = "an event is not told" if missing else "two events are told at the same place"
            return Reply("abstain", reason=reason, evidence=told or None)
        answer = _in_order(one.question, order or tuple(range(len(places))))
        return Reply("ok", answer, answer, None, None, told)


@dataclass(frozen=True)
class _Contexts:
    """Splits every summary once."""

    splitter: SentenceSplitter
    split: dict[str, list[str]] = field(default_factory=dict)

    def sentences(self, question: Question, context: Context) -> Sequence[str] | None:
        """The premises that a context gives for a question, None where it gives none that can be read."""
        if context is None:
            return [""]
        if isinstance(context, VideoFrames):
            return None
        if isinstance(context, VideoNotes):
            chronology = question.dimension == "chronology"
            return context.events if chronology else distinct((*context.facts, *context.events, *context.more))
        if context not in self.split:
            self.split[context] = premise_sentences(context, self.splitter)
        return self.split[context]


def _cannot(one: Asked) -> Reply:
    return Reply("refused", reason=NO_STATEMENT if not one.question.statements else NO_FRAMES)


def _chosen(question: Question, best: int, evidence: str | None, support: float) -> Reply:
    """The reply that statement `best` holds."""
    if question.kind == "yes_no":
        return Reply("ok", YES, YES, None, support, evidence)
    answer = question.choices[best] if question.kind == "choice" else evidence
    if answer is None:
        return Reply("abstain", reason="the context has no sentence", score=support)
    return Reply("ok", answer, answer, None, support, evidence)


def _in_order(question: Question, order: Sequence[int]) -> str:
    """The choice that names the events in this order; `order` are positions among the question's statements."""
    if question.kind == "order":
        return "".join("ABCDEFGH"[event] for event in order)
    if question.kind == "yes_no":
        return YES if order[0] == 0 else NO
    return question.choices[order[0]]
