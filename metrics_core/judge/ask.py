"""Ask a vision model to judge texts, and read its answers: a value from 0 to 1, wrong pieces, a reason, or a status."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from metrics_core.judge.prompt import HIGHEST_SCORE, PROMPT_VERSION, build_judge_request
from metrics_core.judge.spans import FoundSpans, find_spans
from metrics_core.models.chat.protocol import ChatModel, ChatReply, build_expected_name
from metrics_core.protocols import ModelIdentity
from metrics_core.qeva.records import VideoAsFrames


@dataclass(frozen=True, slots=True)
class JudgedText:
    """A text to be judged by frames of its video: a caption, or the answer to a question. question: None for a
    caption. repeat: the number of the answer about this text, from 0, see `build_judge_request`.
    """

    text: str
    video: VideoAsFrames
    question: str | None = None
    repeat: int = 0


@dataclass(frozen=True, slots=True)
class JudgeAnswer:
    """The judge's answer on one text. For status "ok": score (0 to 100), value (0 to 1), value_from, found (the wrong
    pieces of the text) and why, a sentence. Every other status has a reason and no score: "refused" by model or server,
    "cut" (too long), "malformed" after all attempts, or "failed", where another attempt may succeed.

    value_from: "logprobs" where the value is the expectation of the score over the model's tokens, divided by 100;
    "answer" where it is the score divided by 100, as the server gives no probabilities.
    """

    score: int | None = None
    value: float | None = None
    value_from: Literal["logprobs", "answer"] | None = None
    found: FoundSpans = field(default_factory=FoundSpans)
    why: str | None = None
    status: Literal["ok", "refused", "cut", "malformed", "failed"] = "ok"
    reason: str | None = None


@dataclass(frozen=True)
class ChatJudge:
    """A judge that asks a vision model, one request for an answer, see `build_judge_request`."""

    chat_model: ChatModel

    @property
    def identity(self) -> ModelIdentity:
        """The identity of the vision model, with the version of the prompt among its parameters."""
        return self.chat_model.identity.add_params(prompt=PROMPT_VERSION)

    def judge_texts(self, texts: Sequence[JudgedText]) -> list[JudgeAnswer]:
        """Return one answer for every text, in order, from one batch of the chat model. A text without an answer has a
        status and a reason; none raises.
        """
        requests = [build_judge_request(judged.text, judged.question, judged.video, judged.repeat) for judged in texts]
        replies = self.chat_model.chat(requests) if requests else []
        return [_parse_judge_reply(reply, judged.text) for reply, judged in zip(replies, texts, strict=True)]


def _parse_judge_reply(reply: ChatReply, text: str) -> JudgeAnswer:
    """Return the judge's answer on a text in a model's reply, with the wrong pieces at their places in the text; where
    the reply has no answer, its status and reason.
    """
    data = reply.data
    if reply.status != "ok" or data is None:
        return JudgeAnswer(status=_choose_status(reply), reason=reply.explain_failure())
    score, expected = int(data["score"]), data.get(build_expected_name("score"))
    return JudgeAnswer(
        score,
        (score if expected is None else float(expected)) / HIGHEST_SCORE,
        "answer" if expected is None else "logprobs",
        find_spans(text, [(span["text"], span["reason"]) for span in data["spans"]]),
        " ".join(data["why"].split()),
    )


def _choose_status(reply: ChatReply) -> Literal["refused", "cut", "malformed", "failed"]:
    """Return the status of a reply without an answer. One that was stopped has failed, since asking again may help."""
    if reply.status == "malformed":
        return "cut" if reply.is_cut else "malformed"
    return "refused" if reply.status == "refused" else "failed"
