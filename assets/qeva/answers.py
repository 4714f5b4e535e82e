"""Answers: to the kept questions about each summary, from the summary or from the video."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, ClassVar

from sqlalchemy.engine import Engine

from assets.qeva.asking import Wanted, ask
from assets.qeva.material import Material
from assets.qeva.questions import SAMPLES_AT_A_TIME, Questions
from assets.qeva.roles import Roles
from assets.qeva.writing import OF_SUMMARY
from assets.sources.base import Examination, Forecast, Order, Source
from db.embeddings import text_sha256
from db.models import register_model
from db.qeva_answers import GOOD, AnswerRow, load_answers, write_answers
from db.qeva_questions import QuestionSetRow
from db.work import PendingSample, shard_samples
from metrics_core.protocols import ModelIdentity
from metrics_core.qeva import is_empty_summary

# More failed answers than this are worth a look at the server.
MANY_ERRORS = 0.2


@dataclass(frozen=True, slots=True)
class Examined:
    """A sample's question sets by dimension, and the answers to their kept questions by question_id.

    n_missing: kept questions without an answer.
    """

    sets: Mapping[str, QuestionSetRow]
    answers: Mapping[int, AnswerRow]
    n_missing: int = 0


class Answers(Source[Mapping[int, Examined]]):
    """The answers about each sample, with the questions: coverage and chronology by its text, the rest by the video."""

    asset: ClassVar[str] = "qeva_answer"
    description: ClassVar[str] = (
        "Answers to the kept questions: to coverage and chronology from the summary, to factuality from the video."
    )
    group: ClassVar[str] = "qeva"
    reads: ClassVar[tuple[str, ...]] = ("sample", "video", "reference", "keypoint")
    rests_on: ClassVar[tuple[type[Source[Any]], ...]] = (Questions,)
    checks: ClassVar[Mapping[str, str]] = {
        "questions_answered": "Every kept question has an answer, or a reason why it has none.",
        "errors_rare": "Fewer than 20 % of the answers failed.",
    }
    warnings: ClassVar[frozenset[str]] = frozenset({"errors_rare"})

    def __init__(self, roles: Roles, questions: Questions) -> None:
        self.inputs = questions.inputs
        self.sources = (questions,)
        self._questions = questions
        self._material: Material = questions.material
        self._panel = roles.panel
        self._roles = roles

    @property
    def model(self) -> ModelIdentity:
        """All that answer questions and judge the answers."""
        return self._panel(None).answers_by

    def make(self, order: Order, sample_ids: list[int]) -> Mapping[str, int | str]:
        """Ask what has no answer yet, or one that an error prevented, and store the answers, some samples at a time."""
        counts: Counter[str] = Counter(answers=0, abstained=0, unanswered=0)
        panel = self._panel(order)
        with order.engine.begin() as connection:
            model_id = register_model(connection, panel.answers_by.as_dict())
        done = 0
        for samples in order.samples(sample_ids, self.inputs, SAMPLES_AT_A_TIME):
            sets = self._questions.load(order.engine, order.scorer_id, samples)
            stored = self._answers(order.engine, model_id, samples)
            todo = [
                each
                for each in self._wanted(order.engine, samples, sets)
                if not each.is_answered_by(row := stored.get(each.key)) or (row is not None and row.status == "error")
            ]
            rows = ask(order, panel, self._material, samples, todo)
            write_answers(order.engine, model_id, order.run_id, rows)
            counts.update(
                answers=len(rows),
                abstained=sum(row.status == "abstain" for row in rows),
                unanswered=sum(row.status not in GOOD for row in rows),
            )
            done += len(samples)
            order.tell(f"questions answered about {done} of {len(sample_ids)} samples")
        return {**counts, **panel.tally.as_metadata(), "answered_by": panel.answers_by.model_id}

    def load(self, engine: Engine, scorer_id: int, samples: Sequence[PendingSample]) -> Mapping[int, Examined]:
        """Questions and answers of each wanted sample; MissingEvidence where one has not been asked about."""
        sets = self._questions.load(engine, scorer_id, samples)
        wanted = list(self._wanted(engine, samples, sets))
        stored = self._stored(engine, samples)
        given: dict[int, dict[int, AnswerRow]] = {sample_id: {} for sample_id in sets}
        n_wanted = Counter(sample_id for sample_id, _ in (each.key for each in wanted))
        for each in wanted:
            sample_id, question_id = each.key
            if each.is_answered_by(stored.get(each.key)):
                given[sample_id][question_id] = stored[each.key]
        # Where some answers are there, another run changed the questions meanwhile: that is the sample's own trouble.
        if unasked := [sample_id for sample_id, n in n_wanted.items() if n and not given[sample_id]]:
            raise self.missing(f"{len(unasked)} of {len(sets)} samples have no answer to any question")
        return {
            sample_id: Examined(sets[sample_id], answers, n_wanted[sample_id] - len(answers))
            for sample_id, answers in given.items()
        }

    def try_out(self) -> str:
        """Have a question answered by whoever answers."""
        panel = self._panel(None)
        return panel.try_out(panel.summary_answerer, panel.video_answerer)

    def forecast(self, order: Order, sample_ids: list[int]) -> Sequence[Forecast]:
        """The calls for the answers about these samples, as if every question were kept and none answered."""
        batches = order.samples(sample_ids, self.inputs)
        return self._roles.forecast_answers(sum(map(self._questions.is_wanted, chain.from_iterable(batches))))

    def examine(self, order: Order) -> Examination:
        """Whether all kept questions about the shard's samples have an answer, and how many failed."""
        with order.engine.connect() as connection:
            sample_ids = shard_samples(connection, order.dataset.dataset_id, order.shard)
        counts: Counter[str] = Counter(kept=0, unanswered=0, failed=0, abstained=0)
        for samples in order.samples(sample_ids, self.inputs):
            stored = self._stored(order.engine, samples)
            sets = self._questions.load(order.engine, order.scorer_id, samples)
            for each in self._wanted(order.engine, samples, sets):
                row = stored.get(each.key)
                is_present = each.is_answered_by(row)
                counts.update(kept=1, unanswered=not is_present)
                if row is not None and is_present:
                    counts.update(failed=row.status not in GOOD, abstained=row.status == "abstain")
        passed = {
            "questions_answered": counts["unanswered"] == 0,
            "errors_rare": counts["failed"] < MANY_ERRORS * counts["kept"] or counts["kept"] == 0,
        }
        return Examination(passed, dict(counts))

    def _wanted(
        self, engine: Engine, samples: Sequence[PendingSample], sets: Mapping[int, Mapping[str, QuestionSetRow]]
    ) -> Iterator[Wanted]:
        # An empty summary answers nothing, whoever is asked.
        chosen = [sample for sample in samples if sample.sample_id in sets and not is_empty_summary(sample.text)]
        digests = self._material.digests(engine, chosen)
        if changed := [sample.key for sample in chosen if sample.video_id not in digests]:
            raise self.missing(f"the videos of {len(changed)} samples changed meanwhile, {changed[0]!r} for one")
        for sample in chosen:
            for dimension, row in sets[sample.sample_id].items():
                context = digests[sample.video_id] if dimension in OF_SUMMARY else text_sha256(sample.text)
                for question in row.questions:
                    if question.mark.decision == "keep":
                        yield Wanted(sample, dimension, question, context)

    def _stored(self, engine: Engine, samples: Sequence[PendingSample]) -> dict[tuple[int, int], AnswerRow]:
        with engine.connect() as connection:
            model_id = self.model_id(connection)
        return {} if model_id is None else self._answers(engine, model_id, samples)

    def _answers(
        self, engine: Engine, model_id: int, samples: Sequence[PendingSample]
    ) -> dict[tuple[int, int], AnswerRow]:
        with engine.connect() as connection:
            rows = load_answers(connection, model_id, [sample.sample_id for sample in samples])
        return {(row.sample_id, row.question_id): row for row in rows}
