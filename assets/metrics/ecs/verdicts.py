"""The source of verdicts: how probably a caption entails each keypoint of its video, and by which sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.engine import Engine

from assets.metrics.ecs.verification import KeypointVerification, MissingTimes, is_verifiable
from assets.sources.base import Evidence, Examination, Order, Source
from assets.sources.cached_models import CachingVerifier
from assets.sources.texts import TextVectors
from assets.words.text import format_portion
from db.evidence.frames import LoadVideos
from db.evidence.verdicts import (
    VERDICT_INPUTS,
    VerdictRow,
    VerdictSet,
    list_captions_to_verify,
    list_unfinished_shards,
    load_verdict_sets,
    store_verdict_sets,
)
from db.schema.inputs import KEYPOINTS
from db.scores.pending import PendingSample
from metrics_core.ecs import KeypointVerdict, RankedPremises, Verification, verify_keypoints
from metrics_core.models.nli_inputs import HypothesisTooLong
from metrics_core.protocols import EntailmentModel, ModelIdentity

# Captions in memory at a time. Their pairs make one queue that holds every pair once.
CAPTIONS_PER_QUEUE = 512


class KeypointVerdicts(Source[Mapping[int, VerdictSet]]):
    """The source of verdicts on all keypoints of captions; `load` and `ask` return a VerdictSet by sample_id."""

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
    inputs = VERDICT_INPUTS

    def __init__(self, verification: KeypointVerification, vectors: TextVectors) -> None:
        self._verification = verification
        self._vectors = vectors
        self.sources = (vectors,)

    @property
    def model(self) -> ModelIdentity:
        """The identity of the verifier, the model that estimates whether a sentence entails a keypoint."""
        return self._verification.model.identity

    def make(self, order: Order, sample_ids: list[int]) -> Mapping[str, int | str]:
        """Verify every keypoint of these captions and store the verdicts, up to 512 captions at a time. Return counts
        by name, such as captions, keypoints, passes and unverifiable, and the verifier's name. Raises MissingEvidence
        if the vectors that choose the sentences are missing.

        A keypoint that is too long for the model makes the captions of its video unverifiable.
        """
        counts: Counter[str] = Counter(captions=0, keypoints=0, passes=0, pairs_judged=0, pairs_truncated=0)
        refusals: list[str] = []
        for samples in order.samples(sample_ids, self.inputs, CAPTIONS_PER_QUEUE):
            vectors = self._vectors.load(order.engine, order.scorer_id, samples)
            queue = _CaptionQueue.build(self._verification, samples, vectors)
            place = f"captions {counts['captions'] + 1} to {counts['captions'] + len(samples)} of {len(sample_ids)}"
            model = CachingVerifier(order.engine, self._verification.model, place, order.tell)
            verification = queue.verify(model)
            sets = _build_verdict_sets(self._verification, samples, queue, verification)
            store_verdict_sets(order.engine, order.scorer_id, order.run_id, sets)
            refusals += queue.refused.values()
            counts.update(
                captions=len(samples),
                keypoints=len(verification.verdicts),
                passes=verification.n_passes,
                pairs_judged=model.n_verified,
                pairs_truncated=verification.n_truncated,
            )
        if refusals:
            have = "caption has" if len(refusals) == 1 else "captions have"
            order.tell(f"{len(refusals)} {have} no verdicts; reason of the first: {refusals[0]}")
        return {**counts, "unverifiable": len(refusals), "verifier": self._verification.model.identity.model_id}

    def load(self, engine: Engine, scorer_id: int, samples: Sequence[PendingSample]) -> Mapping[int, VerdictSet]:
        """Load the verdicts on all samples that are captions with keypoints, by sample_id. A set without verdicts has a
        status and a reason. Raises MissingEvidence if one of these captions was not verified for its present texts.
        """
        sample_ids = [sample.sample_id for sample in samples if is_verifiable(sample)]
        by_sample = load_verdict_sets(engine, scorer_id, sample_ids)
        if len(by_sample) < len(sample_ids):
            n_missing = len(sample_ids) - len(by_sample)
            lack = "no verdicts on keypoints"
            raise self.missing(format_portion(n_missing, len(sample_ids), "caption", f"has {lack}", f"have {lack}"))
        return by_sample

    def ask(self, samples: Sequence[PendingSample], files: LoadVideos, below: Evidence) -> Mapping[int, VerdictSet]:
        """Verify every keypoint of the captions among the samples now; return the verdicts by sample_id, and store
        nothing. below: the vectors that choose the sentences. `files` is not used.
        """
        chosen = [sample for sample in samples if is_verifiable(sample)]
        vectors = below[self._vectors]
        queue = _CaptionQueue.build(self._verification, chosen, vectors)
        verification = queue.verify(self._verification.model)
        return {
            verdict_set.sample_id: verdict_set
            for verdict_set in _build_verdict_sets(self._verification, chosen, queue, verification)
        }

    def try_out(self) -> str:
        """Load the verifier, verify one pair of sentences, and return its P(entailment) as a line of text."""
        answer = self._verification.model.entailment([("A red dog runs.", "A dog runs.")])
        return f"P(entailment) of one pair is {answer.probabilities[0]:.2f}"

    def pending(self, order: Order, asked: Callable[[], list[int]]) -> list[int]:
        """Return the ids of the shard's captions that still have to be verified, ascending; what `asked` returns does
        not matter. These are captions that lack a verdict on their present texts.
        """
        with order.engine.connect() as connection:
            return list_captions_to_verify(
                connection, scorer_id=order.scorer_id, dataset_id=order.dataset.dataset_id, shard=order.shard
            )

    def outstanding(self, engine: Engine, scorer_id: int, dataset_id: int) -> Collection[int]:
        """Return the numbers of a dataset's shards with captions that were not verified."""
        return list_unfinished_shards(engine, scorer_id, dataset_id)

    def examine(self, order: Order) -> Examination:
        """Check verdicts_present on the shard of the order: every caption with keypoints has its verdicts, or a
        reason why it has none. The result counts the captions that have neither as `missing`.
        Verifies nothing.
        """
        missing = len(self.pending(order, list))
        return Examination({"verdicts_present": missing == 0}, {"missing": missing})


