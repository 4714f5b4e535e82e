"""Questions: about each video once for all systems, and about each summary; written, filtered and stored."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, ClassVar

from sqlalchemy.engine import Connection, Engine

from assets.qeva.material import GONE, Material, Unreadable
from assets.qeva.roles import Panel, Roles
from assets.sources.base import Evidence, Examination, Forecast, Order, Source
from db.evidence.embeddings import text_sha256
from db.evidence.frames import Files, stored_files
from db.evidence.models import register_model
from db.evidence.qeva import MARK, Row, load_question_sets, mark_questions, write_question_sets
from db.schema.inputs import TEXT
from db.scores.work import PendingSample, shard_samples
from metrics_core.protocols import ModelIdentity
from metrics_core.qeva import FilterMark, filter_questions, is_empty_summary
from metrics_core.qeva.records import Context, Dimension, Question, QuestionSet, VideoFrames, VideoNotes

OF_VIDEO: tuple[Dimension, ...] = ("coverage", "chronology")
OF_SUMMARY: tuple[Dimension, ...] = ("factuality",)
# Samples whose questions are written and filtered between two looks at the database; their frames are in memory.
SAMPLES_AT_A_TIME = 64
# The columns of a question that come from the question itself; the dimension stands in its set.
_OF_QUESTION = tuple(each.name for each in fields(Question) if each.name != "dimension")


@dataclass(frozen=True, slots=True)
class SetKey:
    """A set of questions: about a video, or about the text of a sample where one is named."""

    dimension: Dimension
    video_id: int
    sample_id: int | None
    source_sha256: bytes


@dataclass(frozen=True, slots=True)
class StoredSet:
    """A stored set. question_ids, marks: of each question, in order; a mark is None before the question is filtered."""

    key: SetKey
    written: QuestionSet
    question_ids: tuple[int, ...]
    marks: tuple[FilterMark | None, ...]

    @classmethod
    def of(cls, row: Row) -> StoredSet:
        """Read a row of `load_question_sets`."""
        dimension, rows = row["dimension"], row["questions"]
        return cls(
            SetKey(dimension, row["video_id"], row["sample_id"], bytes(row["source_sha256"])),
            QuestionSet(
                dimension,
                tuple(_question(dimension, each) for each in rows),
                row["n_requested"],
                row["n_malformed"],
                row["status"],
                row["reason"],
            ),
            tuple(each["question_id"] for each in rows),
            tuple(_mark(each) for each in rows),
        )

    def __iter__(self) -> Iterator[tuple[int, Question, FilterMark | None]]:
        """Give question_id, question and mark of each question."""
        return zip(self.question_ids, self.written.questions, self.marks, strict=True)

    @property
    def kept(self) -> dict[int, Question]:
        """The questions that filtering kept, by question_id, in order."""
        return {number: question for number, question, mark in self if mark is not None and mark.decision == "keep"}

    @property
    def filtered(self) -> list[FilterMark]:
        """The marks of the questions that are filtered, in order."""
        return [mark for mark in self.marks if mark is not None]


SetsBySample = Mapping[int, Mapping[str, StoredSet]]


def _question(dimension: Dimension, row: Row) -> Question:
    # JSON has no tuples.
    values: dict[str, Any] = {
        name: tuple(row[name]) if isinstance(row[name], list) else row[name] for name in _OF_QUESTION
    }
    return Question(dimension, **values)


def _mark(row: Row) -> FilterMark | None:
    if row["decision"] is None:
        return None
    closed_book, *others = (row[name] for name in MARK)
    return FilterMark(tuple(closed_book), *others)


def _mark_row(mark: FilterMark) -> Row:
    return dict(zip(MARK, (mark.closed_book, mark.open_book, mark.decision, mark.reason, mark.failure), strict=True))


def _set_row(key: SetKey, written: QuestionSet) -> Row:
    return {
        **asdict(key),
        **{name: getattr(written, name) for name in ("n_requested", "n_malformed", "status", "reason")},
        "questions": [{name: getattr(each, name) for name in _OF_QUESTION} for each in written.questions],
    }


def stored_sets(connection: Connection, model_id: int, wanted: Collection[SetKey]) -> dict[SetKey, StoredSet]:
    """Load the wanted sets that are stored, written from what is there now."""
    videos = {key.video_id for key in wanted if key.sample_id is None}
    samples = {key.sample_id for key in wanted if key.sample_id is not None}
    found = map(StoredSet.of, load_question_sets(connection, model_id, videos, samples))
    by_key = {one.key: one for one in found}
    return {key: by_key[key] for key in wanted if key in by_key}


def is_open(one: StoredSet | None) -> bool:
    """Whether there is something left to write or to filter: a set that is missing, or that an error prevented."""
    return one is None or one.written.status == "error" or any(map(is_undecided, one.marks))


def is_undecided(mark: FilterMark | None) -> bool:
    """Whether filtering is still to come, or did not get a reply; what a model refused stays refused."""
    return mark is None or mark.failure == "error"


@dataclass
class QuestionRound:
    """Writes and filters questions about a batch of samples; a video is read once, and only where it is needed."""

    panel: Panel
    material: Material
    files: Files
    samples: Sequence[PendingSample]
    shown: dict[int, VideoFrames | VideoNotes | Unreadable] = field(default_factory=dict)

    def written(self, keys: Collection[SetKey]) -> list[tuple[SetKey, QuestionSet]]:
        """Write these sets."""
        return [pair for dimension in (*OF_VIDEO, *OF_SUMMARY) for pair in self._written(dimension, keys)]

    def marks(self, dimension: Dimension, questions: Sequence[tuple[SetKey, int, Question]]) -> dict[int, FilterMark]:
        """What the filter says of these questions of a dimension, by number; nothing can be said without a source."""
        self._show(key for key, _, _ in questions)
        marks = {
            number: FilterMark((), None, "error", why.reason, "refused" if why.is_final else "error")
            for key, number, _ in questions
            if isinstance(why := self._source(key), Unreadable)
        }
        readable = [each for each in questions if self._context(each[0]) is not None]
        asked = [(question, self._context(key)) for key, _, question in readable]
        answerer = self.panel.filter_of(dimension)
        filtered = filter_questions(asked, answerer, answerer, self.panel.matcher, self.panel.votes)
        return marks | {number: mark for (_, number, _), mark in zip(readable, filtered, strict=True)}

    def _written(self, dimension: Dimension, wanted: Collection[SetKey]) -> list[tuple[SetKey, QuestionSet]]:
        keys = [key for key in wanted if key.dimension == dimension]
        self._show(keys)
        unreadable = [(key, _unreadable(key, why)) for key in keys if isinstance(why := self._source(key), Unreadable)]
        readable = [key for key in keys if self._context(key) is not None]
        sources = [self._context(key) for key in readable]
        write = {
            "coverage": self.panel.video_examiner.coverage,
            "chronology": self.panel.video_examiner.chronology,
            "factuality": self.panel.summary_examiner.factuality,
        }[dimension]
        sets = write(sources) if sources else []  # type: ignore[operator]  # each is given what it asks about
        return [*unreadable, *zip(readable, sets, strict=True)]

    def _source(self, key: SetKey) -> str | VideoFrames | VideoNotes | Unreadable:
        if key.sample_id is None:
            return self.shown[key.video_id]
        return next(sample.text for sample in self.samples if sample.sample_id == key.sample_id)

    def _context(self, key: SetKey) -> Context:
        source = self._source(key)
        return None if isinstance(source, Unreadable) else source

    def _show(self, keys: Iterable[SetKey]) -> None:
        unseen = {key.video_id for key in keys if key.sample_id is None} - self.shown.keys()
        if unseen:
            self.shown |= dict.fromkeys(unseen, GONE)
            self.shown |= self.material.load(self.files, self.samples, unseen)


@dataclass(frozen=True)
class QuestionWriter:
    """Stores the question sets of a round, and what filtering makes of them."""

    order: Order
    model_id: int
    round: QuestionRound

    def write(self, wanted: Collection[SetKey]) -> int:
        """Write and store the sets that are missing, or that an error prevented; returns how many."""
        stored = self._stored(wanted)
        missing = [key for key in wanted if key not in stored or stored[key].written.status == "error"]
        rows = [_set_row(key, one) for key, one in self.round.written(missing)]
        write_question_sets(self.order.engine, self.model_id, self.order.run_id, rows)
        return len(rows)

    def filter(self, wanted: Collection[SetKey]) -> int:
        """Filter the questions that have no decision yet, or that an error set aside; returns how many."""
        todo: dict[Dimension, list[tuple[SetKey, int, Question]]] = {}
        for key, one in self._stored(wanted).items():
            undecided = [(key, number, question) for number, question, mark in one if is_undecided(mark)]
            todo.setdefault(key.dimension, []).extend(undecided)
        for dimension, questions in todo.items():
            marks = self.round.marks(dimension, questions)
            mark_questions(self.order.engine, {number: _mark_row(mark) for number, mark in marks.items()})
        return sum(map(len, todo.values()))

    def _stored(self, wanted: Collection[SetKey]) -> dict[SetKey, StoredSet]:
        with self.order.engine.connect() as connection:
            return stored_sets(connection, self.model_id, wanted)


def _unreadable(key: SetKey, why: Unreadable) -> QuestionSet:
    return QuestionSet(key.dimension, status="refused" if why.is_final else "error", reason=why.reason)


class Questions(Source[SetsBySample]):
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

    def __init__(self, roles: Roles, is_wanted: Callable[[PendingSample], bool]) -> None:
        self.inputs = (TEXT, *roles.material.inputs)
        self.material = roles.material
        self._panel = roles.panel
        self._roles = roles
        self.is_wanted = is_wanted

    @property
    def model(self) -> ModelIdentity:
        """All that write and filter questions."""
        return self._panel(None).questions_by

    @property
    def asks_servers(self) -> bool:
        """Whether some role is a chat model's, or the encoder is a server's."""
        return self._roles.asks_servers

    def make(self, order: Order, sample_ids: list[int]) -> Mapping[str, int | str]:
        """Write the sets that are missing, filter their questions, and store both, some samples at a time."""
        counts: Counter[str] = Counter(sets_written=0, questions_filtered=0)
        panel = self._panel(order)
        for warning in panel.warnings:
            order.tell(f"warning: {warning}")
        with order.engine.begin() as connection:
            model_id = register_model(connection, panel.questions_by.as_dict())
        done = 0
        for samples in order.samples(sample_ids, self.inputs, SAMPLES_AT_A_TIME):
            files = stored_files(order.engine)
            writer = QuestionWriter(order, model_id, QuestionRound(panel, self.material, files, samples))
            wanted = self._wanted(files, samples)
            counts["sets_written"] += writer.write(wanted)
            counts["questions_filtered"] += writer.filter(wanted)
            done += len(samples)
            order.tell(f"questions about {done} of {len(sample_ids)} samples")
        return {**counts, **panel.tally.as_metadata(), "written_by": panel.questions_by.model_id}

    def load(self, engine: Engine, scorer_id: int, samples: Sequence[PendingSample]) -> SetsBySample:
        """The sets of each wanted sample, by sample_id and dimension; MissingEvidence where one is not there."""
        wanted = self._wanted(stored_files(engine), samples)
        stored = self._stored(engine, wanted)
        if absent := [key for key in wanted if key not in stored or None in stored[key].marks]:
            raise self.missing(f"{len(absent)} of {len(wanted)} question sets are not there or not filtered")
        return self._by_sample(samples, stored)

    def ask(self, samples: Sequence[PendingSample], files: Files, below: Evidence) -> SetsBySample:
        """Write and filter the sets of the samples."""
        one_round = QuestionRound(self._panel(None), self.material, files, samples)
        numbers = itertools.count(1)
        sets: dict[SetKey, StoredSet] = {}
        for key, written in one_round.written(self._wanted(files, samples)):
            asked = [(key, next(numbers), question) for question in written.questions]
            marks = one_round.marks(key.dimension, asked)
            sets[key] = StoredSet(key, written, tuple(marks), tuple(marks.values()))
        return self._by_sample(samples, sets)

    def _by_sample(self, samples: Sequence[PendingSample], stored: Mapping[SetKey, StoredSet]) -> SetsBySample:
        sets = {(key.video_id, key.sample_id, key.dimension): one for key, one in stored.items()}
        return {
            sample.sample_id: {
                dimension: sets[place]
                for dimension in (*OF_VIDEO, *OF_SUMMARY)
                if (place := (sample.video_id, sample.sample_id if dimension in OF_SUMMARY else None, dimension))
                in sets
            }
            for sample in filter(self.is_wanted, samples)
        }

    def try_out(self) -> str:
        """Have the filters answer a question."""
        panel = self._panel(None)
        return panel.try_out(panel.summary_filter, panel.video_filter)

    def forecast(self, order: Order, sample_ids: list[int]) -> Sequence[Forecast]:
        """The calls for the sets that are missing: those of a video once for all its summaries."""
        missing: set[SetKey] = set()
        for samples in order.samples(sample_ids, self.inputs):
            wanted = self._wanted(stored_files(order.engine), samples)
            stored = self._stored(order.engine, wanted)
            missing |= {key for key in wanted if is_open(stored.get(key))}
        return self._roles.forecast_questions(
            n_videos=sum(key.dimension == OF_VIDEO[0] for key in missing),
            n_summaries=sum(key.sample_id is not None for key in missing),
        )

    def examine(self, order: Order) -> Examination:
        """Whether all questions about the shard's samples are filtered."""
        with order.engine.connect() as connection:
            sample_ids = shard_samples(connection, order.dataset.dataset_id, order.shard)
        counts: Counter[str] = Counter(questions=0, unfiltered=0, kept=0, set_aside=0, sets_without_questions=0)
        seen: set[SetKey] = set()
        files = stored_files(order.engine)
        for samples in order.samples(sample_ids, self.inputs):
            for key, one in self._stored(order.engine, self._wanted(files, samples)).items():
                if key not in seen:
                    decisions = Counter(mark and mark.decision for mark in one.marks)
                    counts.update(
                        questions=len(one.marks),
                        unfiltered=decisions[None],
                        kept=decisions["keep"],
                        set_aside=decisions["error"],
                        sets_without_questions=one.written.status != "ok",
                    )
                seen.add(key)
        return Examination({"questions_filtered": counts["unfiltered"] == 0}, dict(counts))

    def _wanted(self, files: Files, samples: Sequence[PendingSample]) -> list[SetKey]:
        """The sets that the samples need, every set once. MissingEvidence where a video has changed meanwhile."""
        chosen = [sample for sample in samples if self.is_wanted(sample)]
        digests = self.material.digests(files, chosen)
        if changed := [sample.key for sample in chosen if sample.video_id not in digests]:
            raise self.missing(f"the videos of {len(changed)} samples changed meanwhile, {changed[0]!r} for one")
        keys: dict[SetKey, None] = {}
        for sample in chosen:
            keys |= {SetKey(name, sample.video_id, None, digests[sample.video_id]): None for name in OF_VIDEO}
            if not is_empty_summary(sample.text):
                digest = text_sha256(sample.text)
                keys |= {SetKey(name, sample.video_id, sample.sample_id, digest): None for name in OF_SUMMARY}
        return list(keys)

    def _stored(self, engine: Engine, wanted: Sequence[SetKey]) -> dict[SetKey, StoredSet]:
        with engine.connect() as connection:
            model_id = self.model_id(connection)
            return {} if model_id is None else stored_sets(connection, model_id, wanted)
