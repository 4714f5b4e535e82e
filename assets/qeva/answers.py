"""Answers: to the kept questions about each summary, from the summary or from the video."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from itertools import chain
from typing import Any, ClassVar

from sqlalchemy.engine import Engine

from assets.qeva.questions import SAMPLES_AT_A_TIME, SUMMARY_DIMENSIONS, QuestionSource, SetsBySample, StoredQuestionSet
from assets.qeva.roles import QEVAModelFactory, QEVAModels
from assets.qeva.video_material import CHANGED_VIDEO, UnreadableVideo, VideoMaterial
from assets.sources.base import Evidence, Examination, Forecast, Order, Source
from db.evidence.embeddings import text_sha256
from db.evidence.frames import LoadVideos, make_video_loader
from db.evidence.models import register_model
from db.evidence.qeva import GOOD_STATUSES, Row, load_answers, store_answers
from db.scores.pending import PendingSample, list_shard_samples
from metrics_core.protocols import ModelIdentity
from metrics_core.qeva import AnswerJudgement, AnswerOutcome, choose_outcome, is_empty_summary, judge_replies
from metrics_core.qeva.records import Context, ContextQuestion, Dimension, Question, Reply

# More failed answers than this are worth a look at the server.
MAX_ERROR_SHARE = 0.2
_REPLY_FIELDS = tuple(each.name for each in fields(Reply))


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """An answer to a question about a sample, and the digest of what it was answered from.

    reply: as stored; one that the judge did not judge has the judge's status and reason. correct: None where nobody
    could tell.
    """

    context_sha256: bytes
    reply: Reply
    correct: bool | None

    @classmethod
    def build(cls, row: Row) -> StoredAnswer:
        """Read a row of `load_answers`."""
        return cls(bytes(row["context_sha256"]), Reply(**{name: row[name] for name in _REPLY_FIELDS}), row["correct"])

    @property
    def outcome(self) -> AnswerOutcome:
        """Whether the answer is right, wrong, withheld or failed."""
        return choose_outcome(self.reply.status, self.correct)


@dataclass(frozen=True, slots=True)
class AnsweredQuestions:
    """A sample's question sets by dimension, and the answers to their kept questions by question_id.

    n_missing: kept questions without an answer.
    """

    sets: Mapping[str, StoredQuestionSet]
    answers: Mapping[int, StoredAnswer]
    n_missing: int = 0


@dataclass(frozen=True, slots=True)
class QuestionToAnswer:
    """A kept question about a sample, and the digest of what it is to be answered from."""

    sample: PendingSample
    dimension: Dimension
    question_id: int
    question: Question
    context_sha256: bytes

    @property
    def key(self) -> tuple[int, int]:
        """Sample and question."""
        return self.sample.sample_id, self.question_id

    def is_current_answer(self, answer: StoredAnswer | None) -> bool:
        """Whether this is an answer to the question, given from what is there now."""
        return answer is not None and answer.context_sha256 == self.context_sha256


def ask_questions(
    models: QEVAModels,
    material: VideoMaterial,
    files: LoadVideos,
    samples: Sequence[PendingSample],
    wanted: Sequence[QuestionToAnswer],
) -> list[Row]:
    """Ask every question in its context: a summary's question about the video, a video's about the summary."""
    of_video = [each for each in wanted if each.dimension in SUMMARY_DIMENSIONS]
    of_text = [each for each in wanted if each.dimension not in SUMMARY_DIMENSIONS]
    shown = material.load(files, samples, {each.sample.video_id for each in of_video})
    contexts = [(each, shown.get(each.sample.video_id, CHANGED_VIDEO)) for each in of_video]
    answered = [
        *_ask(models.video_answerer.answer, [(e, c) for e, c in contexts if not isinstance(c, UnreadableVideo)]),
        *_ask(models.summary_answerer.answer, [(each, each.sample.text) for each in of_text]),
        *((each, _build_failed_reply(why)) for each, why in contexts if isinstance(why, UnreadableVideo)),
    ]
    judgements = judge_replies([(each.question, reply) for each, reply in answered], models.matcher)
    return [_build_row(each, reply, judged) for (each, reply), judged in zip(answered, judgements, strict=True)]


def _ask(
    answer: Callable[[Sequence[ContextQuestion]], list[Reply]], wanted: Sequence[tuple[QuestionToAnswer, Context]]
) -> list[tuple[QuestionToAnswer, Reply]]:
    asked = [ContextQuestion(each.question, context) for each, context in wanted]
    return [(each, reply) for (each, _), reply in zip(wanted, answer(asked) if asked else [], strict=True)]


def _build_failed_reply(why: UnreadableVideo) -> Reply:
    return Reply("refused" if why.is_final else "error", reason=why.reason)


def _build_row(wanted: QuestionToAnswer, reply: Reply, judged: AnswerJudgement) -> Row:
    """An answer as it is stored. One that the judge did not judge has the judge's status and reason."""
    if reply.status == "ok" and judged.correct is None:
        reason = f"the judge gave no judgement: {judged.reason}"
        reply = replace(reply, status=judged.status, normalised=None, reason=reason)
    key = {"question_id": wanted.question_id, "sample_id": wanted.sample.sample_id}
    return {**key, "context_sha256": wanted.context_sha256, **asdict(reply), "correct": judged.correct}


