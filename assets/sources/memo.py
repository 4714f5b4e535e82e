"""A loop that asks a model the questions without a stored answer, in chunks, and stores every chunk of answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from sqlalchemy.engine import Engine

from db.evidence.models import register_model
from metrics_core.protocols import ModelIdentity

K = TypeVar("K")
V = TypeVar("V")
# Questions between two writes: enough to share batches by length, little enough to lose in a crash.
CHUNK = 2048


def ask_missing(
    engine: Engine,
    identity: ModelIdentity,
    missing: Sequence[K],
    *,
    length: Callable[[K], int],
    ask: Callable[[Sequence[K]], V],
    store: Callable[[int, Sequence[K], V], object],
    tell: Callable[[int, int], None],
) -> None:
    """Ask the model all questions of `missing`, the longest first, and store its answers after every chunk of 2,048.
    length: returns the length of a question, in any unit. ask: returns the model's answers to a chunk of questions.
    store: takes the model's id, the chunk and its answers. tell: takes the number of answered questions and of all.

    The model is registered in the database. Raises the errors of `ask` and `store`; answers that were stored stay.
    """
    # Longest first: neighbours in length share a batch, and running out of memory shows at once, not at the end.
    queue = sorted(missing, key=length, reverse=True)
    for start in range(0, len(queue), CHUNK):
        tell(start, len(queue))
        chunk = queue[start : start + CHUNK]
        answers = ask(chunk)
        with engine.begin() as connection:
            model_id = register_model(connection, identity.as_dict())
        store(model_id, chunk, answers)
    if queue:
        tell(len(queue), len(queue))
