"""Asking a chat model for many things at once, and what its failures mean for questions and answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from metrics_core.models.chat.protocol import ChatModel, ChatReply, ChatRequest
from metrics_core.protocols import ModelIdentity
from metrics_core.qeva import prompts
from metrics_core.qeva.records import Dimension, Failure, Judgement, QuestionSet, Reply


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
        model.model_id, model.revision, {**model.params, "prompts": prompts.PROMPT_VERSION, **settings}
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
