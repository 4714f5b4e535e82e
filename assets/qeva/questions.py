"""Questions: about each video once for all systems, and about each summary; written, filtered and stored."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, ClassVar

from sqlalchemy.engine import Connection, Engine

from assets.qeva.roles import QEVAModelFactory, QEVAModels
from assets.qeva.video_material import CHANGED_VIDEO, UnreadableVideo, VideoMaterial
from assets.sources.base import Evidence, Examination, Forecast, Order, Source
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
# The columns of a question that come from the question itself; the dimension stands in its set.
_QUESTION_FIELDS = tuple(each.name for each in fields(Question) if each.name != "dimension")


@dataclass(frozen=True, slots=True)
class QuestionSetKey:
    """A set of questions: about a video, or about the text of a sample where one is named."""

    dimension: Dimension
    video_id: int
    sample_id: int | None
    source_sha256: bytes


@dataclass(frozen=True, slots=True)
class StoredQuestionSet:
    """A stored set. question_ids, marks: of each question, in order; a mark is None before the question is filtered."""

    key: QuestionSetKey
    question_set: QuestionSet
    question_ids: tuple[int, ...]
    marks: tuple[FilterMark | None, ...]

    @classmethod
    def build(cls, row: Row) -> StoredQuestionSet:
        """Read a row of `load_question_sets`."""
        dimension, rows = row["dimension"], row["questions"]
        return cls(
            QuestionSetKey(dimension, row["video_id"], row["sample_id"], bytes(row["source_sha256"])),
            QuestionSet(
                dimension,
                tuple(_build_question(dimension, each) for each in rows),
                row["n_requested"],
                row["n_malformed"],
                row["status"],
                row["reason"],
            ),
            tuple(each["question_id"] for each in rows),
            tuple(_build_mark(each) for each in rows),
        )

    def __iter__(self) -> Iterator[tuple[int, Question, FilterMark | None]]:
        """Give question_id, question and mark of each question."""
        return zip(self.question_ids, self.question_set.questions, self.marks, strict=True)

    @property
    def kept(self) -> dict[int, Question]:
        """The questions that filtering kept, by question_id, in order."""
        return {number: question for number, question, mark in self if mark is not None and mark.decision == "keep"}

    @property
    def filter_marks(self) -> list[FilterMark]:
        """The marks of the questions that are filtered, in order."""
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


def _build_set_row(key: QuestionSetKey, written: QuestionSet) -> Row:
    return {
        **asdict(key),
        **{name: getattr(written, name) for name in ("n_requested", "n_malformed", "status", "reason")},
        "questions": [{name: getattr(each, name) for name in _QUESTION_FIELDS} for each in written.questions],
    }


def load_current_sets(
    connection: Connection, model_id: int, wanted: Collection[QuestionSetKey]
) -> dict[QuestionSetKey, StoredQuestionSet]:
    """Load the wanted sets that are stored, written from what is there now."""
    videos = {key.video_id for key in wanted if key.sample_id is None}
    samples = {key.sample_id for key in wanted if key.sample_id is not None}
    found = map(StoredQuestionSet.build, load_question_sets(connection, model_id, videos, samples))
    by_key = {one.key: one for one in found}
    return {key: by_key[key] for key in wanted if key in by_key}


def is_incomplete(one: StoredQuestionSet | None) -> bool:
    """Whether there is something left to write or to filter: a set that is missing, or that an error prevented."""
    return one is None or one.question_set.status == "error" or any(map(is_undecided, one.marks))


def is_undecided(mark: FilterMark | None) -> bool:
    """Whether filtering is still to come, or did not get a reply; what a model refused stays refused."""
    return mark is None or mark.failure == "error"


@dataclass
class QuestionRound:
    """Writes and filters questions about a batch of samples; a video is read once, and only where it is needed."""

    models: QEVAModels
    material: VideoMaterial
    files: LoadVideos
    samples: Sequence[PendingSample]
    video_content: dict[int, VideoAsFrames | VideoNotes | UnreadableVideo] = field(default_factory=dict)

    def write_sets(self, keys: Collection[QuestionSetKey]) -> list[tuple[QuestionSetKey, QuestionSet]]:
        """Write these sets."""
        return [
            pair
            for dimension in (*VIDEO_DIMENSIONS, *SUMMARY_DIMENSIONS)
            for pair in self._write_dimension(dimension, keys)
        ]

    def compute_marks(
        self, dimension: Dimension, questions: Sequence[tuple[QuestionSetKey, int, Question]]
    ) -> dict[int, FilterMark]:
        """What the filter says of these questions of a dimension, by number; nothing can be said without a source."""
        self._load_videos(key for key, _, _ in questions)
        marks = {
            number: FilterMark((), None, "error", why.reason, "refused" if why.is_final else "error")
            for key, number, _ in questions
            if isinstance(why := self._find_source(key), UnreadableVideo)
        }
        readable = [each for each in questions if self._find_context(each[0]) is not None]
        asked = [(question, self._find_context(key)) for key, _, question in readable]
        answerer = self.models.choose_filter(dimension)
        filtered = filter_questions(asked, answerer, answerer, self.models.matcher, self.models.votes)
        return marks | {number: mark for (_, number, _), mark in zip(readable, filtered, strict=True)}

    def _write_dimension(
        self, dimension: Dimension, wanted: Collection[QuestionSetKey]
    ) -> list[tuple[QuestionSetKey, QuestionSet]]:
        keys = [key for key in wanted if key.dimension == dimension]
        self._load_videos(keys)
        unreadable = [
            (key, _build_unreadable_set(key, why))
            for key in keys
            if isinstance(why := self._find_source(key), UnreadableVideo)
        ]
        readable = [key for key in keys if self._find_context(key) is not None]
        sources = [self._find_context(key) for key in readable]
        write = {
            "coverage": self.models.video_examiner.compose_coverage_questions,
            "chronology": self.models.video_examiner.compose_chronology_questions,
            "factuality": self.models.summary_examiner.compose_factuality_questions,
        }[dimension]
        sets = write(sources) if sources else []  # type: ignore[operator]  # each is given what it asks about
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
    """Stores the question sets of a round, and what filtering makes of them."""

    order: Order
    model_id: int
    question_round: QuestionRound

    def write(self, wanted: Collection[QuestionSetKey]) -> int:
        """Write and store the sets that are missing, or that an error prevented; returns how many."""
        stored = self._load_stored(wanted)
        missing = [key for key in wanted if key not in stored or stored[key].question_set.status == "error"]
        rows = [_build_set_row(key, one) for key, one in self.question_round.write_sets(missing)]
        store_question_sets(self.order.engine, self.model_id, self.order.run_id, rows)
        return len(rows)

    def filter(self, wanted: Collection[QuestionSetKey]) -> int:
        """Filter the questions that have no decision yet, or that an error set aside; returns how many."""
        todo: dict[Dimension, list[tuple[QuestionSetKey, int, Question]]] = {}
        for key, one in self._load_stored(wanted).items():
            undecided = [(key, number, question) for number, question, mark in one if is_undecided(mark)]
            todo.setdefault(key.dimension, []).extend(undecided)
        for dimension, questions in todo.items():
            marks = self.question_round.compute_marks(dimension, questions)
            store_filter_results(self.order.engine, {number: _build_mark_row(mark) for number, mark in marks.items()})
        return sum(map(len, todo.values()))

    def _load_stored(self, wanted: Collection[QuestionSetKey]) -> dict[QuestionSetKey, StoredQuestionSet]:
        with self.order.engine.connect() as connection:
            return load_current_sets(connection, self.model_id, wanted)


def _build_unreadable_set(key: QuestionSetKey, why: UnreadableVideo) -> QuestionSet:
    return QuestionSet(key.dimension, status="refused" if why.is_final else "error", reason=why.reason)


class QuestionSource(Source[SetsBySample]):
    """The question sets of each sample, by dimension: of its video, shared by all systems, and of its own text."""

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
        """All that write and filter questions."""
        return self._make_models(None).question_identity

    @property
    def asks_servers(self) -> bool:
        """Whether some role is a chat model's, or the encoder is a server's."""
        return self._factory.asks_servers

    def make(self, order: Order, sample_ids: list[int]) -> Mapping[str, int | str]:
        """Write the sets that are missing, filter their questions, and store both, some samples at a time."""
        counts: Counter[str] = Counter(sets_written=0, questions_filtered=0)
        panel = self._make_models(order)
        for warning in panel.warnings:
            order.tell(f"warning: {warning}")
        with order.engine.begin() as connection:
            model_id = register_model(connection, panel.question_identity.as_dict())
        done = 0
        for samples in order.samples(sample_ids, self.inputs, SAMPLES_AT_A_TIME):
            files = make_video_loader(order.engine)
            writer = QuestionWriter(order, model_id, QuestionRound(panel, self.material, files, samples))
            wanted = self._list_set_keys(files, samples)
            counts["sets_written"] += writer.write(wanted)
            counts["questions_filtered"] += writer.filter(wanted)
            done += len(samples)
            order.tell(f"questions about {done} of {len(sample_ids)} samples")
        return {**counts, **panel.tally.as_metadata(), "written_by": panel.question_identity.model_id}

    def load(self, engine: Engine, scorer_id: int, samples: Sequence[PendingSample]) -> SetsBySample:
        """The sets of each wanted sample, by sample_id and dimension; MissingEvidence where one is not there."""
        wanted = self._list_set_keys(make_video_loader(engine), samples)
        stored = self._load_stored(engine, wanted)
        if absent := [key for key in wanted if key not in stored or None in stored[key].marks]:
            raise self.missing(f"{len(absent)} of {len(wanted)} question sets are not there or not filtered")
        return self._group_by_sample(samples, stored)

    def ask(self, samples: Sequence[PendingSample], files: LoadVideos, below: Evidence) -> SetsBySample:
        """Write and filter the sets of the samples."""
        one_round = QuestionRound(self._make_models(None), self.material, files, samples)
        numbers = itertools.count(1)
        sets: dict[QuestionSetKey, StoredQuestionSet] = {}
        for key, written in one_round.write_sets(self._list_set_keys(files, samples)):
            asked = [(key, next(numbers), question) for question in written.questions]
            marks = one_round.compute_marks(key.dimension, asked)
            sets[key] = StoredQuestionSet(key, written, tuple(marks), tuple(marks.values()))
        return self._group_by_sample(samples, sets)

    def _group_by_sample(
        self, samples: Sequence[PendingSample], stored: Mapping[QuestionSetKey, StoredQuestionSet]
    ) -> SetsBySample:
        sets = {(key.video_id, key.sample_id, key.dimension): one for key, one in stored.items()}
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
        """Have the filters answer a question."""
        panel = self._make_models(None)
        return panel.try_out(panel.summary_filter, panel.video_filter)

    def forecast(self, order: Order, sample_ids: list[int]) -> Sequence[Forecast]:
        """The calls for the sets that are missing: those of a video once for all its summaries."""
        missing: set[QuestionSetKey] = set()
        for samples in order.samples(sample_ids, self.inputs):
            wanted = self._list_set_keys(make_video_loader(order.engine), samples)
            stored = self._load_stored(order.engine, wanted)
            missing |= {key for key in wanted if is_incomplete(stored.get(key))}
        return self._factory.forecast_questions(
            n_videos=sum(key.dimension == VIDEO_DIMENSIONS[0] for key in missing),
            n_summaries=sum(key.sample_id is not None for key in missing),
        )

    def examine(self, order: Order) -> Examination:
        """Whether all questions about the shard's samples are filtered."""
        with order.engine.connect() as connection:
            sample_ids = list_shard_samples(connection, order.dataset.dataset_id, order.shard)
        counts: Counter[str] = Counter(questions=0, unfiltered=0, kept=0, set_aside=0, sets_without_questions=0)
        seen: set[QuestionSetKey] = set()
        files = make_video_loader(order.engine)
        for samples in order.samples(sample_ids, self.inputs):
            for key, one in self._load_stored(order.engine, self._list_set_keys(files, samples)).items():
                if key not in seen:
                    decisions = Counter(mark and mark.decision for mark in one.marks)
                    counts.update(
                        questions=len(one.marks),
                        unfiltered=decisions[None],
                        kept=decisions["keep"],
                        set_aside=decisions["error"],
                        sets_without_questions=one.question_set.status != "ok",
                    )
                seen.add(key)
        return Examination({"questions_filtered": counts["unfiltered"] == 0}, dict(counts))

    def _list_set_keys(self, files: LoadVideos, samples: Sequence[PendingSample]) -> list[QuestionSetKey]:
        """The sets that the samples need, every set once. MissingEvidence where a video has changed meanwhile."""
        chosen = [sample for sample in samples if self.is_wanted(sample)]
        digests = self.material.compute_digests(files, chosen)
        if changed := [sample.key for sample in chosen if sample.video_id not in digests]:
            raise self.missing(f"the videos of {len(changed)} samples changed meanwhile, {changed[0]!r} for one")
        keys: dict[QuestionSetKey, None] = {}
        for sample in chosen:
            keys |= {
                QuestionSetKey(name, sample.video_id, None, digests[sample.video_id]): None for name in VIDEO_DIMENSIONS
            }
            if not is_empty_summary(sample.text):
                digest = text_sha256(sample.text)
                keys |= {
                    QuestionSetKey(name, sample.video_id, sample.sample_id, digest): None for name in SUMMARY_DIMENSIONS
                }
        return list(keys)

    def _load_stored(self, engine: Engine, wanted: Sequence[QuestionSetKey]) -> dict[QuestionSetKey, StoredQuestionSet]:
        with engine.connect() as connection:
            model_id = self.model_id(connection)
            return {} if model_id is None else load_current_sets(connection, model_id, wanted)