class AnswerSource(Source[Mapping[int, AnsweredQuestions]]):
    """The answers about each sample, with the questions: coverage and chronology by its text, the rest by the video."""

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
        """All that answer questions and judge the answers."""
        return self._make_models(None).answer_identity

    @property
    def asks_servers(self) -> bool:
        """Whether some role is a chat model's, or the encoder is a server's."""
        return self._factory.asks_servers

    def make(self, order: Order, sample_ids: list[int]) -> Mapping[str, int | str]:
        """Ask what has no answer yet, or one that an error prevented, and store the answers, some samples at a time."""
        counts: Counter[str] = Counter(answers=0, abstained=0, unanswered=0)
        panel = self._make_models(order)
        with order.engine.begin() as connection:
            model_id = register_model(connection, panel.answer_identity.as_dict())
        done, files = 0, make_video_loader(order.engine)
        for samples in order.samples(sample_ids, self.inputs, SAMPLES_AT_A_TIME):
            sets = self._questions.load(order.engine, order.scorer_id, samples)
            stored = self._load_answers(order.engine, model_id, samples)
            todo = [
                each
                for each in self._list_questions(files, samples, sets)
                if not each.is_current_answer(one := stored.get(each.key)) or (one and one.reply.status == "error")
            ]
            rows = ask_questions(panel, self._material, files, samples, todo)
            store_answers(order.engine, model_id, order.run_id, rows)
            counts.update(
                answers=len(rows),
                abstained=sum(row["status"] == "abstain" for row in rows),
                unanswered=sum(row["status"] not in GOOD_STATUSES for row in rows),
            )
            done += len(samples)
            order.tell(f"questions answered about {done} of {len(sample_ids)} samples")
        return {**counts, **panel.tally.as_metadata(), "answered_by": panel.answer_identity.model_id}

    def load(self, engine: Engine, scorer_id: int, samples: Sequence[PendingSample]) -> Mapping[int, AnsweredQuestions]:
        """Questions and answers of each wanted sample; MissingEvidence where one has not been asked about."""
        sets = self._questions.load(engine, scorer_id, samples)
        wanted = list(self._list_questions(make_video_loader(engine), samples, sets))
        examined, unasked = _group_answers(sets, wanted, self._load_stored(engine, samples))
        if unasked:
            raise self.missing(f"{len(unasked)} of {len(sets)} samples have no answer to any question")
        return examined

    def ask(
        self, samples: Sequence[PendingSample], files: LoadVideos, below: Evidence
    ) -> Mapping[int, AnsweredQuestions]:
        """Have the kept questions about the samples answered."""
        sets = below[self._questions]
        wanted = list(self._list_questions(files, samples, sets))
        rows = ask_questions(self._make_models(None), self._material, files, samples, wanted)
        answers = {(row["sample_id"], row["question_id"]): StoredAnswer.build(row) for row in rows}
        return _group_answers(sets, wanted, answers)[0]

    def try_out(self) -> str:
        """Have a question answered by whoever answers."""
        panel = self._make_models(None)
        return panel.try_out(panel.summary_answerer, panel.video_answerer)

    def forecast(self, order: Order, sample_ids: list[int]) -> Sequence[Forecast]:
        """The calls for the answers about these samples, as if every question were kept and none answered."""
        batches = order.samples(sample_ids, self.inputs)
        return self._factory.forecast_answers(sum(map(self._questions.is_wanted, chain.from_iterable(batches))))

    def examine(self, order: Order) -> Examination:
        """Whether all kept questions about the shard's samples have an answer, and how many failed."""
        with order.engine.connect() as connection:
            sample_ids = list_shard_samples(connection, order.dataset.dataset_id, order.shard)
        counts: Counter[str] = Counter(kept=0, unanswered=0, failed=0, abstained=0)
        files = make_video_loader(order.engine)
        for samples in order.samples(sample_ids, self.inputs):
            stored = self._load_stored(order.engine, samples)
            sets = self._questions.load(order.engine, order.scorer_id, samples)
            for each in self._list_questions(files, samples, sets):
                answer = stored.get(each.key)
                is_present = each.is_current_answer(answer)
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
    ) -> Iterator[QuestionToAnswer]:
        # An empty summary answers nothing, whoever is asked.
        chosen = [sample for sample in samples if sample.sample_id in sets and not is_empty_summary(sample.text)]
        digests = self._material.compute_digests(files, chosen)
        if changed := [sample.key for sample in chosen if sample.video_id not in digests]:
            raise self.missing(f"the videos of {len(changed)} samples changed meanwhile, {changed[0]!r} for one")
        for sample in chosen:
            for one in sets[sample.sample_id].values():
                dimension = one.key.dimension
                context = digests[sample.video_id] if dimension in SUMMARY_DIMENSIONS else text_sha256(sample.text)
                for question_id, question in one.kept.items():
                    yield QuestionToAnswer(sample, dimension, question_id, question, context)

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
    sets: SetsBySample, wanted: Sequence[QuestionToAnswer], answers: Mapping[tuple[int, int], StoredAnswer]
) -> tuple[dict[int, AnsweredQuestions], list[int]]:
    """Questions with their answers by sample, and the samples that were not asked any of theirs.

    Where some answers are there, another run changed the questions meanwhile: that is the sample's own trouble.
    """
    given: dict[int, dict[int, StoredAnswer]] = {sample_id: {} for sample_id in sets}
    n_wanted = Counter(each.sample.sample_id for each in wanted)
    for each in wanted:
        if each.is_current_answer(answers.get(each.key)):
            given[each.sample.sample_id][each.question_id] = answers[each.key]
    examined = {
        sample_id: AnsweredQuestions(sets[sample_id], of_sample, n_wanted[sample_id] - len(of_sample))
        for sample_id, of_sample in given.items()
    }
    return examined, [sample_id for sample_id, n in n_wanted.items() if n and not given[sample_id]]
