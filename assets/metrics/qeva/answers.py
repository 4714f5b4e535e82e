"""The source of answers to the kept questions about samples, which are given from the summary or from the video."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from itertools import chain
from typing import Any, ClassVar

from sqlalchemy.engine import Engine

from assets.metrics.qeva.questions import (
    SAMPLES_AT_A_TIME,
    SUMMARY_DIMENSIONS,
    QuestionSource,
    SetsBySample,
    StoredQuestionSet,
)
from assets.metrics.qeva.roles import QEVAModelFactory, QEVAModels
from assets.metrics.video_material import CHANGED_VIDEO, UnreadableVideo, VideoMaterial
from assets.sources.base import Evidence, Examination, Forecast, Order, Source
from assets.words.text import format_portion
from db.evidence.embeddings import text_sha256
from db.evidence.frames import LoadVideos, make_video_loader
from db.evidence.models import register_model
from db.evidence.qeva import GOOD_STATUSES, Row, load_answers, store_answers
from db.scores.pending import PendingSample, list_shard_samples
from metrics_core.protocols import ModelIdentity
from metrics_core.qeva import AnswerJudgement, AnswerOutcome, choose_outcome, is_empty_summary, judge_replies
from metrics_core.qeva.records import Context, ContextQuestion, Dimension, Question, Reply

# With a greater share of failed answers, look at the server.
MAX_ERROR_SHARE = 0.2
_REPLY_FIELDS = tuple(field.name for field in fields(Reply))


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """An answer to a question about a sample. context_sha256: the digest of the text or video it is from. reply: one
    that the judge could not decide on has the judge's status and reason. correct: whether it is right; None if that is
    not known.
    """

    context_sha256: bytes
    reply: Reply
    correct: bool | None

    @classmethod
    def build(cls, row: Row) -> StoredAnswer:
        """Build the answer from a row of table qeva_answer, a mapping that `load_answers` read from the database."""
        return cls(bytes(row["context_sha256"]), Reply(**{name: row[name] for name in _REPLY_FIELDS}), row["correct"])

    @property
    def outcome(self) -> AnswerOutcome:
        """One word for the answer: "correct", "wrong", "abstain" (the model chose not to answer) or "error"."""
        return choose_outcome(self.reply.status, self.correct)


@dataclass(frozen=True, slots=True)
class AnsweredQuestions:
    """The evidence of QEVA about a sample: its question sets by dimension, and the current answers by question_id. Only
    kept questions have answers. n_missing: the number of kept questions without a current answer.
    """

    sets: Mapping[str, StoredQuestionSet]
    answers: Mapping[int, StoredAnswer]
    n_missing: int = 0


@dataclass(frozen=True, slots=True)
class _QuestionToAnswer:
    """A kept question to be answered about a sample. context_sha256: the digest of the summary or video that it is to
    be answered from. question_id: the question's id in the database.
    """

    sample: PendingSample
    dimension: Dimension
    question_id: int
    question: Question
    context_sha256: bytes

    @property
    def key(self) -> tuple[int, int]:
        """The ids (sample_id, question_id), by which answers are stored."""
        return self.sample.sample_id, self.question_id

    def is_current_answer(self, answer: StoredAnswer | None) -> bool:
        """Whether there is an answer, and it was given from the present summary or video; False for None. A failed
        answer can be current.
        """
        return answer is not None and answer.context_sha256 == self.context_sha256


def _ask_questions(
    models: QEVAModels,
    material: VideoMaterial,
    files: LoadVideos,
    samples: Sequence[PendingSample],
    questions: Sequence[_QuestionToAnswer],
) -> list[Row]:
    """Ask the models all these questions, judge the answers, and return rows of table qeva_answer to store. The order
    of the questions is not kept. Coverage and chronology questions are asked about the sample's text, factuality
    questions about the video. If the video cannot be shown, the row has a status and reason instead of an answer.
    Stores nothing.
    """
    video_questions = [question for question in questions if question.dimension in SUMMARY_DIMENSIONS]
    text_questions = [question for question in questions if question.dimension not in SUMMARY_DIMENSIONS]
    shown = material.load(files, samples, {question.sample.video_id for question in video_questions})
    contexts = [(question, shown.get(question.sample.video_id, CHANGED_VIDEO)) for question in video_questions]
    readable = [(question, context) for question, context in contexts if not isinstance(context, UnreadableVideo)]
    answered = [
        *_ask(models.video_answerer.answer, readable),
        *_ask(models.summary_answerer.answer, [(question, question.sample.text) for question in text_questions]),
        *((question, _build_failed_reply(why)) for question, why in contexts if isinstance(why, UnreadableVideo)),
    ]
    judgements = judge_replies([(question.question, reply) for question, reply in answered], models.matcher)
    return [_build_row(question, reply, judged) for (question, reply), judged in zip(answered, judgements, strict=True)]


def _ask(
    answer: Callable[[Sequence[ContextQuestion]], list[Reply]], questions: Sequence[tuple[_QuestionToAnswer, Context]]
) -> list[tuple[_QuestionToAnswer, Reply]]:
    asked = [ContextQuestion(question.question, context) for question, context in questions]
    return [(question, reply) for (question, _), reply in zip(questions, answer(asked) if asked else [], strict=True)]


def _build_failed_reply(why: UnreadableVideo) -> Reply:
    return Reply("refused" if why.is_final else "error", reason=why.reason)


def _build_row(question: _QuestionToAnswer, reply: Reply, judged: AnswerJudgement) -> Row:
    """Return an answer as the row to store; one that the judge could not decide on has its status and reason."""
    if reply.status == "ok" and judged.correct is None:
        reason = f"the judge could not decide on the answer: {judged.reason}"
        reply = replace(reply, status=judged.status, normalised=None, reason=reason)
    key = {"question_id": question.question_id, "sample_id": question.sample.sample_id}
    return {**key, "context_sha256": question.context_sha256, **asdict(reply), "correct": judged.correct}


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
        "errors_rare": "Fewer than 20 % of the answers failed.",
    }
    warnings: ClassVar[frozenset[str]] = frozenset({"errors_rare"})

    def __init__(self, factory: QEVAModelFactory, questions: QuestionSource) -> None:
        self.inputs = questions.inputs
        self.sources = (questions,)
        self._questions = questions
        self._material: VideoMaterial = questions.material
        self._make_models = factory.make_models
        self._factory = factory

    @property
    def model(self) -> ModelIdentity:
        """The joint identity of all models that answer questions and judge the answers: their names, joined, and a hash
        of their identities.
        """
        return self._make_models(None).answer_identity

    @property
    def asks_servers(self) -> bool:
        """Whether a server makes the evidence: a chat model has a role of QEVA, or the text encoder is a server's."""
        return self._factory.asks_servers

    def make(self, order: Order, sample_ids: list[int]) -> Mapping[str, int | str]:
        """Ask the kept questions about these samples that have no current answer, or one that failed with an error;
        store the answers, 64 samples at a time. Return counts of answers, requests and tokens by name, and the names of
        the models. Raises MissingEvidence if question sets are missing.
        """
        counts: Counter[str] = Counter(answers=0, abstained=0, unanswered=0)
        models = self._make_models(order)
        with order.engine.begin() as connection:
            model_id = register_model(connection, models.answer_identity.as_dict())
        done, files = 0, make_video_loader(order.engine)
        for samples in order.samples(sample_ids, self.inputs, SAMPLES_AT_A_TIME):
            sets = self._questions.load(order.engine, order.scorer_id, samples)
            stored = self._load_answers(order.engine, model_id, samples)
            pending = [
                question
                for question in self._list_questions(files, samples, sets)
                if not question.is_current_answer(answer := stored.get(question.key))
                or (answer and answer.reply.status == "error")
            ]
            rows = _ask_questions(models, self._material, files, samples, pending)
            store_answers(order.engine, model_id, order.run_id, rows)
            counts.update(
                answers=len(rows),
                abstained=sum(row["status"] == "abstain" for row in rows),
                unanswered=sum(row["status"] not in GOOD_STATUSES for row in rows),
            )
            done += len(samples)
            order.tell(f"questions about {done} of {len(sample_ids)} samples answered")
        return {**counts, **models.tally.as_metadata(), "answered_by": models.answer_identity.model_id}

    def load(self, engine: Engine, scorer_id: int, samples: Sequence[PendingSample]) -> Mapping[int, AnsweredQuestions]:
        """Load the question sets and current answers of the samples that can be asked about, by sample_id. Raises
        MissingEvidence if a sample has kept questions and none of them has a current answer, or if question sets are
        missing.
        """
        sets = self._questions.load(engine, scorer_id, samples)
        questions = list(self._list_questions(make_video_loader(engine), samples, sets))
        answered, unasked = _group_answers(sets, questions, self._load_stored(engine, samples))
        if unasked:
            lack = "no answer to any question"
            raise self.missing(format_portion(len(unasked), len(sets), "sample", f"has {lack}", f"have {lack}"))
        return answered

    def ask(
        self, samples: Sequence[PendingSample], files: LoadVideos, below: Evidence
    ) -> Mapping[int, AnsweredQuestions]:
        """Ask models the kept questions about the samples now; return question sets and answers by sample_id. Stores
        nothing. below: the question sets. files: returns the video files for a set of video ids.
        """
        sets = below[self._questions]
        questions = list(self._list_questions(files, samples, sets))
        rows = _ask_questions(self._make_models(None), self._material, files, samples, questions)
        answers = {(row["sample_id"], row["question_id"]): StoredAnswer.build(row) for row in rows}
        return _group_answers(sets, questions, answers)[0]

    def try_out(self) -> str:
        """Ask one small question of the models that answer questions, and return their answers as a line of text.
        Raises ModelUnusable if a model gives none.
        """
        models = self._make_models(None)
        return models.try_out(models.summary_answerer, models.video_answerer)

    def forecast(self, order: Order, sample_ids: list[int]) -> Sequence[Forecast]:
        """Estimate the requests to answer the questions about these samples, by role; [] without chat models. It counts
        as if all questions were kept and none was answered. Asks no model and stores nothing.
        """
        batches = order.samples(sample_ids, self.inputs)
        return self._factory.forecast_answers(sum(map(self._questions.is_wanted, chain.from_iterable(batches))))

    def examine(self, order: Order) -> Examination:
        """Check two things about the shard, with counts of kept, unanswered, failed and abstained questions.
        questions_answered: all kept questions have a current answer. errors_rare: fewer than 20 % of the kept questions
        have a failed answer. Raises MissingEvidence if question sets are missing.
        """
        with order.engine.connect() as connection:
            sample_ids = list_shard_samples(connection, order.dataset.dataset_id, order.shard)
        counts: Counter[str] = Counter(kept=0, unanswered=0, failed=0, abstained=0)
        files = make_video_loader(order.engine)
        for samples in order.samples(sample_ids, self.inputs):
            stored = self._load_stored(order.engine, samples)
            sets = self._questions.load(order.engine, order.scorer_id, samples)
            for question in self._list_questions(files, samples, sets):
                answer = stored.get(question.key)
                is_present = question.is_current_answer(answer)
                counts.update(kept=1, unanswered=not is_present)
                if answer is not None and is_present:
                    status = answer.reply.status
                    counts.update(failed=status not in GOOD_STATUSES, abstained=status == "abstain")
        passed = {
            "questions_answered": counts["unanswered"] == 0,
            "errors_rare": counts["failed"] < MAX_ERROR_SHARE * counts["kept"] or counts["kept"] == 0,
        }
        return Examination(passed, dict(counts))

    def _list_questions(
        self, files: LoadVideos, samples: Sequence[PendingSample], sets: Mapping[int, Mapping[str, StoredQuestionSet]]
    ) -> Iterator[_QuestionToAnswer]:
        # An empty summary answers no question.
        chosen = [sample for sample in samples if sample.sample_id in sets and not is_empty_summary(sample.text)]
        digests = self._material.require_digests(files, chosen, self.missing)
        for sample in chosen:
            for question_set in sets[sample.sample_id].values():
                dimension = question_set.key.dimension
                context = digests[sample.video_id] if dimension in SUMMARY_DIMENSIONS else text_sha256(sample.text)
                for question_id, question in question_set.kept.items():
                    yield _QuestionToAnswer(sample, dimension, question_id, question, context)

    def _load_stored(self, engine: Engine, samples: Sequence[PendingSample]) -> dict[tuple[int, int], StoredAnswer]:
        with engine.connect() as connection:
            model_id = self.model_id(connection)
        return {} if model_id is None else self._load_answers(engine, model_id, samples)

    def _load_answers(
        self, engine: Engine, model_id: int, samples: Sequence[PendingSample]
    ) -> dict[tuple[int, int], StoredAnswer]:
        with engine.connect() as connection:
            rows = load_answers(connection, model_id, [sample.sample_id for sample in samples])
        return {(row["sample_id"], row["question_id"]): StoredAnswer.build(row) for row in rows}


def _group_answers(
    sets: SetsBySample, questions: Sequence[_QuestionToAnswer], answers: Mapping[tuple[int, int], StoredAnswer]
) -> tuple[dict[int, AnsweredQuestions], list[int]]:
    """Return (question sets with their current answers by sample_id, ids of samples none of whose questions has one).

    If only some answers are missing, another run changed the questions meanwhile; the sample then counts them.
    """
    given: dict[int, dict[int, StoredAnswer]] = {sample_id: {} for sample_id in sets}
    n_wanted = Counter(question.sample.sample_id for question in questions)
    for question in questions:
        if question.is_current_answer(answers.get(question.key)):
            given[question.sample.sample_id][question.question_id] = answers[question.key]
    answered = {
        sample_id: AnsweredQuestions(sets[sample_id], sample_answers, n_wanted[sample_id] - len(sample_answers))
        for sample_id, sample_answers in given.items()
    }
    return answered, [sample_id for sample_id, n in n_wanted.items() if n and not given[sample_id]]