def _build_verdict_sets(
    checklist: KeypointVerification, samples: Sequence[PendingSample], queue: _CaptionQueue, verification: Verification
) -> list[VerdictSet]:
    verdicts = iter(zip(verification.verdicts, verification.pass_counts, strict=True))
    verdicts_by_sample = {i: list(islice(verdicts, len(plans))) for i, plans in queue.plans.items()}
    sets = []
    for sample in samples:
        if why := queue.refused.get(sample.sample_id):
            sets.append(VerdictSet(sample.sample_id, sample.input_sha256, 0, (), "unverifiable", why))
            continue
        rows = tuple(
            _build_row(keypoint.keypoint_id, verdict, plan, n_passes)
            for keypoint, plan, (verdict, n_passes) in zip(
                sample[KEYPOINTS], queue.plans[sample.sample_id], verdicts_by_sample[sample.sample_id], strict=True
            )
        )
        sets.append(VerdictSet(sample.sample_id, sample.input_sha256, checklist.count_sentences(sample), rows))
    return sets


def _build_row(keypoint_id: int, verdict: KeypointVerdict, plan: RankedPremises, n_passes: int) -> VerdictRow:
    at = verdict.sentence
    sentence = None if at is None else plan.premises[plan.sentence_indices.index(at)]
    return VerdictRow(keypoint_id, verdict.probability, at, sentence, n_passes)


@dataclass(slots=True)
class _CaptionQueue:
    """The captions of a batch whose keypoints are verified together, by sample_id. plans: for every keypoint of a
    caption, the sentences to verify it with. refused: the reason why a caption cannot be verified; such a caption has
    no plans.
    """

    plans: dict[int, list[RankedPremises]] = field(default_factory=dict)
    refused: dict[int, str] = field(default_factory=dict)

    @classmethod
    def build(
        cls,
        verification: KeypointVerification,
        samples: Sequence[PendingSample],
        vectors: Mapping[str, NDArray[np.float32]],
    ) -> _CaptionQueue:
        """Build the queue of these captions; a caption without the times that the mode needs is put into `refused`.
        vectors: by text, those of the keypoints and sentences; needed if not all sentences are verified.
        """
        queue = cls()
        for sample in samples:
            try:
                queue.plans[sample.sample_id] = verification.build_plans(sample, vectors)
            except MissingTimes as error:
                queue.refused[sample.sample_id] = str(error)
        return queue

    def verify(self, model: EntailmentModel) -> Verification:
        """Verify all keypoints of all captions with the model; return the verdicts in the order of `plans`, and the
        numbers of sentences that were read. A caption with a keypoint that is too long for the model moves to
        `refused`, and the others are verified.
        """
        while True:
            plans = [plan for plans in self.plans.values() for plan in plans]
            try:
                return verify_keypoints(plans, model)
            except HypothesisTooLong as error:
                self._refuse(set(error.hypotheses))

    def _refuse(self, hypotheses: set[str]) -> None:
        for sample_id, plans in list(self.plans.items()):
            # A keypoint without a sentence is not judged, so it may be too long.
            too_long = [plan.hypothesis for plan in plans if plan.premises and plan.hypothesis in hypotheses]
            if too_long:
                self.refused[sample_id] = (
                    f"the keypoint {too_long[0][:80]!r} is so long that the verifier has no room for a sentence: "
                    "shorten the keypoint or split it"
                )
                del self.plans[sample_id]
