"""Verdicts: the keypoints that a caption entails, with the best sentence and its probability."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import islice
from typing import Any, ClassVar

from sqlalchemy.engine import Engine

from assets.ecs.caption_queue import CaptionQueue
from assets.ecs.checklist import Checklist, is_verifiable
from assets.sources.base import Evidence, Examination, Order, Source
from assets.sources.remembering import RememberingVerifier
from assets.sources.texts import TextVectors
from db.evidence.frames import Files
from db.evidence.verdicts import (
    VERDICT_INPUTS,
    VerdictRow,
    VerdictSet,
    load_verdicts,
    pending_verdicts,
    unfinished_shards,
    write_verdicts,
)
from db.schema.inputs import KEYPOINTS
from db.scores.thresholds import label_thresholds
from db.scores.work import PendingSample
from metrics_core.ecs import KeypointPlan, KeypointVerdict, Thresholds, Verification
from metrics_core.protocols import ModelIdentity

# Captions in memory at a time. Their pairs make one queue that holds every pair once.
CAPTIONS_PER_QUEUE = 512
EARLY_EXIT = "early_exit"


class KeypointVerdicts(Source[Mapping[int, VerdictSet]]):
    """The verified checklists of captions, by sample_id.

    With option early_exit no further sentence is judged for a keypoint once a sentence reaches its threshold. Decisions
    stay the same in fewer passes, but probabilities are lower bounds. A run without the option completes them.
    """

    asset: ClassVar[str] = "ecs_verdict"
    description: ClassVar[str] = (
        "Whether captions entail the keypoints of their videos: the greatest probability and the sentence that has it."
    )
    group: ClassVar[str] = "verdicts"
    reads: ClassVar[tuple[str, ...]] = ("sample", "keypoint", "reference")
    rests_on: ClassVar[tuple[type[Source[Any]], ...]] = (TextVectors,)
    checks: ClassVar[Mapping[str, str]] = {
        "verdicts_present": "Every keypoint of every caption has a verdict, or the caption a reason why it has none."
    }
    options: ClassVar[Mapping[str, bool]] = {EARLY_EXIT: False}
    inputs = VERDICT_INPUTS

    def __init__(self, checklist: Checklist, vectors: TextVectors) -> None:
        self._checklist = checklist
        self._vectors = vectors
        self.sources = (vectors,)

    @property
    def model(self) -> ModelIdentity:
        """The verifier."""
        return self._checklist.model.identity

    def make(self, order: Order, sample_ids: list[int]) -> Mapping[str, int | str]:
        """Verify every keypoint of the captions and store the verdicts, some hundred captions at a time.

        Raises MissingEvidence where retrieval lacks vectors. A keypoint that is too long for the model makes the
        captions of its video unverifiable.
        """
        counts: Counter[str] = Counter(captions=0, keypoints=0, passes=0, pairs_judged=0, pairs_truncated=0)
        thresholds = self._thresholds(order)
        refusals: list[str] = []
        for samples in order.samples(sample_ids, self.inputs, CAPTIONS_PER_QUEUE):
            vectors = self._vectors.load(order.engine, order.scorer_id, samples)
            queue = CaptionQueue.of(self._checklist, samples, vectors, thresholds)
            place = f"captions {counts['captions'] + 1} to {counts['captions'] + len(samples)} of {len(sample_ids)}"
            model = RememberingVerifier(order.engine, self._checklist.model, place, order.tell)
            verification = queue.judge(model, order.options.get(EARLY_EXIT, False))
            sets = _verdict_sets(self._checklist, samples, queue, verification)
            write_verdicts(order.engine, order.scorer_id, order.run_id, sets)
            refusals += queue.refused.values()
            counts.update(
                captions=len(samples),
                keypoints=len(verification.verdicts),
                passes=verification.n_passes,
                pairs_judged=model.n_judged,
                pairs_truncated=verification.n_truncated,
            )
        if refusals:
            order.tell(f"{len(refusals)} captions have no verdicts, the first for this reason: {refusals[0]}")
        return {**counts, "unverifiable": len(refusals), "verifier": self._checklist.model.identity.model_id}

    def load(self, engine: Engine, scorer_id: int, samples: Sequence[PendingSample]) -> Mapping[int, VerdictSet]:
        """Load the verdicts on the captions that have keypoints. Raises MissingEvidence where a caption has none."""
        wanted = [sample.sample_id for sample in samples if is_verifiable(sample)]
        by_sample = load_verdicts(engine, scorer_id, wanted)
        if len(by_sample) < len(wanted):
            n_missing = len(wanted) - len(by_sample)
            raise self.missing(f"{n_missing} of {len(wanted)} captions have no verdicts on their keypoints")
        return by_sample

    def ask(self, samples: Sequence[PendingSample], files: Files, below: Evidence) -> Mapping[int, VerdictSet]:
        """Verify every keypoint of the captions. Each sentence is judged, so thresholds do not matter."""
        chosen = [sample for sample in samples if is_verifiable(sample)]
        vectors, thresholds = below[self._vectors], Thresholds({}, self._checklist.default_threshold)
        queue = CaptionQueue.of(self._checklist, chosen, vectors, thresholds)
        verification = queue.judge(self._checklist.model, early_exit=False)
        return {one.sample_id: one for one in _verdict_sets(self._checklist, chosen, queue, verification)}

    def try_out(self) -> str:
        """Judge one pair."""
        answer = self._checklist.model.entailment([("A red dog runs.", "A dog runs.")])
        return f"P(entailment) of one pair is {answer.probabilities[0]:.2f}"

    def pending(self, order: Order, asked: Callable[[], list[int]]) -> list[int]:
        """Return the captions of the shard that lack verdicts; without early exit also captions with lower bounds."""
        return self._unverified(order, in_full=not order.options.get(EARLY_EXIT, False))

    def outstanding(self, engine: Engine, scorer_id: int, dataset_id: int) -> Collection[int]:
        """Return the shards with captions without verdicts, or with captions that an early exit left incomplete."""
        return unfinished_shards(engine, scorer_id, dataset_id)

    def examine(self, order: Order) -> Examination:
        """Check that every caption with keypoints is verified as far as its decisions need."""
        missing = len(self._unverified(order, in_full=False))
        return Examination({"verdicts_present": missing == 0}, {"missing": missing})

    def _unverified(self, order: Order, *, in_full: bool) -> list[int]:
        with order.engine.connect() as connection:
            return pending_verdicts(
                connection,
                scorer_id=order.scorer_id,
                dataset_id=order.dataset.dataset_id,
                shard=order.shard,
                default_threshold=None if in_full else self._checklist.default_threshold,
            )

    def _thresholds(self, order: Order) -> Thresholds:
        with order.engine.connect() as connection:
            stored = label_thresholds(connection, order.scorer_id, order.dataset.dataset_id)
        return Thresholds(stored, self._checklist.default_threshold)


def _verdict_sets(
    checklist: Checklist, samples: Sequence[PendingSample], queue: CaptionQueue, verification: Verification
) -> list[VerdictSet]:
    verdicts = iter(zip(verification.verdicts, verification.passes, strict=True))
    by_caption = {i: list(islice(verdicts, len(plans))) for i, plans in queue.plans.items()}
    sets = []
    for sample in samples:
        if why := queue.refused.get(sample.sample_id):
            sets.append(VerdictSet(sample.sample_id, sample.input_sha256, 0, (), "unverifiable", why))
            continue
        rows = tuple(
            _row(keypoint.keypoint_id, verdict, plan, n_passes)
            for keypoint, plan, (verdict, n_passes) in zip(
                sample[KEYPOINTS], queue.plans[sample.sample_id], by_caption[sample.sample_id], strict=True
            )
        )
        sets.append(VerdictSet(sample.sample_id, sample.input_sha256, checklist.count_sentences(sample), rows))
    return sets


def _row(keypoint_id: int, verdict: KeypointVerdict, plan: KeypointPlan, n_passes: int) -> VerdictRow:
    at = verdict.sentence
    sentence = None if at is None else plan.premises[plan.sentences.index(at)]
    return VerdictRow(keypoint_id, verdict.probability, at, sentence, verdict.is_lower_bound, n_passes)
