"""Asking the kept questions about a batch of samples, and judging what is said."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from assets.qeva.material import GONE, Material, Unreadable
from assets.qeva.panel import Panel
from assets.qeva.stored import answer_row, question_of
from assets.qeva.writing import OF_SUMMARY
from assets.sources.base import Order
from db.qeva_answers import AnswerRow
from db.qeva_questions import QuestionRow
from db.work import PendingSample
from metrics_core.qeva import judge_replies
from metrics_core.qeva.records import Asked, Context, Reply


@dataclass(frozen=True, slots=True)
class Wanted:
    """A kept question about a sample, and the digest of what it is to be answered from."""

    sample: PendingSample
    dimension: str
    question: QuestionRow
    context_sha256: bytes

    @property
    def key(self) -> tuple[int, int]:
        """Sample and question."""
        return self.sample.sample_id, cast(int, self.question.question_id)

    def is_answered_by(self, row: AnswerRow | None) -> bool:
        """Whether this is an answer to the question, given from what is there now."""
        return row is not None and row.context_sha256 == self.context_sha256


def ask(
    order: Order, panel: Panel, material: Material, samples: Sequence[PendingSample], wanted: Sequence[Wanted]
) -> list[AnswerRow]:
    """Ask every question in its context: a summary's question about the video, a video's about the summary."""
    of_video = [each for each in wanted if each.dimension in OF_SUMMARY]
    of_text = [each for each in wanted if each.dimension not in OF_SUMMARY]
    shown = material.load(order.engine, samples, {each.sample.video_id for each in of_video})
    contexts = [(each, shown.get(each.sample.video_id, GONE)) for each in of_video]
    answered = [
        *_replies(panel.video_answerer.answer, [(e, c) for e, c in contexts if not isinstance(c, Unreadable)]),
        *_replies(panel.summary_answerer.answer, [(each, each.sample.text) for each in of_text]),
        *((each, _without_context(why)) for each, why in contexts if isinstance(why, Unreadable)),
    ]
    asked = [(question_of(each.question, each.dimension), reply) for each, reply in answered]
    judgements = judge_replies(asked, panel.matcher)
    return [
        answer_row(each.key[1], each.sample.sample_id, each.context_sha256, reply, judgement)
        for (each, reply), judgement in zip(answered, judgements, strict=True)
    ]


def _replies(
    answer: Callable[[Sequence[Asked]], list[Reply]], wanted: Sequence[tuple[Wanted, Context]]
) -> list[tuple[Wanted, Reply]]:
    asked = [Asked(question_of(each.question, each.dimension), context) for each, context in wanted]
    return [(each, reply) for (each, _), reply in zip(wanted, answer(asked) if asked else [], strict=True)]


def _without_context(why: Unreadable) -> Reply:
    return Reply("refused" if why.is_final else "error", reason=why.reason)
