"""What QEVA's steps hand to one another, and who writes, filters, answers and judges questions."""

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
    """A question with its key.

    text: the question itself, without the choices. choices: all answers there are, in the order shown; empty for an
    open question; ("yes", "no") for yes_no; permutations such as "ACB" for order. answer: the key, one of the choices,
    or for an open question the reference answer. category: of a factuality question. events: for chronology, which
    events of the video's list the question names, by number from 0. statements: what an entailment model can check
    instead of reading the question: one for an open or yes_no question (its key is "yes" when it holds), one for each
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
    """The questions of one dimension for a video, or for a summary where the dimension is factuality.

    n_requested: how many were asked for. n_malformed: how many came back unusable and are not among `questions`.
    status: "ok", also for an empty set of which `reason` says why; "refused" or "error" where the model gave none.
    """

    dimension: Dimension
    questions: tuple[Question, ...] = ()
    n_requested: int = 0
    n_malformed: int = 0
    status: Literal["ok", "refused", "error"] = "ok"
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class JpegFrame:
    """A frame of a video as a model is sent it: a JPEG image, its size in pixels, and its time in seconds."""

    jpeg: bytes = field(repr=False)
    time_s: float
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class VideoAsFrames:
    """A video as a model sees it. recipe: how frames were sampled, scaled and compressed; part of every cache key."""

    frames: tuple[JpegFrame, ...]
    frame_params: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class VideoNotes:
    """What people wrote about a video, standing in for the video where there is no video model.

    events: what happens, in order of time. facts: statements that hold of the video, in any order. source: what they
    are taken from, such as `references` or `keypoints`. more: whatever else people wrote about the video; answers may
    rest on it, but no question is written from it. A score from notes is not reference-free.
    """

    events: tuple[str, ...]
    facts: tuple[str, ...]
    source: str
    more: tuple[str, ...] = ()


# A summary is a plain text. None: the question alone, "closed book".
Context: TypeAlias = str | VideoAsFrames | VideoNotes | None


@dataclass(frozen=True, slots=True)
class ContextQuestion:
    """A question in a context. seed: another seed may give another reply and shows choices in another order."""

    question: Question
    context: Context
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Reply:
    """What somebody answers.

    raw: the words of the reply. normalised: one of the question's choices, or for an open question the answer itself;
    None unless status is "ok". reason: why the status is not "ok", or what the answer rests on. score: for an open
    question answered by entailment the probability that it rests on, else None. evidence: the sentence that decided.
    """

    status: ReplyStatus
    raw: str = ""
    normalised: str | None = None
    reason: str | None = None
    score: float | None = None
    evidence: str | None = None


@dataclass(frozen=True, slots=True)
class AnswerJudgement:
    """Whether a reply is right.

    correct: None exactly where status is not "ok", or where the reply gives no answer to judge. status: "malformed",
    "refused" or "error" where a matcher gave no judgement; only after an "error" may asking again help. reason: why
    the status is not "ok".
    """

    correct: bool | None
    status: JudgementStatus = "ok"
    reason: str | None = None


class VideoExaminer(Protocol):
    """Writes the questions about videos, with their keys. Results come in the order of the videos."""

    @property
    def identity(self) -> ModelIdentity:
        """The model with prompts, their version, and whatever else changes the questions."""
        ...

    def compose_coverage_questions(self, videos: Sequence[VideoAsFrames | VideoNotes]) -> list[QuestionSet]:
        """Coverage questions (paper 3.1; spec 3.1), open ones with their reference answers."""
        ...

    def compose_chronology_questions(self, videos: Sequence[VideoAsFrames | VideoNotes]) -> list[QuestionSet]:
        """Questions about the order of events (spec 3.3)."""
        ...


class SummaryExaminer(Protocol):
    """Writes the factuality questions of summaries, with their keys (spec 3.2)."""

    @property
    def identity(self) -> ModelIdentity:
        """The model with prompts, their version, and whatever else changes the questions."""
        ...

    def compose_factuality_questions(self, summaries: Sequence[str]) -> list[QuestionSet]:
        """One set for each summary, in order."""
        ...


class Answerer(Protocol):
    """Answers questions from their contexts, or from none; sees nothing else."""

    @property
    def identity(self) -> ModelIdentity:
        """The model with prompts, their version, and whatever else changes the answers."""
        ...

    def answer(self, asked: Sequence[ContextQuestion]) -> list[Reply]:
        """One reply for each, in order. What one question causes is the status of its reply, not an error."""
        ...


class AnswerMatcher(Protocol):
    """Decides whether an answer to an open question gives what the reference answer gives."""

    @property
    def identity(self) -> ModelIdentity:
        """The model or rule."""
        ...

    def judge_answers(self, answered: Sequence[tuple[Question, Reply]]) -> list[AnswerJudgement]:
        """One judgement for each reply (status "ok"), in order. What one causes is the status of its judgement."""
        ...
