"""Judging the pairs of many captions in one queue, by a model that remembers what it has said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.engine import Engine

from assets.ecs.checklist import Checklist, MissingTimes
from assets.sources.base import Tell
from assets.sources.memo import ask_missing
from db.entailments import Judged, Pair, load_entailments, store_entailments
from db.inputs import KEYPOINTS
from db.models import find_model
from db.work import PendingSample
from metrics_core.ecs import KeypointPlan, Thresholds, Verification, verify, verify_early_exit
from metrics_core.models.nli_inputs import HypothesisTooLong
from metrics_core.protocols import EntailmentModel, Entailments, ModelIdentity


class RememberingModel:
    """An EntailmentModel behind the table `entailment`, which another run or another dataset may have filled.

    n_judged: how many pairs the model itself was asked. tell: takes lines about progress, which begin with `place`.
    """

    def __init__(self, engine: Engine, model: EntailmentModel, place: str, tell: Tell) -> None:
        self._engine = engine
        self._model = model
        self._place = place
        self._tell = tell
        self.n_judged = 0

    @property
    def identity(self) -> ModelIdentity:
        """The identity of the model behind the memory."""
        return self._model.identity

    def entailment(self, pairs: Sequence[Pair]) -> Entailments:
        """P(entailment) of (premise, hypothesis) pairs, in their order; errors are those of the model.

        What was judged before an error is stored.
        """
        known = self._stored(pairs)
        ask_missing(
            self._engine,
            self.identity,
            [pair for pair in dict.fromkeys(pairs) if pair not in known],
            length=lambda pair: len(pair[0]) + len(pair[1]),
            ask=self._judge,
            store=lambda model_id, _, judged: self._keep(known, model_id, judged),
            tell=lambda done, total: self._tell(f"{self._place}: {done} of {total} pairs judged"),
        )
        said = [known[pair] for pair in pairs]
        return Entailments(
            np.array([each.probability for each in said], dtype=np.float64),
            np.array([each.truncated for each in said], dtype=np.bool_),
        )

    def _stored(self, pairs: Sequence[Pair]) -> dict[Pair, Judged]:
        with self._engine.connect() as connection:
            model_id = find_model(connection, self.identity.as_dict())
        return {} if model_id is None else load_entailments(self._engine, model_id, pairs)

    def _judge(self, pairs: Sequence[Pair]) -> dict[Pair, Judged]:
        said = self._model.entailment(pairs)
        self.n_judged += len(pairs)
        columns = zip(pairs, said.probabilities.tolist(), said.truncated.tolist(), strict=True)
        return {pair: Judged(probability, truncated) for pair, probability, truncated in columns}

    def _keep(self, known: dict[Pair, Judged], model_id: int, judged: Mapping[Pair, Judged]) -> None:
        known |= judged
        # What is no probability is left to the verdict, which refuses it and quotes the pair.
        sound = {pair: said for pair, said in judged.items() if 0 <= said.probability <= 1}
        store_entailments(self._engine, model_id, sound)


@dataclass(slots=True)
class CaptionQueue:
    """The captions of a batch: what is to be judged for each, at which thresholds, or why nothing is."""

    plans: dict[int, list[KeypointPlan]] = field(default_factory=dict)
    thresholds: dict[int, list[float]] = field(default_factory=dict)
    refused: dict[int, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        checklist: Checklist,
        samples: Sequence[PendingSample],
        vectors: Mapping[str, NDArray[np.float32]],
        thresholds: Thresholds,
    ) -> CaptionQueue:
        """The queue of some captions; one that lacks times which the mode asks for is refused."""
        queue = cls()
        for sample in samples:
            try:
                queue.plans[sample.sample_id] = checklist.plans(sample, vectors)
            except MissingTimes as error:
                queue.refused[sample.sample_id] = str(error)
            else:
                levels = [thresholds.of(keypoint.dimension) for keypoint in sample[KEYPOINTS]]
                queue.thresholds[sample.sample_id] = levels
        return queue

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
