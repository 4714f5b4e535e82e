"""Verdicts: which keypoints a caption entails, by which of its sentences and how surely."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any, ClassVar

from sqlalchemy.engine import Engine

from assets.ecs.checklist import Checklist, is_verifiable
from assets.ecs.judging import CaptionQueue, RememberingModel
from assets.sources.base import Examination, Order, Source
from assets.sources.texts import TextVectors
from db.inputs import KEYPOINTS
from db.thresholds import label_thresholds
from db.verdicts import VERDICT_INPUTS, VerdictRow, VerdictSet, load_verdicts, pending_verdicts, write_verdicts
from db.work import PendingSample
from metrics_core.ecs import KeypointPlan, KeypointVerdict, Thresholds, Verification
from metrics_core.protocols import ModelIdentity

# Captions whose pairs make one queue, in which each pair stands once: as many as are in memory at a time.
CAPTIONS_PER_QUEUE = 512
EARLY_EXIT = "early_exit"


class KeypointVerdicts(Source[Mapping[int, VerdictSet]]):
    """The verified checklist of each caption that has keypoints, by sample_id.

    With option early_exit a keypoint is left alone once a sentence reaches its threshold: the same decisions in fewer
    passes, and lower bounds for probabilities. A run without it completes them.
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
        """Reach and store a verdict on every keypoint of the captions, some hundred captions at a time.

        MissingEvidence where retrieval needs vectors that are not there. A keypoint too long for the model makes the
        captions of its video unverifiable.
        """
        counts: Counter[str] = Counter(captions=0, keypoints=0, passes=0, pairs_judged=0, pairs_truncated=0)
        thresholds = self._thresholds(order)
        why: list[str] = []
        for samples in order.samples(sample_ids, self.inputs, CAPTIONS_PER_QUEUE):
            vectors = self._vectors.load(order.engine, order.scorer_id, samples)
            queue = CaptionQueue.of(self._checklist, samples, vectors, thresholds)
            place = f"captions {counts['captions'] + 1} to {counts['captions'] + len(samples)} of {len(sample_ids)}"
            model = RememberingModel(order.engine, self._checklist.model, place, order.tell)
            reached = queue.judge(model, order.options.get(EARLY_EXIT, False))
            sets = _verdict_sets(self._checklist, samples, queue, reached)
            write_verdicts(order.engine, order.scorer_id, order.run_id, sets)
            why += queue.refused.values()
            counts.update(
                captions=len(samples),
                keypoints=len(reached.verdicts),
                passes=reached.n_passes,
                pairs_judged=model.n_judged,
                pairs_truncated=reached.n_truncated,
            )
        if why:
            order.tell(f"{len(why)} captions have no verdicts, the first for this reason: {why[0]}")
        return {**counts, "unverifiable": len(why), "verifier": self._checklist.model.identity.model_id}

    def load(self, engine: Engine, scorer_id: int, samples: Sequence[PendingSample]) -> Mapping[int, VerdictSet]:
        """The verdicts on the samples that have keypoints; MissingEvidence where one is not verified."""
        wanted = [sample.sample_id for sample in samples if is_verifiable(sample)]
        found = load_verdicts(engine, scorer_id, wanted)
        if len(found) < len(wanted):
            n_missing = len(wanted) - len(found)
            raise self.missing(f"{n_missing} of {len(wanted)} captions have no verdicts on their keypoints")
        return found

    def try_out(self) -> str:
        """Judge one pair."""
        said = self._checklist.model.entailment([("A red dog runs.", "A dog runs.")])
        return f"P(entailment) of one pair is {said.probabilities[0]:.2f}"

    def pending(self, order: Order, asked: Callable[[], list[int]]) -> list[int]:
        """The captions of the shard that lack verdicts; without early exit those with lower bounds too."""
        return self._unverified(order, in_full=not order.options.get(EARLY_EXIT, False))

    def outstanding(self, order: Order) -> int:
        """The captions that an early exit decided and left with lower bounds, and those without verdicts."""
        return len(self._unverified(order, in_full=True))

    def examine(self, order: Order) -> Examination:
        """Whether every caption that has keypoints is verified as far as its decisions need."""
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
    checklist: Checklist, samples: Sequence[PendingSample], queue: CaptionQueue, reached: Verification
) -> list[VerdictSet]:
    verdicts = iter(zip(reached.verdicts, reached.passes, strict=True))
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
