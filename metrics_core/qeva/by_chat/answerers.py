"""Answer questions and judge answers by chat model (spec 3.5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from metrics_core.models.chat.protocol import ChatModel, ChatReply, ChatRequest
from metrics_core.protocols import ModelIdentity
from metrics_core.qeva.by_chat import requests
from metrics_core.qeva.by_chat.requests import LETTERS, build_answer_request, build_judgement_request, is_blank_context
from metrics_core.qeva.chronology import ORDERS, reletter_events
from metrics_core.qeva.records import AnswerJudgement, ContextQuestion, Dimension, Failure, Question, QuestionSet, Reply
from metrics_core.qeva.replies import parse_reply


def ask_chat_model(chat: ChatModel, requests: Sequence[ChatRequest | None]) -> list[ChatReply | None]:
    """Return the replies to requests, in order, from one call of the chat model; None where the request is None.
    Without a request the model is not called.
    """
    real = [request for request in requests if request is not None]
    replies = iter(chat.chat(real) if real else [])
    return [None if request is None else next(replies) for request in requests]


def find_reply_data(reply: ChatReply | None) -> Mapping[str, Any] | None:
    """Return the data of a model's answer, an object that fits the request's schema. None where there is no reply, or
    its status is not "ok".
    """
    return reply.data if reply is not None and reply.status == "ok" else None


def build_identity(chat: ChatModel, **settings: Any) -> ModelIdentity:
    """Build the identity of a chat model that is asked with this package's prompts: its own parameters, the prompts'
    version, and `settings` as further parameters.
    """
    return chat.identity.add_params(prompts=requests.PROMPT_VERSION, **settings)


def build_empty_set(dimension: Dimension, n: int, reply: ChatReply | None) -> QuestionSet:
    """Build a set without questions that explains why there are none: the reply's failure, or, where it is None, that
    there is nothing to ask about. n: the number of questions asked for.
    """
    if reply is None:
        return QuestionSet(
            dimension, (), n, reason="the video or text has nothing to ask about, no frame, note or word"
        )
    status: Literal["refused", "error"] = "refused" if reply.status == "refused" else "error"
    return QuestionSet(dimension, (), n, status=status, reason=reply.explain_failure())


def _build_unanswered_reply(reply: ChatReply | None) -> Reply:
    """Build the reply to a question for a chat reply without an answer: its failure and reason. Where it is None,
    because the context is blank, the reply is an abstention.
    """
    if reply is None:
        return Reply("abstain", reason="the video or text has nothing to answer from, no frame, note or word")
    return Reply(_choose_failure(reply), reason=reply.explain_failure())


def _parse_judgement(reply: ChatReply) -> AnswerJudgement:
    """Return the judgement in a model's reply; where it has no answer, a judgement with the status "malformed",
    "refused" or "error" and the reason.
    """
    data = find_reply_data(reply)
    if data is None:
        return AnswerJudgement(None, _choose_failure(reply), f"the answer was not judged: {reply.explain_failure()}")
    return AnswerJudgement(bool(data["same"]))


def _choose_failure(reply: ChatReply) -> Failure:
    """Return the failure of a chat reply without an answer: "malformed", "refused" or "error". A reply that was stopped
    is an "error", because asking again may help.
    """
    return reply.status if reply.status in ("malformed", "refused") else "error"


class ChatAnswerer:
    """An Answerer that asks a chat model, one request for each question, all of them in one batch. forced: the model
    may not abstain, and has to guess. A blank context is never sent: it answers nothing, and any answer of the model
    would be a guess.
    """

    def __init__(self, chat: ChatModel, forced: bool = False) -> None:
        self._chat, self._forced = chat, forced

    @property
    def identity(self) -> ModelIdentity:
        """The identity of the chat model, with the prompts' version and `forced` as further parameters."""
        return build_identity(self._chat, forced=self._forced)

    def answer(self, questions: Sequence[ContextQuestion]) -> list[Reply]:
        """Return one reply to every question, in order, from one batch of the chat model; a failure is the reply's
        status. Each seed rotates the choices by one more place, or gives the events of an order other letters. A blank
        context gives an abstention.

        A question with n choices is shown in n ways, the order of three events in 6, an open question in one; with more
        seeds the first way comes again, to which a model at temperature 0 gives the same answer again.
        """
        shown = [replace(asked, question=_arrange_question(asked.question, asked.seed)) for asked in questions]
        replies = ask_chat_model(
            self._chat,
            [None if is_blank_context(asked.context) else build_answer_request(asked, self._forced) for asked in shown],
        )
        return [
            _restore_letters(_parse_chat_answer(arranged.question, reply), original.question, arranged.question)
            for original, arranged, reply in zip(questions, shown, replies, strict=True)
        ]


class ChatMatcher:
    """An AnswerMatcher that asks a chat model, all in one batch, whether answers to open questions match the reference
    answers.
    """

    def __init__(self, chat: ChatModel) -> None:
        self._chat = chat

    @property
    def identity(self) -> ModelIdentity:
        """The identity of the chat model, with the prompts' version as a further parameter."""
        return build_identity(self._chat)

    def judge_answers(self, answered: Sequence[tuple[Question, Reply]]) -> list[AnswerJudgement]:
        """Return one judgement for every (question, reply), in order, from one batch of the chat model. Where the model
        gave none, the judgement's status and reason explain why.
        """
        requests = [build_judgement_request(question, reply.normalised or "") for question, reply in answered]
        return [_parse_judgement(reply) for reply in (self._chat.chat(requests) if requests else [])]


def _arrange_question(question: Question, seed: int) -> Question:
    """Return the question as it is shown with a seed; with seed 0 it is unchanged. Choices are rotated, so that after
    as many seeds as choices every choice has been in every place. The events of an order get other letters; an open
    question stays as it is.
    """
    if question.kind == "order":
        return reletter_events(question, ORDERS[seed % len(ORDERS)])
    if question.kind == "open":
        return question
    start = seed % len(question.choices)
    return replace(question, choices=question.choices[start:] + question.choices[:start])


def _restore_letters(reply: Reply, original: Question, arranged: Question) -> Reply:
    """Return the reply to a rearranged order question in the letters that the events have in the original question.
    Other replies stay as they are. arranged: the question as it was shown.
    """
    if reply.normalised is None or original.answer == arranged.answer:
        return reply
    letters = dict(zip(arranged.answer, original.answer, strict=True))
    return replace(reply, normalised="".join(letters[letter] for letter in reply.normalised))


def _parse_chat_answer(shown: Question, reply: ChatReply | None) -> Reply:
    """Return the reply in a model's answer to a question; a failure or an abstention where there is no answer. shown:
    the question with its choices in the order shown. A choice is named by its letter.
    """
    data = find_reply_data(reply)
    if data is None:
        return _build_unanswered_reply(reply)
    raw = str(data["answer"])
    place = LETTERS.find(raw) if len(raw) == 1 and shown.kind == "choice" else -1
    if 0 <= place < len(shown.choices):
        return Reply("ok", raw, shown.choices[place])
    return parse_reply(shown, raw)
