"""The source of questions, which are written, filtered and stored: about every video once, and about every summary."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, ClassVar

from sqlalchemy.engine import Connection, Engine

from assets.metrics.qeva.roles import QEVAModelFactory, QEVAModels
from assets.metrics.video_material import CHANGED_VIDEO, UnreadableVideo, VideoMaterial
from assets.sources.base import Evidence, Examination, Forecast, Order, Source
from assets.words.text import format_portion
from db.evidence.embeddings import text_sha256
from db.evidence.frames import LoadVideos, make_video_loader
from db.evidence.models import register_model
from db.evidence.qeva import FILTER_COLUMNS, Row, load_question_sets, store_filter_results, store_question_sets
from db.schema.inputs import TEXT
from db.scores.pending import PendingSample, list_shard_samples
from metrics_core.protocols import ModelIdentity
from metrics_core.qeva import FilterMark, filter_questions, is_empty_summary
from metrics_core.qeva.records import Context, Dimension, Question, QuestionSet, VideoAsFrames, VideoNotes

VIDEO_DIMENSIONS: tuple[Dimension, ...] = ("coverage", "chronology")
SUMMARY_DIMENSIONS: tuple[Dimension, ...] = ("factuality",)
# Samples whose questions are written and filtered between two looks at the database; their frames are in memory.
SAMPLES_AT_A_TIME = 64
# The columns of a question that come from the question itself; its set has the dimension.
_QUESTION_FIELDS = tuple(field.name for field in fields(Question) if field.name != "dimension")


@dataclass(frozen=True, slots=True)
class QuestionSetKey:
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

    key: QuestionSetKey
    question_set: QuestionSet
    question_ids: tuple[int, ...]
    marks: tuple[FilterMark | None, ...]

    @classmethod
    def build(cls, row: Row) -> StoredQuestionSet:
        """Build the set from a row, with its questions, that `load_question_sets` read from the database."""
        dimension, rows = row["dimension"], row["questions"]
        return cls(
            QuestionSetKey(dimension, row["video_id"], row["sample_id"], bytes(row["source_sha256"])),
            QuestionSet(
                dimension,
                tuple(_build_question(dimension, question) for question in rows),
                row["n_requested"],
                row["n_malformed"],
                row["status"],
                row["reason"],
            ),
            tuple(question["question_id"] for question in rows),
            tuple(_build_mark(question) for question in rows),
        )

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


SetsBySample = Mapping[int, Mapping[str, StoredQuestionSet]]


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


def _build_mark_row(mark: FilterMark) -> Row:
    return dict(
        zip(FILTER_COLUMNS, (mark.closed_book, mark.open_book, mark.decision, mark.reason, mark.failure), strict=True)
    )


def _build_set_row(key: QuestionSetKey, question_set: QuestionSet) -> Row:
    return {
        **asdict(key),
        **{name: getattr(question_set, name) for name in ("n_requested", "n_malformed", "status", "reason")},
        "questions": [
            {name: getattr(question, name) for name in _QUESTION_FIELDS} for question in question_set.questions
        ],
    }


def _load_current_sets(
    connection: Connection, model_id: int, keys: Collection[QuestionSetKey]
) -> dict[QuestionSetKey, StoredQuestionSet]:
    """Load the question sets with these keys that were stored under a model's id, by key; a key without a set is left
    out. The digest in the key must match: a set that was written from an older video or text is not returned. model_id:
    the id of the joint identity of QEVA's question models.
    """
    videos = {key.video_id for key in keys if key.sample_id is None}
    samples = {key.sample_id for key in keys if key.sample_id is not None}
    stored = map(StoredQuestionSet.build, load_question_sets(connection, model_id, videos, samples))
    by_key = {question_set.key: question_set for question_set in stored}
    return {key: by_key[key] for key in keys if key in by_key}


def _is_incomplete(stored: StoredQuestionSet | None) -> bool:
    """Whether a question set is missing (None) or could not be written because of an error, or one of its questions
    still has to be filtered.
    """
    return stored is None or stored.question_set.status == "error" or any(map(_is_undecided, stored.marks))


def _is_undecided(mark: FilterMark | None) -> bool:
    """Whether a question still has to be filtered: it has no mark, or the filter failed with an error. A question that
    the filter's model refused stays refused.
    """
    return mark is None or mark.failure == "error"


@dataclass
class _QuestionRound:
    """Writes and filters the questions about one batch of samples by asking models, and stores nothing. material: the
    form in which models are shown a video. files: returns the video files for a set of video ids. video_content: what
    models are shown of the videos read so far; a video is read once, when it is needed.
    """

    models: QEVAModels
    material: VideoMaterial
    files: LoadVideos
    samples: Sequence[PendingSample]
    video_content: dict[int, VideoAsFrames | VideoNotes | UnreadableVideo] = field(default_factory=dict)

    def write_sets(self, keys: Collection[QuestionSetKey]) -> list[tuple[QuestionSetKey, QuestionSet]]:
        """Let the models write the sets with these keys; return (key, set) pairs, grouped by dimension. A set whose
        video cannot be shown, or that a model failed to write, has no questions but a status and a reason.
        """
        return [
            pair
            for dimension in (*VIDEO_DIMENSIONS, *SUMMARY_DIMENSIONS)
            for pair in self._write_dimension(dimension, keys)
        ]

    def compute_marks(
        self, dimension: Dimension, questions: Sequence[tuple[QuestionSetKey, int, Question]]
    ) -> dict[int, FilterMark]:
        """Let the filter's model decide which questions of one dimension to keep; return the marks by number.
        questions: (key of the set, number of the question, question). A question whose video cannot be shown is marked
        with decision "error" and the reason.
        """
        self._load_videos(key for key, _, _ in questions)
        marks = {
            number: FilterMark((), None, "error", why.reason, "refused" if why.is_final else "error")
            for key, number, _ in questions
            if isinstance(why := self._find_source(key), UnreadableVideo)
        }
        readable = [question for question in questions if self._find_context(question[0]) is not None]
        asked = [(question, self._find_context(key)) for key, _, question in readable]
        answerer = self.models.choose_filter(dimension)
        filtered = filter_questions(asked, answerer, answerer, self.models.matcher, self.models.votes)
        return marks | {number: mark for (_, number, _), mark in zip(readable, filtered, strict=True)}

    def _write_dimension(
        self, dimension: Dimension, keys: Collection[QuestionSetKey]
    ) -> list[tuple[QuestionSetKey, QuestionSet]]:
        dimension_keys = [key for key in keys if key.dimension == dimension]
        self._load_videos(dimension_keys)
        unreadable = [
            (key, _build_unreadable_set(key, why))
            for key in dimension_keys
            if isinstance(why := self._find_source(key), UnreadableVideo)
        ]
        readable = [key for key in dimension_keys if self._find_context(key) is not None]
        sources = [self._find_context(key) for key in readable]
        write = {
            "coverage": self.models.video_examiner.compose_coverage_questions,
            "chronology": self.models.video_examiner.compose_chronology_questions,
            "factuality": self.models.summary_examiner.compose_factuality_questions,
        }[dimension]
        # An examiner gets the sources of its own dimension.
        sets = write(sources) if sources else []  # type: ignore[operator]
        return [*unreadable, *zip(readable, sets, strict=True)]

    def _find_source(self, key: QuestionSetKey) -> str | VideoAsFrames | VideoNotes | UnreadableVideo:
        if key.sample_id is None:
            return self.video_content[key.video_id]
        return next(sample.text for sample in self.samples if sample.sample_id == key.sample_id)

    def _find_context(self, key: QuestionSetKey) -> Context:
        source = self._find_source(key)
        return None if isinstance(source, UnreadableVideo) else source

    def _load_videos(self, keys: Iterable[QuestionSetKey]) -> None:
        unseen = {key.video_id for key in keys if key.sample_id is None} - self.video_content.keys()
        if unseen:
            self.video_content |= dict.fromkeys(unseen, CHANGED_VIDEO)
            self.video_content |= self.material.load(self.files, self.samples, unseen)


@dataclass(frozen=True)
class QuestionWriter:
    """Writes, filters and stores the question sets of one batch of samples. order: the work to do, with database and
    run. model_id: the id of the models that the sets are stored under. question_round: asks the models.
    """

    order: Order
    model_id: int
    question_round: _QuestionRound

    def write(self, keys: Collection[QuestionSetKey]) -> int:
        """Let models write the sets with these keys that are missing or failed with an error, and store them; return
        their number.
        """
        stored = self._load_stored(keys)
        missing = [key for key in keys if key not in stored or stored[key].question_set.status == "error"]
        rows = [_build_set_row(key, question_set) for key, question_set in self.question_round.write_sets(missing)]
        store_question_sets(self.order.engine, self.model_id, self.order.run_id, rows)
        return len(rows)

    def filter(self, keys: Collection[QuestionSetKey]) -> int:
        """Let the filter's model decide on the stored questions of these sets that have no decision, or whose filtering
        failed with an error; store the marks. Return the number of these questions. A key without a stored set is left
        out.
        """
        undecided_by_dimension: dict[Dimension, list[tuple[QuestionSetKey, int, Question]]] = {}
        for key, stored in self._load_stored(keys).items():
            undecided = [(key, number, question) for number, question, mark in stored if _is_undecided(mark)]
            undecided_by_dimension.setdefault(key.dimension, []).extend(undecided)
        for dimension, questions in undecided_by_dimension.items():
            marks = self.question_round.compute_marks(dimension, questions)
            store_filter_results(self.order.engine, {number: _build_mark_row(mark) for number, mark in marks.items()})
        return sum(map(len, undecided_by_dimension.values()))

    def _load_stored(self, keys: Collection[QuestionSetKey]) -> dict[QuestionSetKey, StoredQuestionSet]:
        with self.order.engine.connect() as connection:
            return _load_current_sets(connection, self.model_id, keys)


def _build_unreadable_set(key: QuestionSetKey, why: UnreadableVideo) -> QuestionSet:
    return QuestionSet(key.dimension, status="refused" if why.is_final else "error", reason=why.reason)


class QuestionSource(Source[SetsBySample]):
    """The source of question sets with the filter's marks; `load` and `ask` return them by sample_id and dimension. The
    samples of a video share the sets about the video; a set about a sample's text is its own. is_wanted: whether
    questions about a sample can be asked; other samples have no entry.
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

    def __init__(self, factory: QEVAModelFactory, is_wanted: Callable[[PendingSample], bool]) -> None:
        self.inputs = (TEXT, *factory.material.inputs)
        self.material = factory.material
        self._make_models = factory.make_models
        self._factory = factory
        self.is_wanted = is_wanted

    @property
    def model(self) -> ModelIdentity:
        """The joint identity of all models that write and filter questions: their names, joined, and a hash of their
        identities.
        """
        return self._make_models(None).question_identity

    @property
    def asks_servers(self) -> bool:
        """Whether a server makes the evidence: a chat model has a role of QEVA, or the text encoder is a server's."""
        return self._factory.asks_servers

    def make(self, order: Order, sample_ids: list[int]) -> Mapping[str, int | str]:
        """Let models write the question sets that these samples lack and filter their questions; store both, 64 samples
        at a time. Return counts by name, such as sets_written, questions_filtered and tokens, and the names of the
        models. Warnings about the choice of models go to the order's `tell`.
        """
        counts: Counter[str] = Counter(sets_written=0, questions_filtered=0)
        models = self._make_models(order)
        for warning in models.warnings:
            order.tell(f"warning: {warning}")
        with order.engine.begin() as connection:
            model_id = register_model(connection, models.question_identity.as_dict())
        done = 0
        for samples in order.samples(sample_ids, self.inputs, SAMPLES_AT_A_TIME):
            files = make_video_loader(order.engine)
            writer = QuestionWriter(order, model_id, _QuestionRound(models, self.material, files, samples))
            keys = self._list_set_keys(files, samples)
            counts["sets_written"] += writer.write(keys)
            counts["questions_filtered"] += writer.filter(keys)
            done += len(samples)
            order.tell(f"questions about {done} of {len(sample_ids)} samples written and filtered")
        return {**counts, **models.tally.as_metadata(), "written_by": models.question_identity.model_id}

    def load(self, engine: Engine, scorer_id: int, samples: Sequence[PendingSample]) -> SetsBySample:
        """Load the question sets of the samples that can be asked about, by sample_id and dimension. Raises
        MissingEvidence if a set is not stored, a question was never filtered, or a video has changed. An empty summary
        has no set about its text.
        """
        keys = self._list_set_keys(make_video_loader(engine), samples)
        stored = self._load_stored(engine, keys)
        if absent := [key for key in keys if key not in stored or None in stored[key].marks]:
            lack = "not stored or not filtered"
            raise self.missing(format_portion(len(absent), len(keys), "question set", f"is {lack}", f"are {lack}"))
        return self._group_by_sample(samples, stored)

    def ask(self, samples: Sequence[PendingSample], files: LoadVideos, below: Evidence) -> SetsBySample:
        """Let models write and filter the question sets of the samples now; return them by sample_id and dimension,
        with question ids counted from 1. Stores nothing. files: returns the video files for a set of video ids. `below`
        is not used.
        """
        question_round = _QuestionRound(self._make_models(None), self.material, files, samples)
        numbers = itertools.count(1)
        sets: dict[QuestionSetKey, StoredQuestionSet] = {}
        for key, question_set in question_round.write_sets(self._list_set_keys(files, samples)):
            asked = [(key, next(numbers), question) for question in question_set.questions]
            marks = question_round.compute_marks(key.dimension, asked)
            sets[key] = StoredQuestionSet(key, question_set, tuple(marks), tuple(marks.values()))
        return self._group_by_sample(samples, sets)

    def _group_by_sample(
        self, samples: Sequence[PendingSample], stored: Mapping[QuestionSetKey, StoredQuestionSet]
    ) -> SetsBySample:
        sets = {(key.video_id, key.sample_id, key.dimension): question_set for key, question_set in stored.items()}
        return {
            sample.sample_id: {
                dimension: sets[place]
                for dimension in (*VIDEO_DIMENSIONS, *SUMMARY_DIMENSIONS)
                if (
                    place := (sample.video_id, sample.sample_id if dimension in SUMMARY_DIMENSIONS else None, dimension)
                )
                in sets
            }
            for sample in filter(self.is_wanted, samples)
        }

    def try_out(self) -> str:
        """Ask one small question of the models that filter questions, and return their answers as a line of text.
        Raises ModelUnusable if a model gives none.
        """
        models = self._make_models(None)
        return models.try_out(models.summary_filter, models.video_filter)

    def forecast(self, order: Order, sample_ids: list[int]) -> Sequence[Forecast]:
        """Estimate the requests to write and filter the question sets that these samples lack, by role; [] without chat
        models. A video's sets count once for all its samples. Asks no model and stores nothing.
        """
        missing: set[QuestionSetKey] = set()
        for samples in order.samples(sample_ids, self.inputs):
            keys = self._list_set_keys(make_video_loader(order.engine), samples)
            stored = self._load_stored(order.engine, keys)
            missing |= {key for key in keys if _is_incomplete(stored.get(key))}
        return self._factory.forecast_questions(
            n_videos=sum(key.dimension == VIDEO_DIMENSIONS[0] for key in missing),
            n_summaries=sum(key.sample_id is not None for key in missing),
        )

    def examine(self, order: Order) -> Examination:
        """Check questions_filtered: all stored questions about the shard's samples have a mark of the filter. Counts
        questions, unfiltered, kept and set_aside ones, and sets without questions. A set that is not stored is passed
        over.
        """
        with order.engine.connect() as connection:
            sample_ids = list_shard_samples(connection, order.dataset.dataset_id, order.shard)
        counts: Counter[str] = Counter(questions=0, unfiltered=0, kept=0, set_aside=0, sets_without_questions=0)
        seen: set[QuestionSetKey] = set()
        files = make_video_loader(order.engine)
        for samples in order.samples(sample_ids, self.inputs):
            for key, stored in self._load_stored(order.engine, self._list_set_keys(files, samples)).items():
                if key not in seen:
                    decisions = Counter(mark and mark.decision for mark in stored.marks)
                    counts.update(
                        questions=len(stored.marks),
                        unfiltered=decisions[None],
                        kept=decisions["keep"],
                        set_aside=decisions["error"],
                        sets_without_questions=stored.question_set.status != "ok",
                    )
                seen.add(key)
        return Examination({"questions_filtered": counts["unfiltered"] == 0}, dict(counts))

    def _list_set_keys(self, files: LoadVideos, samples: Sequence[PendingSample]) -> list[QuestionSetKey]:
        """Return the keys of the sets that the samples need, every key once.

        Raises MissingEvidence if a video has changed meanwhile.
        """
        chosen = [sample for sample in samples if self.is_wanted(sample)]
        digests = self.material.require_digests(files, chosen, self.missing)
        keys: dict[QuestionSetKey, None] = {}
        for sample in chosen:
            keys |= {
                QuestionSetKey(dimension, sample.video_id, None, digests[sample.video_id]): None
                for dimension in VIDEO_DIMENSIONS
            }
            if not is_empty_summary(sample.text):
                digest = text_sha256(sample.text)
                keys |= {
                    QuestionSetKey(dimension, sample.video_id, sample.sample_id, digest): None
                    for dimension in SUMMARY_DIMENSIONS
                }
        return list(keys)

    def _load_stored(self, engine: Engine, wanted: Sequence[QuestionSetKey]) -> dict[QuestionSetKey, StoredQuestionSet]:
        with engine.connect() as connection:
            model_id = self.model_id(connection)
            return {} if model_id is None else _load_current_sets(connection, model_id, wanted)
