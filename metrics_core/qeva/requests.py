"""The requests of QEVA's steps to a chat model: context first, question last."""

from __future__ import annotations

from collections.abc import Mapping

from metrics_core.models.chat.protocol import ChatRequest, TextPart
from metrics_core.qeva import prompts, schemas
from metrics_core.qeva.contexts import parts_of
from metrics_core.qeva.normalise import ABSTAIN
from metrics_core.qeva.records import Asked, Context, Question, VideoFrames, VideoNotes

MAX_TOKENS: Mapping[str, int] = {
    "coverage questions": 4000,
    "reference answers": 1000,
    "events": 4000,
    "chronology questions": 8000,
    "factuality questions": 8000,
    "closed-book answers": 1000,
    "answers": 1000,
    "judgements": 1000,
}


def request(
    purpose: str, system: str, context: Context, ask: str, schema: schemas.Schema, seed: int = 0
) -> ChatRequest:
    """Ask something about a context."""
    parts = (*parts_of(context), TextPart(ask))
    return ChatRequest(purpose, system, parts, schema, prompts.PROMPT_VERSION, MAX_TOKENS[purpose], seed=seed)


def coverage_request(video: VideoFrames | VideoNotes, n: int, seed: int) -> ChatRequest:
    """Ask for n open questions about a video."""
    ask = prompts.COVERAGE.format(n=n)
    return request("coverage questions", prompts.EXAMINER, video, ask, schemas.question_list(n), seed)


def reference_request(video: VideoFrames | VideoNotes, question: str, seed: int) -> ChatRequest:
    """Ask for the reference answer to an open question about a video."""
    ask = prompts.REFERENCE.format(abstain=ABSTAIN, question=question)
    return request("reference answers", prompts.EXAMINER, video, ask, schemas.record(answer=schemas.text(800)), seed)


def events_request(video: VideoFrames | VideoNotes, seed: int) -> ChatRequest:
    """Ask for the events of a video in their order."""
    ask = prompts.EVENTS.format(n=schemas.MAX_EVENTS)
    return request("events", prompts.EXAMINER, video, ask, schemas.event_list(), seed)


def one_shot_request(video: VideoFrames | VideoNotes, n: int, seed: int) -> ChatRequest:
    """Ask for n questions about the order of a video's events, with choices and keys."""
    ask = prompts.ONE_SHOT.format(n=n)
    return request("chronology questions", prompts.EXAMINER, video, ask, schemas.order_questions(n), seed)


def factuality_request(summary: str, seed: int) -> ChatRequest:
    """Ask for a question of every category about what a summary states."""
    categories = "\n".join(f"- {category}: {meaning}" for category, meaning in prompts.CATEGORIES.items())
    ask = prompts.FACTUALITY.format(categories=categories)
    return request("factuality questions", prompts.EXAMINER, summary, ask, schemas.category_questions(), seed)


def answer_request(asked: Asked, forced: bool) -> ChatRequest:
    """Ask a question in its context; `asked.question.choices` in the order in which they are to be shown."""
    question, is_closed = asked.question, asked.context is None
    may = prompts.FORCED if forced else prompts.MAY_ABSTAIN
    system = f"{prompts.CLOSED_BOOK if is_closed else prompts.ANSWERER} {may}"
    purpose = "closed-book answers" if is_closed else "answers"
    return request(purpose, system, asked.context, ask_for(question), schemas.answer_to(question, forced), asked.seed)


def ask_for(question: Question) -> str:
    """The words of a question with its choices.

    >>> print(ask_for(Question("factuality", "choice", "What is it?", "a dog", ("a cat", "a dog"))))
    Question: What is it?
    A) a cat
    B) a dog
    Answer with the letter of the right choice.
    """
    listed = zip(schemas.LETTERS, question.choices, strict=False) if question.kind == "choice" else ()
    lines = [f"Question: {question.text}", *(f"{letter}) {choice}" for letter, choice in listed)]
    how = prompts.HOW_TO_ANSWER[question.kind].format(choices=" or ".join(f'"{one}"' for one in question.choices))
    return "\n".join((*lines, how))


def judgement_request(question: Question, answer: str) -> ChatRequest:
    """Ask whether an answer to an open question gives the reference answer."""
    ask = prompts.JUDGEMENT.format(question=question.text, reference=question.answer, answer=answer)
    return request("judgements", prompts.JUDGE, None, ask, schemas.judgement())
