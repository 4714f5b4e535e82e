"""Which samples a scorer has still to score, and which scorer of a metric is the active one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sqlalchemy.engine import Engine

from assets.scores.base import Scorer
from assets.scores.checklist import INPUTS
from db.manifest import Dataset
from db.scores import find_scorer, register_scorer
from db.verdicts import pending_verdicts
from db.work import PendingSample, batches, load_samples, pending_samples

BATCH_SIZE = 256


def activate(engine: Engine, scorer: Scorer) -> int:
    """Register the scorer as its metric's active one and return its id."""
    with engine.begin() as connection:
        return register_scorer(connection, **_identity(scorer))


def register(engine: Engine, scorer: Scorer) -> int:
    """The scorer's id, without making it the active one."""
    with engine.begin() as connection:
        return register_scorer(connection, **_identity(scorer), activate=False)


def pending(engine: Engine, scorer: Scorer, dataset: Dataset, shard: int) -> list[int]:
    """Ids of the samples of a shard that the scorer has still to score. Looks only: the active scorer stays active."""
    with engine.connect() as connection:
        return pending_samples(
            connection,
            scorer_id=find_scorer(connection, **_identity(scorer)),
            dataset_id=dataset.dataset_id,
            shard=shard,
            inputs=scorer.inputs,
        )


def unverified(engine: Engine, scorer: Scorer, dataset: Dataset, shard: int, *, in_full: bool) -> list[int]:
    """Ids of the captions of a shard whose keypoints the scorer's checklist has still to verify.

    in_full: those too that an early exit decided, but left with lower bounds.
    """
    assert scorer.checklist is not None
    with engine.connect() as connection:
        return pending_verdicts(
            connection,
            scorer_id=find_scorer(connection, **_identity(scorer)),
            dataset_id=dataset.dataset_id,
            shard=shard,
            inputs=INPUTS,
            default_threshold=None if in_full else scorer.checklist.default_threshold,
        )


def pending_batches(engine: Engine, scorer: Scorer, dataset: Dataset, shard: int) -> Iterator[list[PendingSample]]:
    """The samples of a shard that models have still to look at, some at a time."""
    if scorer.checklist is None:
        todo = pending(engine, scorer, dataset, shard)
    else:
        todo = unverified(engine, scorer, dataset, shard, in_full=True)
    for ids in batches(todo, BATCH_SIZE):
        with engine.connect() as connection:
            yield load_samples(connection, ids, scorer.inputs)


def pending_by_shard(engine: Engine, scorer: Scorer, datasets: Iterable[Dataset]) -> dict[tuple[str, int], int]:
    """How many samples the scorer has still to score, by (dataset, shard)."""
    return {
        (dataset.name, shard): len(pending(engine, scorer, dataset, shard))
        for dataset in datasets
        for shard in range(dataset.n_shards)
    }


def activate_if_complete(engine: Engine, scorer: Scorer, counts: Mapping[tuple[str, int], int]) -> None:
    """Make a scorer its metric's active one where, by `pending_by_shard`, nothing is left to score.

    No run would do it then. It may be one that was retired: the settings went back to it.
    """
    if not any(counts.values()):
        activate(engine, scorer)


def _identity(scorer: Scorer) -> dict[str, Any]:
    return {
        "metric": scorer.metric,
        "models": scorer.models(),
        "params": scorer.params(),
        "code_version": scorer.code_version,
    }
