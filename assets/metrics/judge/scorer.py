"""The scorer of the judge: a vision model's score of a caption or an answer, from stored answers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Any, ClassVar

from pydantic import BaseModel
from sqlalchemy.engine import Connection

from assets.metrics.judge.answers import DRAW, INPUTS, METRIC, JudgeAnswers, get_judged_text
from assets.metrics.judge.settings import JudgeSettings
from assets.models.settings import NO_JUDGE
from assets.scores.base import Explanation, Outcome
from assets.sources.base import Evidence, Source
from assets.words.marked_text import Mark
from db.schema.inputs import VIDEO, Input
from db.scores.pending import PendingSample
from db.selection.draws import NOT_DRAWN, NOT_DRAWN_REASON
from metrics_core.judge import JudgeAnswer
from metrics_core.models.chat.protocol import ChatModel
from metrics_core.protocols import ModelIdentity
from metrics_core.qeva.score import is_empty_summary

_VALUE_FROM = {
    "logprobs": "the mean over the tokens that the model considered for its score",
    "answer": "the score as the model wrote it; its server gives no probabilities of tokens",
}


class JudgeScorer:
    """Scores captions, and answers to questions, by a vision model that sees frames of the video: from 0 to 1, without
    references. It also names the pieces of the text that are wrong.
    """

    metric: ClassVar[str] = METRIC
    code_version: ClassVar[str] = "1"
    value_range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    inputs: ClassVar[Collection[Input[Any]]] = INPUTS
    rests_on: ClassVar[tuple[type[Source[Any]], ...]] = (JudgeAnswers,)
    settings: ClassVar[type[BaseModel]] = JudgeSettings

    def __init__(self, settings: JudgeSettings, chat: ChatModel | None) -> None:
        """chat: the vision model; None for none, so that no sample has a value."""
        self.answers = JudgeAnswers(chat, settings, self._can_judge) if chat else None
        self.sources: tuple[Source[Any], ...] = (self.answers,) if self.answers else ()

    @classmethod
    def from_settings(cls, settings: JudgeSettings) -> JudgeScorer:
        """Make the scorer with the vision model of the settings, whose server is asked when it is first used."""
        return cls(settings, settings.make_chat_model("judge"))

    @property
    def missing_setting(self) -> str | None:
        """The name of the variable without which no sample can have a value; None where it is set."""
        return None if self.answers else "REELSIEVE_JUDGE_MODEL"

    def models(self) -> dict[str, Any]:
        """Return the identity of the judge with its prompt and the form in which it is shown a video, as a dict under
        the name `judge`; the name of the model is "no judge" where none is set.
        """
        return {"judge": (self.answers.model if self.answers else ModelIdentity(NO_JUDGE, "none")).as_dict()}

    def params(self) -> dict[str, Any]:
        """Return {}: every parameter is part of the judge's identity."""
        return {}

    def score(self, samples: Sequence[PendingSample], evidence: Evidence) -> list[Outcome]:
        """Return one outcome for every sample, in order, from the stored answers. Components have the score, where the
        value is from, the sentence, and the wrong pieces with their places in the caption or answer.
        """
        answers = evidence[self.answers] if self.answers else {}
        return [self.refusal(sample) or _build_outcome(answers[sample.sample_id]) for sample in samples]

    def explain(
        self, connection: Connection, sample: PendingSample, evidence: Evidence, components: Mapping[str, Any]
    ) -> Explanation:
        """Return the score and the judge's sentence as lines, and a row for every wrong piece with its place and the
        reason. components: those stored with the score. Other arguments are not used.
        """
        return _explain_judgement(components)

    def refusal(self, sample: PendingSample) -> Outcome | None:
        """Return the outcome, with status and reason, of a sample that is not to be judged, as known without a model;
        else None. There is no judge, the sample is not drawn, its video has no readable file, or its text is empty.
        """
        if self.answers is None:
            return Outcome(None, "no_model", "there is no judge: set REELSIEVE_JUDGE_MODEL to a vision model")
        return self._find_obstacle(sample) if sample[DRAW] else Outcome(None, NOT_DRAWN, NOT_DRAWN_REASON)

    def _find_obstacle(self, sample: PendingSample) -> Outcome | None:
        """Return the outcome of a sample that cannot be judged, whether it is drawn or not; else None."""
        if sample[VIDEO].status == "text_only":
            return Outcome(None, "no_video", "the video has no file for the judge to look at")
        if self.answers and (refused := self.answers.material.find_refusal(sample)):
            return refused
        if is_empty_summary(get_judged_text(sample)):
            return Outcome(None, "empty_text", "the text has no letter or digit to judge")
        return None

    def _can_judge(self, sample: PendingSample) -> bool:
        return self._find_obstacle(sample) is None


def _build_outcome(answer: JudgeAnswer) -> Outcome:
    if answer.value is None:
        return Outcome(None, answer.status, answer.reason)
    return Outcome(
        answer.value,
        components={
            "score": answer.score,
            "value_from": answer.value_from,
            "why": answer.why,
            "spans": [asdict(span) for span in answer.found.spans],
            "spans_not_in_text": answer.found.n_not_in_text,
            "spans_beyond_five": answer.found.n_surplus,
        },
    )


def _explain_judgement(components: Mapping[str, Any]) -> Explanation:
    """Return the lines, rows and marks that explain a judge's score. components: those stored with it.

    >>> _explain_judgement({"score": 80, "value_from": "answer", "why": "Fine.", "spans": [], "spans_not_in_text": 1,
    ...     "spans_beyond_five": 0}).lines[-1]
    '1 piece that the judge calls wrong is not in the text and was dropped'
    """
    lines = [
        f"the judge wrote {components['score']} of 100; the value is {_VALUE_FROM[components['value_from']]}",
        f"why: {components['why']}",
    ]
    if n := components["spans_not_in_text"]:
        pieces, were = (
            ("1 piece", "is not in the text and was") if n == 1 else (f"{n} pieces", "are not in the text and were")
        )
        lines.append(f"{pieces} that the judge calls wrong {were} dropped")
    if n := components["spans_beyond_five"]:
        lines.append(f"{n} more {'piece was' if n == 1 else 'pieces were'} dropped after the fifth")
    rows = [
        {"wrong": span["text"], "at": f"{span['start']} to {span['end']}", "because": span["reason"]}
        for span in components["spans"]
    ]
    marks = [Mark(span["start"], span["end"], span["reason"]) for span in components["spans"]]
    return Explanation(lines, rows, marks=marks)
