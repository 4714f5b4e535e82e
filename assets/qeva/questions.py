"""Questions: about each video once for all systems, and about each summary, all filtered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from sqlalchemy.engine import Engine

from assets.qeva.roles import Roles
from assets.qeva.writing import OF_SUMMARY, OF_VIDEO, QuestionWriter, SetKey, is_open, is_unfiltered, stored_sets
from assets.sources.base import Examination, Forecast, Order, Source
from db.embeddings import text_sha256
from db.inputs import TEXT
from db.models import register_model
from db.qeva_questions import QuestionSetRow
from db.work import PendingSample, shard_samples
from metrics_core.protocols import ModelIdentity
from metrics_core.qeva import is_empty_summary

# Samples whose questions are written and filtered between two looks at the database; their frames are in memory.
SAMPLES_AT_A_TIME = 64
SetsBySample = Mapping[int, Mapping[str, QuestionSetRow]]


class Questions(Source[SetsBySample]):
    """The question sets of each sample, by dimension: of its video, shared by all systems, and of its own text."""

    asset: ClassVar[str] = "qeva_question"
    description: ClassVar[str] = (
        "Questions about videos and summaries, with their keys and what filtering made of them: coverage and "
        "chronology once per video, factuality once per summary."
    )
    group: ClassVar[str] = "qeva"
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
            writer = QuestionWriter(order, panel, model_id, self.material, samples)
            wanted = self._wanted(order.engine, samples)
            counts["sets_written"] += writer.write(wanted)
            counts["questions_filtered"] += writer.filter(wanted)
            done += len(samples)
            order.tell(f"questions about {done} of {len(sample_ids)} samples")
        return {**counts, **panel.tally.as_metadata(), "written_by": panel.questions_by.model_id}

    def load(self, engine: Engine, scorer_id: int, samples: Sequence[PendingSample]) -> SetsBySample:
        """The sets of each wanted sample, by sample_id and dimension; MissingEvidence where one is not there."""
        wanted = self._wanted(engine, samples)
        stored = self._stored(engine, wanted)
        if absent := [key for key in wanted if key not in stored or is_unfiltered(stored[key])]:
            raise self.missing(f"{len(absent)} of {len(wanted)} question sets are not there or not filtered")
        rows = {(key.video_id, key.sample_id, key.dimension): row for key, row in stored.items()}
        return {
            sample.sample_id: {
                dimension: rows[place]
                for dimension in (*OF_VIDEO, *OF_SUMMARY)
                if (place := (sample.video_id, sample.sample_id if dimension in OF_SUMMARY else None, dimension))
                in rows
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
            wanted = self._wanted(order.engine, samples)
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
        for samples in order.samples(sample_ids, self.inputs):
            for key, row in self._stored(order.engine, self._wanted(order.engine, samples)).items():
                if key not in seen:
                    decisions = Counter(question.mark.decision for question in row.questions)
                    counts.update(
                        questions=len(row.questions),
                        unfiltered=decisions[None],
                        kept=decisions["keep"],
                        set_aside=decisions["error"],
                        sets_without_questions=row.status != "ok",
                    )
                seen.add(key)
        return Examination({"questions_filtered": counts["unfiltered"] == 0}, dict(counts))

    def _wanted(self, engine: Engine, samples: Sequence[PendingSample]) -> list[SetKey]:
        """The sets that the samples need, every set once. MissingEvidence where a video has changed meanwhile."""
        chosen = [sample for sample in samples if self.is_wanted(sample)]
        digests = self.material.digests(engine, chosen)
        if changed := [sample.key for sample in chosen if sample.video_id not in digests]:
            raise self.missing(f"the videos of {len(changed)} samples changed meanwhile, {changed[0]!r} for one")
        keys: dict[SetKey, None] = {}
        for sample in chosen:
            keys |= {SetKey(name, sample.video_id, None, digests[sample.video_id]): None for name in OF_VIDEO}
            if not is_empty_summary(sample.text):
                digest = text_sha256(sample.text)
                keys |= {SetKey(name, sample.video_id, sample.sample_id, digest): None for name in OF_SUMMARY}
        return list(keys)

    def _stored(self, engine: Engine, wanted: Sequence[SetKey]) -> dict[SetKey, QuestionSetRow]:
        with engine.connect() as connection:
            model_id = self.model_id(connection)
            return {} if model_id is None else stored_sets(connection, model_id, wanted)
