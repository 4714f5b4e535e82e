"""Which samples a scorer has still to score, and which scorer of a metric is the active one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from sqlalchemy.engine import Connection, Engine

from assets.scores.base import Scorer
from assets.sources.base import Order, Source, chain
from db.manifest import Dataset
from db.scores import activate_scorer, find_scorer, register_scorer
from db.work import pending_samples


def register(engine: Engine, scorer: Scorer) -> int:
    """The scorer's id, without making it the active one."""
    with engine.begin() as connection:
        return register_scorer(connection, **_identity(scorer))


def registered(connection: Connection, scorer: Scorer) -> int | None:
    """The scorer's id, or None when it was never run."""
    return find_scorer(connection, **_identity(scorer))


def activate(engine: Engine, scorer_id: int, datasets: Sequence[Dataset]) -> None:
    """Make a scorer its metric's active one if its scores of these datasets allow it; see `activate_scorer`."""
    with engine.begin() as connection:
        activate_scorer(connection, scorer_id, [dataset.dataset_id for dataset in datasets])


def pending(engine: Engine, scorer: Scorer, dataset: Dataset, shard: int) -> list[int]:
    """Ids of the samples of a shard that the scorer has still to score. Looks only: the active scorer stays active."""
    with engine.connect() as connection:
        return pending_samples(
            connection,
            scorer_id=registered(connection, scorer),
            dataset_id=dataset.dataset_id,
            shard=shard,
            inputs=scorer.inputs,
        )


def requests(scorer: Scorer, order: Order) -> Iterator[tuple[Source[Any], Callable[[], list[int]]]]:
    """Every source that a scorer rests on, those first that others rest on; each with the samples to be made.

    A source is asked for the samples that the scorer, or the source that rests on it, has still to do.
    """
    return _requests(scorer.sources, order, lambda: pending(order.engine, scorer, order.dataset, order.shard))


def make_source(scorer: Scorer, kind: type[Source[Any]], order: Order) -> Mapping[str, int | str]:
    """Make what a scorer lacks of one kind of source on a shard, whose own sources are made; returns its counts."""
    counts: dict[str, int | str] = {}
    for source, wanted in requests(scorer, order):
        if isinstance(source, kind):
            counts |= source.make(order, wanted())
    return counts


def pending_by_shard(engine: Engine, scorer: Scorer, datasets: Iterable[Dataset]) -> dict[tuple[str, int], int]:
    """How many samples the scorer has still to score, by (dataset, shard)."""
    return {
        (dataset.name, shard): len(pending(engine, scorer, dataset, shard))
        for dataset in datasets
        for shard in range(dataset.n_shards)
    }


def outstanding_shards(engine: Engine, scorer: Scorer, dataset: Dataset) -> set[int]:
    """The shards where a source of the scorer left something open that no missing score tells of."""
    scorer_id = register(engine, scorer)
    orders = [Order(engine, dataset, shard, scorer_id, run_id="") for shard in range(dataset.n_shards)]
    return {order.shard for order in orders if any(source.outstanding(order) for source in chain(scorer.sources))}


def activate_if_complete(
    engine: Engine, scorer: Scorer, datasets: Sequence[Dataset], counts: Mapping[tuple[str, int], int]
) -> None:
    """Make a scorer its metric's active one where, by `pending_by_shard`, nothing is left to score of some datasets.

    No run would do it then. It may be one that was retired: the settings went back to it. One that has scored nothing
    there stays what it is.
    """
    with engine.connect() as connection:
        scorer_id = registered(connection, scorer)
    if scorer_id is not None and not any(counts.values()):
        activate(engine, scorer_id, datasets)


def _requests(
    sources: Sequence[Source[Any]], order: Order, asked: Callable[[], list[int]]
) -> Iterator[tuple[Source[Any], Callable[[], list[int]]]]:
    for source in sources:
        wanted = partial(source.pending, order, asked)
        yield from _requests(source.sources, order, wanted)
        yield source, wanted


def _identity(scorer: Scorer) -> dict[str, Any]:
    return {
        "metric": scorer.metric,
        "models": scorer.models(),
        "params": scorer.params(),
        "code_version": scorer.code_version,
    }
