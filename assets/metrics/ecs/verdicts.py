"""The source of verdicts: how probably a caption entails each keypoint of its video, and by which sentence."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, ClassVar

from sqlalchemy.engine import Engine

from assets.metrics.ecs.verification import KeypointVerification, MissingTimes, is_verifiable
from assets.sources.base import Batch, Order, Source
from assets.sources.cached_models import CachingVerifier
from assets.sources.texts import TextVectors
from db.evidence.store import PostgresStore, Store, Table
from db.evidence.verdicts import (
    VERDICT_INPUTS,
    VERDICTS,
    VerdictRow,
    VerdictSet,
    list_captions_to_verify,
    list_unfinished_shards,
)
from db.schema.inputs import KEYPOINTS
from db.scores.pending import PendingSample
from metrics_core.ecs import KeypointVerdict, RankedPremises, Verification, verify_keypoints
from metrics_core.models.nli_inputs import HypothesisTooLong
from metrics_core.protocols import EntailmentModel, ModelIdentity


class KeypointVerdicts(Source[Mapping[int, VerdictSet]]):
    """The source of verdicts on all keypoints of captions; `load` and `ask` return a VerdictSet by sample_id. A set
    without verdicts has a status and a reason.
    """

    asset: ClassVar[str] = "ecs_verdict"
    description: ClassVar[str] = (
        "Whether captions entail the keypoints of their videos: the highest probability and the sentence that has it."
    )
    group: ClassVar[str] = "verdicts"
    reads: ClassVar[tuple[str, ...]] = ("sample", "keypoint", "reference")
    rests_on: ClassVar[tuple[type[Source[Any]], ...]] = (TextVectors,)
    checks: ClassVar[Mapping[str, str]] = {
        "verdicts_present": "Every keypoint of every caption has a verdict, or the caption a reason why it has none."
    }
    table: ClassVar[Table[Any, Any]] = VERDICTS
    noun: ClassVar[str] = "caption"
    product: ClassVar[str] = "verdicts"
    model_role: ClassVar[str] = "verifier"
    progress: ClassVar[str] = "{done} of {total} captions verified"
    # Their pairs make one queue that holds every pair once.
    at_a_time: ClassVar[int] = 512
    inputs = VERDICT_INPUTS

    def __init__(self, verification: KeypointVerification, vectors: TextVectors) -> None:
        self._verification = verification
        self._vectors = vectors
        self.sources = (vectors,)

    @property
    def model(self) -> ModelIdentity:
        """The identity of the verifier, the model that estimates whether a sentence entails a keypoint."""
        return self._verification.model.identity

    def open_store(self, engine: Engine, scorer_id: int, run_id: str = "") -> Store[int, VerdictSet]:
        """Return the store of the scorer's verdict sets in the database, by sample_id."""
        return PostgresStore(engine, self.table, scorer_id, run_id)

    def keys(self, batch: Batch) -> Iterator[int]:
        """Yield the ids of those samples that are captions with keypoints."""
        return (sample.sample_id for sample in batch.samples if is_verifiable(sample))

    def compute(self, keys: Sequence[int], batch: Batch) -> Iterator[Mapping[int, VerdictSet]]:
        """Verify every keypoint of these captions, and yield all verdict sets at once. A caption without the times that
        the mode needs is unverifiable, and so are those of a video with a keypoint that is too long for the model.
        """
        wanted = set(keys)
        samples = {sample.sample_id: sample for sample in batch.samples if sample.sample_id in wanted}
        vectors = batch.below[self._vectors]
        plans: dict[int, list[RankedPremises]] = {}
        refused: dict[int, str] = {}
        for sample_id, sample in samples.items():
            try:
                plans[sample_id] = self._verification.build_plans(sample, vectors)
            except MissingTimes as error:
                refused[sample_id] = str(error)
        model: EntailmentModel = self._verification.model
        if order := batch.order:
            place = f"captions {batch.n_done + 1} to {batch.n_done + len(batch.samples)}"
            model = CachingVerifier(order.engine, model, place, order.tell)
        verification = _verify(plans, refused, model)
        n_judged = model.n_verified if isinstance(model, CachingVerifier) else 0
        batch.counts.update(pairs_judged=n_judged, pairs_truncated=verification.n_truncated)
        verdicts = iter(zip(verification.verdicts, verification.pass_counts, strict=True))
        yield {
            sample_id: VerdictSet(sample_id, sample.input_sha256, 0, (), "unverifiable", refused[sample_id])
            if sample_id in refused
            else self._build_set(sample, plans[sample_id], islice(verdicts, len(plans[sample_id])))
            for sample_id, sample in samples.items()
        }

    def count(self, values: Mapping[int, VerdictSet]) -> Mapping[str, int]:
        """Return counts of captions, keypoints, passes and unverifiable captions, and zeros for the counts of pairs."""
        return {
            "captions": len(values),
            "keypoints": sum(len(one.verdicts) for one in values.values()),
            "passes": sum(one.n_passes for one in values.values()),
            "pairs_judged": 0,
            "pairs_truncated": 0,
            "unverifiable": sum(one.status != "ok" for one in values.values()),
        }

    def explain_failure(self, value: VerdictSet) -> str | None:
        """Return the reason why a caption has no verdicts; None if it has them."""
        return value.error

    def format_lack(self, missing: Sequence[int]) -> str:
        """Return "no verdicts on keypoints"."""
        return "no verdicts on keypoints"

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

    def _build_set(
        self,
        sample: PendingSample,
        plans: Sequence[RankedPremises],
        verdicts: Iterator[tuple[KeypointVerdict, int]],
    ) -> VerdictSet:
        rows = tuple(
            _build_row(keypoint.keypoint_id, verdict, plan, n_passes)
            for keypoint, plan, (verdict, n_passes) in zip(sample[KEYPOINTS], plans, verdicts, strict=True)
        )
        return VerdictSet(sample.sample_id, sample.input_sha256, self._verification.count_sentences(sample), rows)


def _build_row(keypoint_id: int, verdict: KeypointVerdict, plan: RankedPremises, n_passes: int) -> VerdictRow:
    at = verdict.sentence
    sentence = None if at is None else plan.premises[plan.sentence_indices.index(at)]
    return VerdictRow(keypoint_id, verdict.probability, at, sentence, n_passes)


def _verify(plans: dict[int, list[RankedPremises]], refused: dict[int, str], model: EntailmentModel) -> Verification:
    """Return the verdicts on all keypoints of all captions, in the order of `plans`. A caption with a keypoint that is
    too long for the model moves from there to `refused`, with the reason, and the others are verified.
    """
    while True:
        try:
            return verify_keypoints([plan for each in plans.values() for plan in each], model)
        except HypothesisTooLong as error:
            for sample_id, each in list(plans.items()):
                # A keypoint without a sentence is not judged, so it may be too long.
                too_long = [plan.hypothesis for plan in each if plan.premises and plan.hypothesis in error.hypotheses]
                if too_long:
                    refused[sample_id] = (
                        f"the keypoint {too_long[0][:80]!r} is so long that the verifier has no room for a sentence: "
                        "shorten the keypoint or split it"
                    )
                    del plans[sample_id]
