"""The source of answers to the kept questions about samples, which are given from the summary or from the video."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from itertools import chain
from typing import Any, ClassVar, NamedTuple

from sqlalchemy.engine import Engine

from assets.metrics.qeva.questions import SUMMARY_DIMENSIONS, QuestionSource, SetsBySample, StoredQuestionSet
from assets.metrics.qeva.roles import QEVAModelFactory
from assets.metrics.video_material import CHANGED_VIDEO, UnreadableVideo
from assets.sources.base import ERRORS_RARE, Batch, Forecast, Order, Source, are_errors_rare
from assets.words.text import format_portion
from db.evidence.embeddings import text_sha256
from db.evidence.qeva import GOOD_STATUSES, load_answers, store_answers
from db.evidence.store import Table
from metrics_core.models.chat.protocol import ChatModel
from metrics_core.protocols import ModelIdentity
from metrics_core.qeva import AnswerJudgement, AnswerOutcome, choose_outcome, is_empty_summary, judge_replies
from metrics_core.qeva.records import Context, ContextQuestion, Question, Reply

_REPLY_FIELDS = tuple(field.name for field in fields(Reply))


class _AnswerKey(NamedTuple):
    """The key of an answer: a question, and the sample that it is about. context_sha256: the digest of the
    summary or video that it is answered from.
    """

    sample_id: int
    question_id: int
    context_sha256: bytes


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """An answer to a question about a sample. reply: has the judge's status and reason if the judge could not decide on
    it. correct: whether it is right; None if that is not known.
    """

    reply: Reply
    correct: bool | None

    @property
    def outcome(self) -> AnswerOutcome:
        """One word for the answer: "correct", "wrong", "abstain" (the model chose not to answer) or "error"."""
        return choose_outcome(self.reply.status, self.correct)


_Answers = Mapping[_AnswerKey, StoredAnswer]


@dataclass(frozen=True, slots=True)
class AnsweredQuestions:
    """The evidence of QEVA about a sample: its question sets by dimension, and the current answers by question_id. Only
    kept questions have answers. n_missing: the number of kept questions without a current answer.
    """

    sets: Mapping[str, StoredQuestionSet]
    answers: Mapping[int, StoredAnswer]
    n_missing: int = 0


def _load_answers(engine: Engine, model_id: int, keys: Collection[_AnswerKey]) -> _Answers:
    with engine.connect() as connection:
        rows = load_answers(connection, model_id, {key.sample_id for key in keys})
    stored = {_AnswerKey(row["sample_id"], row["question_id"], bytes(row["context_sha256"])): row for row in rows}
    return {
        key: StoredAnswer(Reply(**{name: stored[key][name] for name in _REPLY_FIELDS}), stored[key]["correct"])
        for key in keys
        if key in stored
    }


def _store_answers(engine: Engine, model_id: int, run_id: str, answers: _Answers) -> None:
    rows = [{**key._asdict(), **asdict(answer.reply), "correct": answer.correct} for key, answer in answers.items()]
    store_answers(engine, model_id, run_id, rows)


class AnswerSource(Source[Mapping[int, AnsweredQuestions]]):
    """The source of answers about samples; `load` and `ask` return question sets with answers by sample_id. Questions
    of coverage and chronology are answered from the sample's text, those of factuality from the video.
    """

    asset: ClassVar[str] = "qeva_answer"
    description: ClassVar[str] = (
        "Answers to the kept questions: to coverage and chronology from the summary, to factuality from the video."
    )
    group: ClassVar[str] = "questions"
    reads: ClassVar[tuple[str, ...]] = ("sample", "video", "reference", "keypoint")
    rests_on: ClassVar[tuple[type[Source[Any]], ...]] = (QuestionSource,)
    checks: ClassVar[Mapping[str, str]] = {
        "questions_answered": "Every kept question has an answer, or a reason why it has none.",
        ERRORS_RARE: "Fewer than 20 % of the answers failed.",
    }
    warnings: ClassVar[frozenset[str]] = frozenset({ERRORS_RARE})
    table: ClassVar[Table[Any, Any]] = Table(_load_answers, _store_answers)
    progress: ClassVar[str] = "questions about {done} of {total} samples answered"
    model_role: ClassVar[str] = "answered_by"
    # The frames of their videos are in memory.
    at_a_time: ClassVar[int] = 64

    def __init__(self, factory: QEVAModelFactory, questions: QuestionSource) -> None:
        self.inputs = questions.inputs
        self.sources = (questions,)
        self._questions = questions
        self._factory = factory

    @property
    def model(self) -> ModelIdentity:
        """The joint identity of all models that answer questions and judge the answers: their names, joined, and a hash
        of their identities.
        """
        return self._factory.make_models(None).answer_identity

    @property
    def chat_models(self) -> Collection[ChatModel]:
        """The chat models that have a role of QEVA."""
        return self._factory.chat_models

    @property
    def asks_servers(self) -> bool:
        """Whether a server makes the evidence: a chat model has a role of QEVA, or the text encoder is a server's."""
        return self._factory.asks_servers

    def keys(self, batch: Batch) -> Iterator[_AnswerKey]:
        """Yield a key for every kept question about every sample; an empty summary answers no question. Raises
        MissingEvidence if question sets are missing, or if a video has changed meanwhile.
        """
        sets = batch.below[self._questions]
        chosen = [s for s in batch.samples if s.sample_id in sets and not is_empty_summary(s.text)]
        digests = self._questions.material.require_digests(batch.files, chosen, self.missing)
        for sample in chosen:
            for dimension, question_set in sets[sample.sample_id].items():
                context = digests[sample.video_id] if dimension in SUMMARY_DIMENSIONS else text_sha256(sample.text)
                for question_id in question_set.kept:
                    yield _AnswerKey(sample.sample_id, question_id, context)

    def compute(self, keys: Sequence[_AnswerKey], batch: Batch) -> Iterator[_Answers]:
        """Ask the models these questions, let them judge the answers, and yield all answers at once. If the video
        cannot be shown, an answer has a status and reason instead.
        """
        models = self._factory.make_models(batch)
        samples = {sample.sample_id: sample for sample in batch.samples}
        questions = _list_questions(batch.below[self._questions])
        about_video = [key for key in keys if questions[key.question_id].dimension in SUMMARY_DIMENSIONS]
        videos = {samples[key.sample_id].video_id for key in about_video}
        shown = self._questions.material.load(batch.files, batch.samples, videos)
        from_video: dict[_AnswerKey, Context] = {}
        replies: dict[_AnswerKey, Reply] = {}
        for key in about_video:
            video = shown.get(samples[key.sample_id].video_id, CHANGED_VIDEO)
            if isinstance(video, UnreadableVideo):
                replies[key] = Reply(video.status, reason=video.reason)
            else:
                from_video[key] = video
        from_text = {key: samples[key.sample_id].text for key in keys if key not in from_video and key not in replies}
        answered = {
            **_ask(models.video_answerer.answer, from_video, questions),
            **_ask(models.summary_answerer.answer, from_text, questions),
            **replies,
        }
        judged = judge_replies([(questions[key.question_id], reply) for key, reply in answered.items()], models.matcher)
        yield {key: _build_answer(reply, one) for (key, reply), one in zip(answered.items(), judged, strict=True)}

    def is_final(self, value: StoredAnswer) -> bool:
        """Whether an answer stays, since it did not fail with an error."""
        return value.reply.status != "error"

    def gather(self, values: _Answers, batch: Batch) -> Mapping[int, AnsweredQuestions]:
        """Return the question sets and answers by sample_id. If only some answers are missing, another run changed the
        questions meanwhile; `n_missing` counts them.
        """
        sets = batch.below[self._questions]
        given: dict[int, dict[int, StoredAnswer]] = {sample_id: {} for sample_id in sets}
        for key, answer in values.items():
            given[key.sample_id][key.question_id] = answer
        n_kept = {
            sample.sample_id: sum(len(one.kept) for one in sets[sample.sample_id].values())
            for sample in batch.samples
            if sample.sample_id in sets and not is_empty_summary(sample.text)
        }
        return {
            sample_id: AnsweredQuestions(sets[sample_id], answers, n_kept.get(sample_id, 0) - len(answers))
            for sample_id, answers in given.items()
        }

    def count(self, values: _Answers) -> Mapping[str, int]:
        """Return counts of answers, of those that abstain, and of questions without an answer."""
        statuses = [answer.reply.status for answer in values.values()]
        return {
            "answers": len(values),
            "abstained": statuses.count("abstain"),
            "unanswered": sum(status not in GOOD_STATUSES for status in statuses),
        }

    def require_all(self, keys: Sequence[_AnswerKey], values: _Answers) -> None:
        """Raise MissingEvidence if a sample has kept questions and none of them has a current answer."""
        asked, answered = ({key.sample_id for key in each} for each in (keys, values))
        if n_missing := len(asked - answered):
            lack = "no answer to any question"
            raise self.missing(format_portion(n_missing, len(asked), "sample", f"has {lack}", f"have {lack}"))

    def forecast(self, order: Order, sample_ids: list[int]) -> Sequence[Forecast]:
        """Estimate the requests to answer the questions about these samples, by role; [] without chat models. It counts
        as if all questions were kept and none was answered. Asks no model and stores nothing.
        """
        batches = order.samples(sample_ids, self.inputs)
        return self._factory.forecast_answers(sum(map(self._questions.is_wanted, chain.from_iterable(batches))))

    def measure(self, keys: Sequence[_AnswerKey], batch: Batch) -> Mapping[str, int]:
        """Return counts of kept, unanswered, failed and abstained questions."""
        counts = self.count(batch.store.load(keys))
        return {
            "kept": len(keys),
            "unanswered": len(keys) - counts["answers"],
            "failed": counts["unanswered"],
            "abstained": counts["abstained"],
        }

    def judge_counts(self, counts: Mapping[str, int]) -> Mapping[str, bool]:
        """Return whether all kept questions have a current answer, and fewer than 20 % of the answers have failed."""
        return {
            "questions_answered": counts["unanswered"] == 0,
            ERRORS_RARE: are_errors_rare(counts["failed"], counts["kept"]),
        }

    def try_out(self) -> str:
        """Ask one small question of the models that answer questions, and return their answers as a line of text.
        Raises ModelUnusable if a model gives none.
        """
        models = self._factory.make_models(None)
        return models.try_out(models.summary_answerer, models.video_answerer)


def _list_questions(sets: SetsBySample) -> dict[int, Question]:
    return {
        number: question
        for by_dimension in sets.values()
        for one in by_dimension.values()
        for number, question in one.kept.items()
    }


def _ask(
    answer: Callable[[Sequence[ContextQuestion]], list[Reply]],
    contexts: Mapping[_AnswerKey, Context],
    questions: Mapping[int, Question],
) -> dict[_AnswerKey, Reply]:
    asked = [ContextQuestion(questions[key.question_id], context) for key, context in contexts.items()]
    return dict(zip(contexts, answer(asked) if asked else [], strict=True))


def _build_answer(reply: Reply, judged: AnswerJudgement) -> StoredAnswer:
    """Return the answer; one that the judge could not decide on has its status and reason."""
    if reply.status == "ok" and judged.correct is None:
        reason = f"the judge could not decide on the answer: {judged.reason}"
        reply = replace(reply, status=judged.status, normalised=None, reason=reason)
    return StoredAnswer(reply, judged.correct)
