"""The records that QEVA's steps pass on, and the protocols of the roles that write, answer and judge questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias, get_args

from metrics_core.protocols import ModelIdentity

Dimension = Literal["coverage", "factuality", "chronology"]
QuestionKind = Literal["open", "yes_no", "choice", "order"]
ReplyStatus = Literal["ok", "abstain", "malformed", "refused", "error"]
Failure = Literal["malformed", "refused", "error"]
JudgementStatus = Literal["ok", Failure]
Decision = Literal["keep", "trivial", "low_quality", "error"]
DIMENSIONS: tuple[Dimension, ...] = get_args(Dimension)
YES, NO = "yes", "no"


@dataclass(frozen=True, slots=True)
class Question:
    """One question about a video or a summary, with its choices and its key (the right answer). choices: all answers
    there are, in the order shown; empty for an open question, ("yes", "no") for yes_no, permutations such as "ACB" for
    order. answer: the key, one of the choices, or for an open question the reference answer.

    text: the question itself, without the choices. category: of a factuality question. events: for chronology, which
    events of the video's list the question names, by number from 0. statements: what an entailment model can check
    instead of reading the question: one for an open or yes_no question (its key is "yes" when it holds), one per
    choice, or for chronology the events in the order in which the question names them.
    """

    dimension: Dimension
    kind: QuestionKind
    text: str
    answer: str
    choices: tuple[str, ...] = ()
    category: str | None = None
    events: tuple[int, ...] = ()
    statements: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class QuestionSet:
    """The questions of one dimension about one video, or about one summary where the dimension is factuality.
    n_requested: how many were asked for. n_malformed: how many of the model's were unusable and are left out. status:
    "ok", also for an empty set, with the cause in `reason`; "refused" or "error" where the model gave none.
    """

    dimension: Dimension
    questions: tuple[Question, ...] = ()
    n_requested: int = 0
    n_malformed: int = 0
    status: Literal["ok", "refused", "error"] = "ok"
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class JpegFrame:
    """One frame of a video as it is sent to a model: a JPEG image, its time in seconds, and its size in pixels."""

    jpeg: bytes = field(repr=False)
    time_s: float
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class VideoAsFrames:
    """A video as a model sees it: sampled frames, in order of time. frame_params: how frames were sampled, scaled and
    compressed; part of every cache key.
    """

    frames: tuple[JpegFrame, ...]
    frame_params: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class VideoNotes:
    """The events and facts that people wrote about one video; they replace the video where there is no video model.
    events: what happens, in order of time. facts: statements that hold for the video, in any order. source: what they
    are taken from, such as `references` or `keypoints`. more: everything else that people wrote about it.

    Answers may use `more`, but no question is written from it. A score from notes is not reference-free.
    """

    events: tuple[str, ...]
    facts: tuple[str, ...]
    source: str
    more: tuple[str, ...] = ()


# A summary is a plain text. None: only the question, "closed book".
Context: TypeAlias = str | VideoAsFrames | VideoNotes | None


@dataclass(frozen=True, slots=True)
class ContextQuestion:
    """A question with the context from which it is to be answered: a summary, a video, or None for the words of the
    question only. seed: another one may give another reply and shows choices in another order.
    """

    question: Question
    context: Context
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer to a question, or a status that explains why there is none. raw: the words of the reply. normalised:
    one of the question's choices, or for an open question the answer itself; None unless status is "ok". reason: why
    the status is not "ok", or what decided the answer.

    score: for an answer by entailment the probability that decided, else None. evidence: the sentence that decided.
    """

    status: ReplyStatus
    raw: str = ""
    normalised: str | None = None
    reason: str | None = None
    score: float | None = None
    evidence: str | None = None


@dataclass(frozen=True, slots=True)
class AnswerJudgement:
    """Whether one reply is right, or a status that explains why it was not judged. correct: None exactly where status
    is not "ok", or where the reply gives no answer to judge. status: "malformed", "refused" or "error" where a matcher
    gave no judgement; only after an "error" may asking again help. reason: why the status is not "ok".
    """

    correct: bool | None
    status: JudgementStatus = "ok"
    reason: str | None = None


class VideoExaminer(Protocol):
    """A model or rule that writes questions about videos, with their keys. Results come in the order of the videos."""

    @property
    def identity(self) -> ModelIdentity:
        """The model with prompts, their version, and everything else that changes the questions."""
        ...

    def compose_coverage_questions(self, videos: Sequence[VideoAsFrames | VideoNotes]) -> list[QuestionSet]:
        """Return one set of coverage questions for every video, in order; open questions have a reference answer (paper
        3.1; spec 3.1). A failure on one video is the status of its set.
        """
        ...

    def compose_chronology_questions(self, videos: Sequence[VideoAsFrames | VideoNotes]) -> list[QuestionSet]:
        """Return one set of questions about the order of events for every video, in order (spec 3.3). A failure on one
        video is the status of its set.
        """
        ...


class SummaryExaminer(Protocol):
    """A model or rule that writes factuality questions about summaries, with their keys (spec 3.2)."""

    @property
    def identity(self) -> ModelIdentity:
        """The model with prompts, their version, and everything else that changes the questions."""
        ...

    def compose_factuality_questions(self, summaries: Sequence[str]) -> list[QuestionSet]:
        """Return one set of factuality questions for every summary, in order. A failure on one summary is the status of
        its set.
        """
        ...


class Answerer(Protocol):
    """A model or rule that answers questions from their contexts, or from the question only; it sees nothing else."""

    @property
    def identity(self) -> ModelIdentity:
        """The model with prompts, their version, and everything else that changes the answers."""
        ...

    def answer(self, questions: Sequence[ContextQuestion]) -> list[Reply]:
        """Return one reply to every question, in order. A failure that one question causes is the status of its reply,
        not an error.
        """
        ...


class AnswerMatcher(Protocol):
    """A model or rule that decides whether an answer to an open question matches the reference answer."""

    @property
    def identity(self) -> ModelIdentity:
        """The model or rule, with everything that changes its judgements."""
        ...

    def judge_answers(self, answered: Sequence[tuple[Question, Reply]]) -> list[AnswerJudgement]:
        """Return one judgement for every (question, reply), in order. The questions are open, and the replies have the
        status "ok". A failure on one pair is the status of its judgement.
        """
        ...
