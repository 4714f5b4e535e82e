"""Verifying the keypoints of a shard's captions: rows, one queue of pairs for many captions, rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.engine import Engine

from assets.scores.base import Scorer
from assets.scores.checklist import INPUTS, Checklist, MissingTimes
from assets.scores.features import load_vectors
from assets.scores.pending import register, unverified
from assets.verdicts.cache import RememberingModel
from db.manifest import Dataset
from db.thresholds import label_thresholds
from db.verdicts import VerdictRow, VerdictSet, write_verdicts
from db.work import PendingSample, batches, load_samples
from metrics_core.ecs import KeypointPlan, KeypointVerdict, Thresholds, Verification, verify, verify_early_exit
from metrics_core.models.nli_inputs import HypothesisTooLong
from metrics_core.protocols import EntailmentModel

# Captions whose pairs make one queue, in which each pair stands once: as many as are in memory at a time.
BATCH_SIZE = 512


@dataclass(slots=True)
class ShardVerdicts:
    """What a run did on a shard.

    n_passes: pairs, each keypoint counting its own. n_judged: pairs that the model was asked for; the others are
    repeated or were known. n_truncated: different pairs of a queue whose premise was cut. unverifiable: why, for each
    caption that could not be verified.
    """

    n_captions: int = 0
    n_keypoints: int = 0
    n_passes: int = 0
    n_judged: int = 0
    n_truncated: int = 0
    unverifiable: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Queue:
    """The captions of a batch: what is to be judged for each, at which thresholds, or why nothing is."""

    plans: dict[int, list[KeypointPlan]] = field(default_factory=dict)
    thresholds: dict[int, list[float]] = field(default_factory=dict)
    refused: dict[int, str] = field(default_factory=dict)

    def judge(self, model: EntailmentModel, early_exit: bool) -> Verification:
        """All pairs of all captions; a caption with a keypoint that is too long for the model moves to the refused."""
        while True:
            plans = [plan for of_caption in self.plans.values() for plan in of_caption]
            levels = [level for of_caption in self.thresholds.values() for level in of_caption]
            try:
                return verify_early_exit(plans, model, levels) if early_exit else verify(plans, model)
            except HypothesisTooLong as error:
                self._refuse(set(error.hypotheses))

    def _refuse(self, hypotheses: set[str]) -> None:
        for sample_id, plans in list(self.plans.items()):
            # Where there is no sentence, nothing is judged, however long the keypoint.
            too_long = [plan.hypothesis for plan in plans if plan.premises and plan.hypothesis in hypotheses]
            if too_long:
                self.refused[sample_id] = (
                    f"the verifier has no room for a sentence beside the keypoint {too_long[0][:80]!r}: shorten the "
                    "keypoint or split it"
                )
                del self.plans[sample_id], self.thresholds[sample_id]


def verify_shard(
    engine: Engine,
    scorer: Scorer,
    dataset: Dataset,
    shard: int,
    *,
    run_id: str,
    tell: Callable[[str], None],
    early_exit: bool = False,
) -> ShardVerdicts:
    """Reach and store a verdict on every keypoint of the captions that lack it, some hundred captions at a time.

    With early_exit a keypoint is left alone once a sentence reaches its threshold: the same decisions in fewer passes,
    and lower bounds for probabilities. A run without it completes them.

    The model is loaded only when there is a pair that it has never judged. Raises MissingVectors where retrieval needs
    vectors that are not there. A keypoint too long for the model makes the captions of its video unverifiable.
    """
    checklist = scorer.checklist
    assert checklist is not None
    scorer_id, report = register(engine, scorer), ShardVerdicts()
    with engine.connect() as connection:
        stored = label_thresholds(connection, scorer_id, dataset.dataset_id)
    thresholds = Thresholds(stored, checklist.default_threshold)
    todo = unverified(engine, scorer, dataset, shard, in_full=not early_exit)
    for ids in batches(todo, BATCH_SIZE):
        with engine.connect() as connection:
            samples = load_samples(connection, ids, INPUTS)
        queue = _queue(checklist, samples, load_vectors(engine, scorer, samples), thresholds)
        place = f"captions {report.n_captions + 1} to {report.n_captions + len(ids)} of {len(todo)}"
        model = RememberingModel(engine, checklist.model, place, tell)
        found = queue.judge(model, early_exit)
        sets = _verdict_sets(checklist, samples, queue, found)
        write_verdicts(engine, scorer_id, run_id, sets)
        report.n_captions += len(ids)
        report.n_keypoints += len(found.verdicts)
        report.n_passes += found.n_passes
        report.n_judged += model.n_judged
        report.n_truncated += found.n_truncated
        report.unverifiable += queue.refused.values()
    return report


def _queue(
    checklist: Checklist,
    samples: Sequence[PendingSample],
    vectors: Mapping[str, NDArray[np.float32]],
    thresholds: Thresholds,
) -> _Queue:
    queue = _Queue()
    for sample in samples:
        try:
            queue.plans[sample.sample_id] = checklist.plans(sample, vectors)
        except MissingTimes as error:
            queue.refused[sample.sample_id] = str(error)
        else:
            queue.thresholds[sample.sample_id] = [thresholds.of(keypoint.dimension) for keypoint in sample.keypoints]
    return queue


def _verdict_sets(
    checklist: Checklist, samples: Sequence[PendingSample], queue: _Queue, found: Verification
) -> list[VerdictSet]:
    verdicts = iter(zip(found.verdicts, found.passes, strict=True))
    by_caption = {i: list(islice(verdicts, len(plans))) for i, plans in queue.plans.items()}
    sets = []
    for sample in samples:
        if why := queue.refused.get(sample.sample_id):
            sets.append(VerdictSet(sample.sample_id, sample.input_sha256, 0, (), "unverifiable", why))
            continue
        rows = tuple(
            _row(keypoint.keypoint_id, verdict, plan, n_passes)
            for keypoint, plan, (verdict, n_passes) in zip(
                sample.keypoints, queue.plans[sample.sample_id], by_caption[sample.sample_id], strict=True
            )
        )
        sets.append(VerdictSet(sample.sample_id, sample.input_sha256, checklist.count_sentences(sample), rows))
    return sets


def _row(keypoint_id: int, verdict: KeypointVerdict, plan: KeypointPlan, n_passes: int) -> VerdictRow:
    at = verdict.sentence
    sentence = None if at is None else plan.premises[plan.sentences.index(at)]
    return VerdictRow(keypoint_id, verdict.probability, at, sentence, verdict.is_lower_bound, n_passes)
