"""The source of questions, which are written, filtered and stored: about every video once, and about every summary."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, fields, replace
from typing import Any, ClassVar, NamedTuple

from sqlalchemy.engine import Engine

from assets.metrics.qeva.roles import QEVAModelFactory, QEVAModels
from assets.metrics.video_material import CHANGED_VIDEO, UnreadableVideo
from assets.sources.base import Batch, Forecast, Order, Source
from assets.words.text import format_portion
from db.evidence.embeddings import text_sha256
from db.evidence.qeva import FILTER_COLUMNS, Row, load_question_sets, store_filter_results, store_question_sets
from db.evidence.store import Table
from db.schema.inputs import TEXT
from db.scores.pending import PendingSample
from metrics_core.models.chat.protocol import ChatModel
from metrics_core.protocols import ModelIdentity
from metrics_core.qeva import FilterMark, filter_questions, is_empty_summary
from metrics_core.qeva.records import Dimension, Question, QuestionSet, VideoAsFrames, VideoNotes

_VIDEO_DIMENSIONS: tuple[Dimension, ...] = ("coverage", "chronology")
SUMMARY_DIMENSIONS: tuple[Dimension, ...] = ("factuality",)
# The columns of a question that come from the question itself; its set has the dimension.
_QUESTION_FIELDS = tuple(field.name for field in fields(Question) if field.name != "dimension")
_SET_FIELDS = ("n_requested", "n_malformed", "status", "reason")


class _SetKey(NamedTuple):
    """The key of a set of questions: a dimension, and the video or the sample whose text they are about. sample_id:
    None for questions about the video. source_sha256: the digest of what the questions are written from (frames, notes
    or the sample's text).
    """

    dimension: Dimension
    video_id: int
    sample_id: int | None
    source_sha256: bytes


@dataclass(frozen=True, slots=True)
class StoredQuestionSet:
    """A set of questions with their ids and the filter's marks. question_ids, marks: one for every question of
    `question_set`, in order. A mark is the filter's decision with its reasons, or None until the question is filtered.
    """

    question_set: QuestionSet
    question_ids: tuple[int, ...]
    marks: tuple[FilterMark | None, ...]

    def __iter__(self) -> Iterator[tuple[int, Question, FilterMark | None]]:
        """Iterate over (question_id, question, mark) in order."""
        return zip(self.question_ids, self.question_set.questions, self.marks, strict=True)

    @property
    def kept(self) -> dict[int, Question]:
        """The questions that the filter decided to keep, by question_id, in order; {} before it ran."""
        return {number: question for number, question, mark in self if mark is not None and mark.decision == "keep"}

    @property
    def filter_marks(self) -> list[FilterMark]:
        """The marks of the filtered questions, in order; questions without a mark are left out."""
        return [mark for mark in self.marks if mark is not None]

    @property
    def undecided(self) -> dict[int, Question]:
        """The questions that still have to be filtered, by question_id, in order: they have no mark, or the filter
        failed with an error. A question that the filter's model refused stays refused.
        """
        return {number: question for number, question, mark in self if mark is None or mark.failure == "error"}


SetsBySample = Mapping[int, Mapping[str, StoredQuestionSet]]


def _load_sets(engine: Engine, model_id: int, keys: Collection[_SetKey]) -> dict[_SetKey, StoredQuestionSet]:
    videos = {key.video_id for key in keys if key.sample_id is None}
    samples = {key.sample_id for key in keys if key.sample_id is not None}
    with engine.connect() as connection:
        rows = load_question_sets(connection, model_id, videos, samples)
    stored = {
        _SetKey(row["dimension"], row["video_id"], row["sample_id"], bytes(row["source_sha256"])): row for row in rows
    }
    return {key: _build_set(stored[key]) for key in keys if key in stored}


def _build_set(row: Row) -> StoredQuestionSet:
    dimension, rows = row["dimension"], row["questions"]
    return StoredQuestionSet(
        QuestionSet(
            dimension,
            tuple(_build_question(dimension, question) for question in rows),
            **{name: row[name] for name in _SET_FIELDS},
        ),
        tuple(question["question_id"] for question in rows),
        tuple(_build_mark(question) for question in rows),
    )


def _build_question(dimension: Dimension, row: Row) -> Question:
    # JSON has no tuples.
    values: dict[str, Any] = {
        name: tuple(row[name]) if isinstance(row[name], list) else row[name] for name in _QUESTION_FIELDS
    }
    return Question(dimension, **values)


def _build_mark(row: Row) -> FilterMark | None:
    if row["decision"] is None:
        return None
    closed_book, *others = (row[name] for name in FILTER_COLUMNS)
    return FilterMark(tuple(closed_book), *others)


def _store_sets(engine: Engine, model_id: int, run_id: str, sets: Mapping[_SetKey, StoredQuestionSet]) -> None:
    """Store new sets, or the marks of sets that are stored already."""
    written = [
        {
            **key._asdict(),
            **{name: getattr(one.question_set, name) for name in _SET_FIELDS},
            "questions": [
                {name: getattr(question, name) for name in _QUESTION_FIELDS} for question in one.question_set.questions
            ],
        }
        for key, one in sets.items()
        if not one.filter_marks
    ]
    store_question_sets(engine, model_id, run_id, written)
    store_filter_results(
        engine,
        {
            number: dict(zip(FILTER_COLUMNS, astuple(mark), strict=True))
            for one in sets.values()
            for number, _, mark in one
            if mark is not None
        },
    )


class QuestionSource(Source[SetsBySample]):
    """The source of question sets with the filter's decisions; `load` and `ask` return them by sample_id and dimension.
    The samples of a video share the sets about the video; a set about a sample's text is its own. is_wanted: whether
    questions about a sample can be asked; other samples have no entry. Without a database, question ids count from 1.
    """

    asset: ClassVar[str] = "qeva_question"
    description: ClassVar[str] = (
        "Questions about videos and summaries, with their keys and what filtering made of them: coverage and "
        "chronology once per video, factuality once per summary."
    )
    group: ClassVar[str] = "questions"
    reads: ClassVar[tuple[str, ...]] = ("sample", "video", "reference", "keypoint")
    checks: ClassVar[Mapping[str, str]] = {
        "questions_filtered": "Every question is filtered, and kept, dropped or set aside.",
    }
    table: ClassVar[Table[Any, Any]] = Table(_load_sets, _store_sets)
    progress: ClassVar[str] = "questions about {done} of {total} samples written and filtered"
    model_role: ClassVar[str] = "written_by"
    # The frames of their videos are in memory.
    at_a_time: ClassVar[int] = 64

    def __init__(self, factory: QEVAModelFactory, is_wanted: Callable[[PendingSample], bool]) -> None:
        self.inputs = (TEXT, *factory.material.inputs)
        self.material = factory.material
        self._factory = factory
        self.is_wanted = is_wanted

    @property
    def model(self) -> ModelIdentity:
        """The joint identity of all models that write and filter questions: their names, joined, and a hash of their
        identities.
        """
        return self._factory.make_models(None).question_identity

    @property
    def chat_models(self) -> Collection[ChatModel]:
        """The chat models that have a role of QEVA."""
        return self._factory.chat_models

    @property
    def asks_servers(self) -> bool:
        """Whether a server makes the evidence: a chat model has a role of QEVA, or the text encoder is a server's."""
        return self._factory.asks_servers

    def keys(self, batch: Batch) -> Iterator[_SetKey]:
        """Yield the keys of the sets that the samples need; those about a video come for every sample of it. An empty
        summary has no set about its text. Raises MissingEvidence if a video has changed meanwhile.
        """
        chosen = [sample for sample in batch.samples if self.is_wanted(sample)]
        digests = self.material.require_digests(batch.files, chosen, self.missing)
        for sample in chosen:
            for dimension in _VIDEO_DIMENSIONS:
                yield _SetKey(dimension, sample.video_id, None, digests[sample.video_id])
            if not is_empty_summary(sample.text):
                for dimension in SUMMARY_DIMENSIONS:
                    yield _SetKey(dimension, sample.video_id, sample.sample_id, text_sha256(sample.text))

    def compute(self, keys: Sequence[_SetKey], batch: Batch) -> Iterator[Mapping[_SetKey, StoredQuestionSet]]:
        """Let models write the sets that are missing or have the status `error`, and yield them. Then filter the
        questions without a decision, and yield the sets that had any, one dimension at a time. A set that cannot be
        written has status and reason, no questions; a stored question whose video cannot be shown gets the decision
        `error`.
        """
        models = self._factory.make_models(batch)
        videos = {key.video_id for key in keys if key.sample_id is None}
        shown = dict.fromkeys(videos, CHANGED_VIDEO) | dict(self.material.load(batch.files, batch.samples, videos))
        texts = {sample.sample_id: sample.text for sample in batch.samples}
        sources = {key: shown[key.video_id] if key.sample_id is None else texts[key.sample_id] for key in keys}
        stored = batch.store.load(keys)
        missing = [key for key in keys if key not in stored or stored[key].question_set.status == "error"]
        if written := _write_sets(models, missing, sources):
            batch.counts["sets_written"] += len(written)
            yield written
            stored = batch.store.load(keys)
        for dimension in (*_VIDEO_DIMENSIONS, *SUMMARY_DIMENSIONS):
            undecided = {key: one for key, one in stored.items() if key.dimension == dimension and one.undecided}
            if undecided:
                batch.counts["questions_filtered"] += sum(len(one.undecided) for one in undecided.values())
                yield _filter_sets(models, dimension, undecided, sources)

    def is_final(self, value: StoredQuestionSet) -> bool:
        """Whether a set was written, and all of its questions are filtered."""
        return value.question_set.status != "error" and not value.undecided

    def gather(self, values: Mapping[_SetKey, StoredQuestionSet], batch: Batch) -> SetsBySample:
        """Return the sets by sample_id and dimension."""
        sets = {(key.video_id, key.sample_id, key.dimension): one for key, one in values.items()}
        places = {
            sample.sample_id: [
                *((sample.video_id, None, dimension) for dimension in _VIDEO_DIMENSIONS),
                *((sample.video_id, sample.sample_id, dimension) for dimension in SUMMARY_DIMENSIONS),
            ]
            for sample in filter(self.is_wanted, batch.samples)
        }
        return {
            sample_id: {place[2]: sets[place] for place in own if place in sets} for sample_id, own in places.items()
        }

    def estimate(self, keys: Sequence[_SetKey]) -> Sequence[Forecast]:
        """Estimate the requests to write and filter these sets, by role; [] without chat models."""
        return self._factory.forecast_questions(
            n_videos=sum(key.dimension == _VIDEO_DIMENSIONS[0] for key in keys),
            n_summaries=sum(key.sample_id is not None for key in keys),
        )

    def count(self, values: Mapping[_SetKey, StoredQuestionSet]) -> Mapping[str, int]:
        """Return zeros: `compute` counts the sets that it writes, and the questions that it filters."""
        return {"sets_written": 0, "questions_filtered": 0}

    def require_all(self, keys: Sequence[_SetKey], values: Mapping[_SetKey, StoredQuestionSet]) -> None:
        """Raise MissingEvidence if a set is not stored, or a question was never filtered."""
        if absent := [key for key in keys if key not in values or None in values[key].marks]:
            lack = "not stored or not filtered"
            raise self.missing(format_portion(len(absent), len(keys), "question set", f"is {lack}", f"are {lack}"))

    def measure(self, keys: Sequence[_SetKey], batch: Batch) -> Mapping[str, int]:
        """Return counts of questions, unfiltered, kept and set_aside ones, and sets without questions. A set that is
        not stored is passed over.
        """
        stored = batch.store.load(keys).values()
        decisions = Counter(mark and mark.decision for one in stored for mark in one.marks)
        return {
            "questions": decisions.total(),
            "unfiltered": decisions[None],
            "kept": decisions["keep"],
            "set_aside": decisions["error"],
            "sets_without_questions": sum(one.question_set.status != "ok" for one in stored),
        }

    def judge_counts(self, counts: Mapping[str, int]) -> Mapping[str, bool]:
        """Return whether all stored questions about the shard's samples are filtered."""
        return {"questions_filtered": counts["unfiltered"] == 0}

    def make(self, order: Order, sample_ids: list[int]) -> Mapping[str, int | str]:
        """Make the sets that the samples lack, as `Source.make`; warnings about the choice of models go to the order's
        `tell`.
        """
        for warning in self._factory.warnings:
            order.tell(f"warning: {warning}")
        return super().make(order, sample_ids)

    def try_out(self) -> str:
        """Ask one small question of the models that filter questions, and return their answers as a line of text.
        Raises ModelUnusable if a model gives none.
        """
        models = self._factory.make_models(None)
        return models.try_out(models.summary_filter, models.video_filter)


# What the questions of a set are written from, or why there is nothing to show.
_Material = str | VideoAsFrames | VideoNotes | UnreadableVideo


def _write_sets(
    models: QEVAModels, keys: Sequence[_SetKey], sources: Mapping[_SetKey, _Material]
) -> dict[_SetKey, StoredQuestionSet]:
    sets: dict[_SetKey, QuestionSet] = {}
    writers: Mapping[Dimension, Callable[[Any], list[QuestionSet]]] = {
        "coverage": models.video_examiner.compose_coverage_questions,
        "chronology": models.video_examiner.compose_chronology_questions,
        "factuality": models.summary_examiner.compose_factuality_questions,
    }
    for dimension, write in writers.items():
        readable = []
        for key in keys:
            if key.dimension == dimension:
                source = sources[key]
                if isinstance(source, UnreadableVideo):
                    sets[key] = QuestionSet(dimension, status=source.status, reason=source.reason)
                else:
                    readable.append(key)
        if readable:
            sets |= zip(readable, write([sources[key] for key in readable]), strict=True)
    numbers = itertools.count(1)
    return {
        key: StoredQuestionSet(one, tuple(itertools.islice(numbers, n := len(one.questions))), (None,) * n)
        for key, one in sets.items()
    }


def _filter_sets(
    models: QEVAModels,
    dimension: Dimension,
    sets: Mapping[_SetKey, StoredQuestionSet],
    sources: Mapping[_SetKey, _Material],
) -> dict[_SetKey, StoredQuestionSet]:
    """Return the sets of one dimension with the filter's marks on their undecided questions. A question whose video
    cannot be shown is marked with decision "error" and the reason.
    """
    marks: dict[int, FilterMark] = {}
    asked: dict[int, tuple[Question, Any]] = {}
    for key, one in sets.items():
        source = sources[key]
        for number, question in one.undecided.items():
            if isinstance(source, UnreadableVideo):
                marks[number] = FilterMark((), None, "error", source.reason, source.status)
            else:
                asked[number] = question, source
    answerer = models.choose_filter(dimension)
    filtered = filter_questions(list(asked.values()), answerer, answerer, models.matcher, models.votes)
    marks |= zip(asked, filtered, strict=True)
    return {
        key: replace(one, marks=tuple(marks.get(number, mark) for number, _, mark in one)) for key, one in sets.items()
    }
