"""Writing and filtering the questions about a batch of samples."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import cast

from sqlalchemy.engine import Connection

from assets.qeva.material import GONE, Material, Unreadable
from assets.qeva.panel import Panel
from assets.qeva.stored import mark_row, question_of, question_row
from assets.sources.base import Order
from db.qeva_questions import (
    MarkRow,
    QuestionRow,
    QuestionSetRow,
    load_question_sets,
    mark_questions,
    write_question_sets,
)
from db.work import PendingSample
from metrics_core.qeva import filter_questions
from metrics_core.qeva.records import Context, Dimension, QuestionSet, VideoFrames, VideoNotes

OF_VIDEO: tuple[Dimension, ...] = ("coverage", "chronology")
OF_SUMMARY: tuple[Dimension, ...] = ("factuality",)


@dataclass(frozen=True, slots=True)
class SetKey:
    """A set of questions: about a video, or about the text of a sample where one is named."""

    dimension: Dimension
    video_id: int
    sample_id: int | None
    source_sha256: bytes

    @classmethod
    def of(cls, row: QuestionSetRow) -> SetKey:
        """The key of a stored set."""
        return cls(cast(Dimension, row.dimension), row.video_id, row.sample_id, row.source_sha256)


def stored_sets(connection: Connection, model_id: int, wanted: Collection[SetKey]) -> dict[SetKey, QuestionSetRow]:
    """The wanted sets that are stored, written from what is there now."""
    videos = {key.video_id for key in wanted if key.sample_id is None}
    samples = {key.sample_id for key in wanted if key.sample_id is not None}
    rows = {SetKey.of(row): row for row in load_question_sets(connection, model_id, videos, samples)}
    return {key: rows[key] for key in wanted if key in rows}


def is_unfiltered(row: QuestionSetRow) -> bool:
    """Whether a set holds a question that no filter has seen."""
    return any(question.mark.decision is None for question in row.questions)


def is_open(row: QuestionSetRow | None) -> bool:
    """Whether there is something left to write or to filter: a set that is missing, or that an error prevented."""
    return row is None or row.status == "error" or any(is_undecided(question.mark) for question in row.questions)


def is_undecided(mark: MarkRow) -> bool:
    """Whether filtering is still to come, or did not get a reply; what a model refused stays refused."""
    return mark.decision is None or mark.filter_failure == "error"


@dataclass
class QuestionWriter:
    """Writes and filters the question sets of a batch of samples; a video is read once, and only where it is needed."""

    order: Order
    panel: Panel
    model_id: int
    material: Material
    samples: Sequence[PendingSample]
    shown: dict[int, VideoFrames | VideoNotes | Unreadable] = field(default_factory=dict)

    def write(self, wanted: Collection[SetKey]) -> int:
        """Write and store the sets that are missing, or that an error prevented; returns how many."""
        stored = self._stored(wanted)
        missing = [key for key in wanted if key not in stored or stored[key].status == "error"]
        rows = [row for dimension in (*OF_VIDEO, *OF_SUMMARY) for row in self._written(dimension, missing)]
        write_question_sets(self.order.engine, self.model_id, self.order.run_id, rows)
        return len(rows)

    def filter(self, wanted: Collection[SetKey]) -> int:
        """Filter the questions that have no decision yet, or that an error set aside; returns how many."""
        todo: dict[Dimension, list[tuple[SetKey, QuestionRow]]] = {}
        for key, row in self._stored(wanted).items():
            undecided = [question for question in row.questions if is_undecided(question.mark)]
            todo.setdefault(key.dimension, []).extend((key, question) for question in undecided)
        self._show({key.video_id for keys in todo.values() for key, _ in keys if key.sample_id is None})
        for dimension, rows in todo.items():
            mark_questions(self.order.engine, self._marks(dimension, rows))
        return sum(map(len, todo.values()))

    def _marks(self, dimension: Dimension, rows: Sequence[tuple[SetKey, QuestionRow]]) -> dict[int, MarkRow]:
        """What the filter says of the questions, by question_id; nothing can be said without their source."""
        marks = {
            question.question_id or 0: _without_source(why)
            for key, question in rows
            if isinstance(why := self._source(key), Unreadable)
        }
        readable = [(key, question) for key, question in rows if self._context(key) is not None]
        asked = [(question_of(question, dimension), self._context(key)) for key, question in readable]
        answerer = self.panel.filter_of(dimension)
        filtered = filter_questions(asked, answerer, answerer, self.panel.matcher, self.panel.votes)
        for (_, question), mark in zip(readable, filtered, strict=True):
            marks[question.question_id or 0] = mark_row(mark)
        return marks

    def _written(self, dimension: Dimension, missing: Sequence[SetKey]) -> list[QuestionSetRow]:
        keys = [key for key in missing if key.dimension == dimension]
        self._show({key.video_id for key in keys if key.sample_id is None})
        rows = [_unreadable(key, why) for key in keys if isinstance(why := self._source(key), Unreadable)]
        readable = [key for key in keys if self._context(key) is not None]
        sources = [self._context(key) for key in readable]
        write = {
            "coverage": self.panel.video_examiner.coverage,
            "chronology": self.panel.video_examiner.chronology,
            "factuality": self.panel.summary_examiner.factuality,
        }[dimension]
        sets = write(sources) if sources else []  # type: ignore[operator]  # each is given what it asks about
        return rows + [_set_row(key, one) for key, one in zip(readable, sets, strict=True)]

    def _source(self, key: SetKey) -> str | VideoFrames | VideoNotes | Unreadable:
        if key.sample_id is None:
            return self.shown[key.video_id]
        return next(sample.text for sample in self.samples if sample.sample_id == key.sample_id)

    def _context(self, key: SetKey) -> Context:
        source = self._source(key)
        return None if isinstance(source, Unreadable) else source

    def _show(self, video_ids: Collection[int]) -> None:
        unseen = set(video_ids) - self.shown.keys()
        if unseen:
            self.shown |= dict.fromkeys(unseen, GONE)
            self.shown |= self.material.load(self.order.engine, self.samples, unseen)

    def _stored(self, wanted: Collection[SetKey]) -> dict[SetKey, QuestionSetRow]:
        with self.order.engine.connect() as connection:
            return stored_sets(connection, self.model_id, wanted)


def _set_row(key: SetKey, written: QuestionSet) -> QuestionSetRow:
    return QuestionSetRow(
        key.dimension,
        key.video_id,
        key.sample_id,
        key.source_sha256,
        tuple(question_row(question) for question in written.questions),
        written.n_requested,
        written.n_malformed,
        written.status,
        written.reason,
    )


def _without_source(why: Unreadable) -> MarkRow:
    return MarkRow((), None, "error", why.reason, "refused" if why.is_final else "error")


def _unreadable(key: SetKey, why: Unreadable) -> QuestionSetRow:
    status = "refused" if why.is_final else "error"
    return QuestionSetRow(
        key.dimension, key.video_id, key.sample_id, key.source_sha256, status=status, reason=why.reason
    )
