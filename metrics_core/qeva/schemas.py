"""The JSON that chat models answer with: flat, bounded, every member required."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from metrics_core.qeva.chronology import ORDERS
from metrics_core.qeva.normalise import ABSTAIN
from metrics_core.qeva.prompts import CATEGORIES
from metrics_core.qeva.records import NO, YES, Question

Schema: TypeAlias = Mapping[str, Any]
MAX_EVENTS = 20
LETTERS = "ABCD"


def record(**members: Schema) -> Schema:
    """An object with exactly these members."""
    return {"type": "object", "properties": members, "required": list(members), "additionalProperties": False}


def text(max_length: int) -> Schema:
    """A string of at most so many characters."""
    return {"type": "string", "maxLength": max_length}


def many(items: Schema, at_most: int) -> Schema:
    """A list of at most so many items."""
    return {"type": "array", "items": items, "maxItems": at_most}


def one_of(words: Sequence[str]) -> Schema:
    """One of these words."""
    return {"type": "string", "enum": list(words)}


def question_list(n: int) -> Schema:
    """At most n questions."""
    return record(questions=many(text(400), n))


def event_list() -> Schema:
    """The events of a video."""
    return record(events=many(text(200), MAX_EVENTS))


def order_questions(n: int) -> Schema:
    """At most n chronology questions with their choices and keys."""
    kind = one_of(["yes_no", "choice", "order"])
    one = record(kind=kind, question=text(600), choices=many(text(200), 3), answer=text(200))
    return record(questions=many(one, n))


def category_questions() -> Schema:
    """A question with choices and key, or null, for every category."""
    one = record(question=text(400), choices=many(text(200), 4), answer=text(200))
    return record(**{category: {"anyOf": [one, {"type": "null"}]} for category in CATEGORIES})


def answer_to(question: Question, forced: bool) -> Schema:
    """The answer to a question. It is the same for all questions with as many choices, so that a server, which is told
    the schema before the context, can keep the context between questions."""
    if question.kind == "open":
        return record(answer=text(800))
    if question.kind == "choice":
        answers: tuple[str, ...] = tuple(LETTERS[: len(question.choices)])
    else:
        answers = (YES, NO) if question.kind == "yes_no" else ORDERS
    return record(answer=one_of(answers if forced else (*answers, ABSTAIN)))


def judgement() -> Schema:
    """Whether an answer is right."""
    return record(same={"type": "boolean"})
