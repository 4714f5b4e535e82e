"""A cache of promises for pages: their sets are loaded once, and the answers about them again at every call."""

from __future__ import annotations

from threading import Lock

from sqlalchemy.engine import Engine

from assets.promise.select import load_promise_state
from assets.promise.state import PromiseState, compute_promise_state, load_promise_answers
from assets.selection.select import MakeEncoder
from db.manifest.datasets import Dataset

# The sets of a million captions take 30 MB.
_MOST_PROMISES = 4


class PromiseCache:
    """A cache of the sets of at most four promises, for the pages of a server."""

    def __init__(self, engine: Engine, make_encoder: MakeEncoder) -> None:
        """make_encoder: as in `make_selection`."""
        self._engine, self._make_encoder = engine, make_encoder
        self._made: dict[tuple[Dataset, int], PromiseState] = {}
        self._first = Lock()

    def load(self, dataset: Dataset, promise_id: int) -> PromiseState:
        """Return the state of a promise on a dataset, with its present answers. Raises SelectionError where the dataset
        has no such promise, or the order of its candidates had changed before the first call.
        """
        name = dataset, promise_id
        with self._first:
            if name not in self._made:
                self._made[name] = load_promise_state(
                    self._engine, dataset, promise_id, self._make_encoder, lambda _line: None
                )
                if len(self._made) > _MOST_PROMISES:
                    del self._made[next(iter(self._made))]
            made = self._made[name]
        with self._engine.connect() as connection:
            answers = load_promise_answers(connection, made.sets.eligible, made.terms, made.sets.sample_ids)
        return compute_promise_state(made.terms, made.sets, made.attempt, answers)
