"""An NLI model that remembers: each pair is judged once, its probability stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from sqlalchemy.engine import Engine

from db.entailments import Judged, Pair, find_verifier, load_entailments, register_verifier, store_entailments
from metrics_core.protocols import EntailmentModel, Entailments, ModelIdentity

# Pairs judged between two writes: enough to share batches by length, little enough to lose in a crash.
CHUNK = 2048


class RememberingModel:
    """An EntailmentModel behind the table `entailment`, which another run or another dataset may have filled.

    n_judged: the pairs that the model was asked for. `tell` is told how many of a call's new pairs are judged, `place`
    first.
    """

    def __init__(self, engine: Engine, model: EntailmentModel, place: str, tell: Callable[[str], None]) -> None:
        self._engine = engine
        self._model = model
        self._place = place
        self._tell = tell
        self.n_judged = 0

    @property
    def identity(self) -> ModelIdentity:
        """That of the model."""
        return self._model.identity

    def entailment(self, pairs: Sequence[Pair]) -> Entailments:
        """P(entailment) of (premise, hypothesis) pairs, in their order; errors are those of the model.

        What was judged before an error is stored.
        """
        known = self._stored(pairs)
        missing = [pair for pair in dict.fromkeys(pairs) if pair not in known]
        # Longest first: neighbours in length share a batch, and running out of memory shows at once, not at the end.
        missing.sort(key=lambda pair: len(pair[0]) + len(pair[1]), reverse=True)
        for start in range(0, len(missing), CHUNK):
            self._tell(f"{self._place}: {start} of {len(missing)} pairs judged")
            known |= self._judge(missing[start : start + CHUNK])
        found = [known[pair] for pair in pairs]
        return Entailments(
            np.array([each.probability for each in found], dtype=np.float64),
            np.array([each.truncated for each in found], dtype=np.bool_),
        )

    def _stored(self, pairs: Sequence[Pair]) -> dict[Pair, Judged]:
        with self._engine.connect() as connection:
            verifier_id = find_verifier(connection, self.identity.as_dict())
        return {} if verifier_id is None else load_entailments(self._engine, verifier_id, pairs)

    def _judge(self, pairs: Sequence[Pair]) -> dict[Pair, Judged]:
        found = self._model.entailment(pairs)
        columns = zip(pairs, found.probabilities.tolist(), found.truncated.tolist(), strict=True)
        judged = {pair: Judged(probability, truncated) for pair, probability, truncated in columns}
        with self._engine.begin() as connection:
            verifier_id = register_verifier(connection, self.identity.as_dict())
        # What is no probability is left to the verdict, which refuses it and quotes the pair.
        sound = {pair: said for pair, said in judged.items() if 0 <= said.probability <= 1}
        store_entailments(self._engine, verifier_id, sound)
        self.n_judged += len(judged)
        return judged
