"""Answering and judging by chat model (spec 3.5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from metrics_core.models.chat.protocol import ChatModel, ChatReply, ChatRequest
from metrics_core.protocols import ModelIdentity
from metrics_core.qeva.by_chat import requests
from metrics_core.qeva.by_chat.requests import LETTERS, answer_request, is_blank, judgement_request
from metrics_core.qeva.chronology import ORDERS, relettered
from metrics_core.qeva.records import Asked, Dimension, Failure, Judgement, Question, QuestionSet, Reply
from metrics_core.qeva.replies import normalise


def ask_all(chat: ChatModel, requests: Sequence[ChatRequest | None]) -> list[ChatReply | None]:
    """The replies to requests, in order and by one call; None where there is nothing to ask."""
    real = [request for request in requests if request is not None]
    replies = iter(chat.chat(real) if real else [])
    return [None if request is None else next(replies) for request in requests]


def data_of(reply: ChatReply | None) -> Mapping[str, Any] | None:
    """What a model answered; None where it was not asked, or its reply is no answer."""
    return reply.data if reply is not None and reply.status == "ok" else None


def identity_with(chat: ChatModel, **settings: Any) -> ModelIdentity:
    """The identity of a chat model that is asked with our prompts and these settings."""
    model = chat.identity
    return ModelIdentity(
        model.model_id, model.revision, {**model.params, "prompts": requests.PROMPT_VERSION, **settings}
    )


def set_without_questions(dimension: Dimension, n: int, reply: ChatReply | None) -> QuestionSet:
    """The set for a reply without questions; None: nothing was asked, as there is nothing to ask about."""
    if reply is None:
        return QuestionSet(dimension, (), n, reason="there is nothing to ask about: no frame, no note, or no words")
    status: Literal["refused", "error"] = "refused" if reply.status == "refused" else "error"
    return QuestionSet(dimension, (), n, status=status, reason=reason_of(reply))


def reply_without_answer(reply: ChatReply | None) -> Reply:
    """The reply to a question for a chat reply without an answer; None: the context is blank, and answers nothing."""
    if reply is None:
        return Reply("abstain", reason="there is nothing to answer from: no frame, no note, or no words")
    return Reply(failure_of(reply), reason=reason_of(reply))


def judgement_of(reply: ChatReply) -> Judgement:
    """The judgement that a model's reply gives, or why it gives none."""
    data = data_of(reply)
    if data is None:
        return Judgement(None, failure_of(reply), f"the answer was not judged: {reason_of(reply)}")
    return Judgement(bool(data["same"]))


def failure_of(reply: ChatReply) -> Failure:
    """The status of what a chat reply without an answer leaves undone; "stopped" is an "error", as time may mend it."""
    return reply.status if reply.status in ("malformed", "refused") else "error"


def reason_of(reply: ChatReply) -> str:
    """Why a chat reply has no answer."""
    return reply.reason or f"the model's reply is {reply.status}"


class ChatAnswerer:
    """An Answerer by chat model: one request for each question, all of them in one batch.

    forced: the model may not say that the context does not tell, and has to guess. A blank context is never sent: it
    answers nothing, and what a model says to it would be a guess.
    """

    def __init__(self, chat: ChatModel, forced: bool = False) -> None:
        self._chat, self._forced = chat, forced

    @property
    def identity(self) -> ModelIdentity:
        """The chat model with prompts and settings."""
        return identity_with(self._chat, forced=self._forced)

    def answer(self, asked: Sequence[Asked]) -> list[Reply]:
        """One reply for each, in order. Each seed moves the choices on by one place, or letters the events anew.

        A question with n choices is shown in n ways, the order of three events in 6, an open question in one; with more
        seeds the first way comes again, to which a model at temperature 0 says the same again.
        """
        shown = [replace(one, question=as_shown(one.question, one.seed)) for one in asked]
        replies = ask_all(
            self._chat, [None if is_blank(one.context) else answer_request(one, self._forced) for one in shown]
        )
        return [
            as_asked(read_answer(moved.question, reply), one.question, moved.question)
            for one, moved, reply in zip(asked, shown, replies, strict=True)
        ]


class ChatMatcher:
    """A Matcher by chat model: does an answer say what matters in the reference answer? One batch."""

    def __init__(self, chat: ChatModel) -> None:
        self._chat = chat

    @property
    def identity(self) -> ModelIdentity:
        """The chat model with prompts."""
        return identity_with(self._chat)

    def match(self, answered: Sequence[tuple[Question, Reply]]) -> list[Judgement]:
        """One judgement for each reply, in order; where the model gave none, the status of its reply says why."""
        requests = [judgement_request(question, reply.normalised or "") for question, reply in answered]
        return [judgement_of(reply) for reply in (self._chat.chat(requests) if requests else [])]


def as_shown(question: Question, seed: int) -> Question:
    """The question as a seed shows it, for seed 0 as it is.

    Choices are turned on, so that after as many seeds as choices each has stood in each place. The events of an order
    get other letters.
    """
    if question.kind == "order":
        return relettered(question, ORDERS[seed % len(ORDERS)])
    if question.kind == "open":
        return question
    start = seed % len(question.choices)
    return replace(question, choices=question.choices[start:] + question.choices[:start])


def as_asked(reply: Reply, asked: Question, shown: Question) -> Reply:
    """The reply to a question as it was shown, in the letters under which the question asked has the events."""
    if reply.normalised is None or asked.answer == shown.answer:
        return reply
    letter_of = dict(zip(shown.answer, asked.answer, strict=True))
    return replace(reply, normalised="".join(letter_of[letter] for letter in reply.normalised))


def read_answer(shown: Question, reply: ChatReply | None) -> Reply:
    """Read a model's answer to a question with its choices as they were shown. A choice is named by its letter."""
    data = data_of(reply)
    if data is None:
        return reply_without_answer(reply)
    raw = str(data["answer"])
    place = LETTERS.find(raw) if len(raw) == 1 and shown.kind == "choice" else -1
    if 0 <= place < len(shown.choices):
        return Reply("ok", raw, shown.choices[place])
    return normalise(shown, raw)
