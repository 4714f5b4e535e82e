"""A queue in which the keypoints of many captions are verified together, so that no pair is verified twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from assets.metrics.ecs.verification import KeypointVerification, MissingTimes
from db.schema.inputs import KEYPOINTS
from db.scores.pending import PendingSample
from metrics_core.ecs import RankedPremises, Thresholds, Verification, verify_keypoints, verify_with_early_exit
from metrics_core.models.nli_inputs import HypothesisTooLong
from metrics_core.protocols import EntailmentModel


@dataclass(slots=True)
class CaptionQueue:
    """The captions of a batch whose keypoints are verified together, by sample_id. plans: for every keypoint of a
    caption, the sentences to verify it with. thresholds: those of the same keypoints, in the same order. refused: the
    reason why a caption cannot be verified; such a caption has no plans.
    """

    plans: dict[int, list[RankedPremises]] = field(default_factory=dict)
    thresholds: dict[int, list[float]] = field(default_factory=dict)
    refused: dict[int, str] = field(default_factory=dict)

    @classmethod
    def build(
        cls,
        verification: KeypointVerification,
        samples: Sequence[PendingSample],
        vectors: Mapping[str, NDArray[np.float32]],
        thresholds: Thresholds,
    ) -> CaptionQueue:
        """Build the queue of these captions; a caption without the times that the mode needs is put into `refused`.
        vectors: by text, those of the keypoints and sentences; needed if not all sentences are verified. thresholds:
        those of the dimensions.
        """
        queue = cls()
        for sample in samples:
            try:
                queue.plans[sample.sample_id] = verification.build_plans(sample, vectors)
            except MissingTimes as error:
                queue.refused[sample.sample_id] = str(error)
            else:
                levels = [thresholds.require_threshold(keypoint.dimension) for keypoint in sample[KEYPOINTS]]
                queue.thresholds[sample.sample_id] = levels
        return queue

    def verify(self, model: EntailmentModel, early_exit: bool) -> Verification:
        """Verify all keypoints of all captions with the model; return the verdicts in the order of `plans`, and the
        numbers of sentences that were read. A caption with a keypoint that is too long for the model moves to
        `refused`, and the others are verified. early_exit: verify no further sentence once one reaches the keypoint's
        threshold.
        """
        while True:
            plans = [plan for plans in self.plans.values() for plan in plans]
            levels = [level for levels in self.thresholds.values() for level in levels]
            try:
                return verify_with_early_exit(plans, model, levels) if early_exit else verify_keypoints(plans, model)
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
                del self.plans[sample_id], self.thresholds[sample_id]
