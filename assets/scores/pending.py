"""The samples that a scorer has still to score, the sources that they need, and the active scorer of a metric."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from sqlalchemy.engine import Connection, Engine

from assets.reports.text import format_name
from assets.scores.base import Refusing, Scorer
from assets.sources.base import BATCH_SIZE, Forecast, Order, Source, walk_sources
from db.evidence.models import compute_fingerprint
from db.manifest.datasets import Dataset
from db.scores.pending import (
    PENDING_STATUSES,
    PendingSample,
    list_pending_samples,
    load_samples,
    load_shard_counts,
    split_ids,
)
from db.scores.quality import count_statuses_with_reasons
from db.scores.store import activate_scorer, find_scorer, register_scorer
from db.server.conflicts import retry_conflicts


@retry_conflicts
def store_scorer(engine: Engine, scorer: Scorer) -> int:
    """Return the scorer's id; a new scorer is stored first. It does not become the active one."""
    with engine.begin() as connection:
        return register_scorer(connection, **_build_identity(scorer))


def find_scorer_id(connection: Connection, scorer: Scorer) -> int | None:
    """Return the scorer's id; None for a scorer that never ran."""
    return find_scorer(connection, **_build_identity(scorer))


def compute_scorer_fingerprint(scorer: Scorer) -> str:
    """The fingerprint by which the database knows the scorer, as hexadecimal digits. Loads no model."""
    return compute_fingerprint(_build_identity(scorer))


@retry_conflicts
def update_active_scorer(engine: Engine, scorer_id: int, datasets: Sequence[Dataset]) -> None:
    """Make the scorer its metric's active one if its scores on these datasets allow it; see `activate_scorer`."""
    with engine.begin() as connection:
        activate_scorer(connection, scorer_id, [dataset.dataset_id for dataset in datasets])


def list_samples_to_score(engine: Engine, scorer: Scorer, dataset: Dataset, shard: int) -> list[int]:
    """Return the ids of the shard's samples that the scorer has still to score. Changes nothing in the database."""
    with engine.connect() as connection:
        return list_pending_samples(
            connection,
            scorer_id=find_scorer_id(connection, scorer),
            dataset_id=dataset.dataset_id,
            shard=shard,
        )


def list_source_requests(scorer: Scorer, order: Order) -> Iterator[tuple[Source[Any], Callable[[], list[int]]]]:
    """Yield all sources below a scorer, and for every source a function that returns the samples to make evidence for.

    A source comes after the sources that it rests on. It serves the samples that the scorer, or the source above it,
    has still to do.
    """
    return _walk_sources(
        scorer.sources, order, lambda: list_samples_to_score(order.engine, scorer, order.dataset, order.shard)
    )


def make_evidence(scorer: Scorer, kind: type[Source[Any]], orders: Sequence[Order]) -> Mapping[str, int | str]:
    """Make the evidence of one kind's asset that a scorer lacks on shards of one dataset, and return its counts.

    The shards' samples go to the source together, so that small shards fill its batches. The sources that this kind
    rests on must have made theirs.
    """
    counts: dict[str, int | str] = {}
    # The same sources for every shard, in the same order.
    for of_shards in zip(*(list_source_requests(scorer, order) for order in orders), strict=True):
        source = of_shards[0][0]
        if source.asset == kind.asset:
            counts |= source.make(orders[0], sorted(sample for _, wanted in of_shards for sample in wanted()))
    return counts


def forecast_shard(engine: Engine, scorer: Scorer, dataset: Dataset, shard: int) -> tuple[int, list[Forecast]]:
    """How many samples of a shard the scorer has still to score, and what models that cost money would be asked.

    Asks nothing. The scorer is registered, without becoming the active one.
    """
    order = Order(engine, dataset, shard, store_scorer(engine, scorer), run_id="")
    asked = [
        part for source, wanted in list_source_requests(scorer, order) for part in source.forecast(order, wanted())
    ]
    return len(list_samples_to_score(engine, scorer, dataset, shard)), asked


RefusalCounts = Counter[tuple[str, str | None]]
"""How many samples have no value, by status and reason."""


def count_refusals(scorer: Scorer, samples: Iterable[PendingSample]) -> RefusalCounts | None:
    """Why the scorer can give none of these samples a value; None where it can, or where only models can tell.

    Asks no model. Where it gives reasons, a scoring of these samples stores no value.
    """
    reasons: RefusalCounts = Counter()
    if not isinstance(scorer, Refusing):
        return None
    for sample in samples:
        if (refused := scorer.refusal(sample)) is None:
            return None
        reasons[refused.status, refused.reason] += 1
    return reasons


def format_refusals(reasons: RefusalCounts) -> tuple[int, str]:
    """How many samples there are to speak of, and the most frequent of their reasons, with its share unless it is all.

    Samples of a kind that the metric is not for count only where there are no others.

    >>> format_refusals(Counter({("no_reference", "none"): 2, ("empty_text", "no"): 1, ("not_applicable", "qa"): 9}))
    (3, 'no reference, none (so 2 of them)')
    """
    meant = Counter({why: n for why, n in reasons.items() if why[0] != "not_applicable"}) or reasons
    ((status, reason), n) = meant.most_common(1)[0]
    most = f" (so {n} of them)" if n < meant.total() else ""
    return meant.total(), f"{format_name(status)}, {reason}{most}"


def count_shard_refusals(
    engine: Engine, scorer: Scorer, dataset: Dataset, shards: Collection[int]
) -> RefusalCounts | None:
    """Why the scorer has a value for none of the samples of these shards: how many by status and reason.

    None where a sample has a value, or where only models can tell. Asks no model. The scorer is registered, without
    becoming the active one.
    """
    scorer_id = store_scorer(engine, scorer)
    with engine.connect() as connection:
        counts = load_shard_counts(connection, scorer_id, [dataset.dataset_id])
    if any("ok" in counts.get((dataset.dataset_id, shard), ()) for shard in shards):
        return None
    reasons: RefusalCounts = Counter()
    for shard in shards:
        for ids in split_ids(list_samples_to_score(engine, scorer, dataset, shard), BATCH_SIZE):
            with engine.connect() as connection:
                samples = load_samples(connection, ids, scorer.inputs, scorer_id)
            if (refused := count_refusals(scorer, samples)) is None:
                return None
            reasons += refused
        with engine.connect() as connection:
            stored = count_statuses_with_reasons(connection, scorer_id, dataset.dataset_id, shard)
        reasons.update({(each.status, each.reason): each.n for each in stored if each.status not in PENDING_STATUSES})
    return reasons


def count_pending_by_shard(engine: Engine, scorer: Scorer, datasets: Iterable[Dataset]) -> dict[tuple[str, int], int]:
    """How many samples the scorer has still to score, by (dataset, shard)."""
    by_id = {dataset.dataset_id: dataset for dataset in datasets}
    with engine.connect() as connection:
        counts = load_shard_counts(connection, find_scorer_id(connection, scorer), by_id)
    return {
        (dataset.name, shard): sum(
            counts.get((dataset.dataset_id, shard), {}).get(status, 0) for status in PENDING_STATUSES
        )
        for dataset in by_id.values()
        for shard in range(dataset.n_shards)
    }


def list_incomplete_shards(engine: Engine, scorer: Scorer, dataset: Dataset) -> set[int]:
    """Return the shards with evidence that an option left incomplete, although the samples may have scores."""
    scorer_id = store_scorer(engine, scorer)
    return {
        shard
        for source in walk_sources(scorer.sources)
        for shard in source.outstanding(engine, scorer_id, dataset.dataset_id)
    }


def update_active_scorer_if_complete(
    engine: Engine, scorer: Scorer, datasets: Sequence[Dataset], counts: Mapping[tuple[str, int], int]
) -> None:
    """Make the scorer its metric's active one if nothing is left to score on these datasets.

    counts: the result of `count_pending_by_shard`. Without samples to score there is no run that would activate the scorer.
    It may be a retired one, because the settings went back to it. A scorer without a score there does not change.
    """
    with engine.connect() as connection:
        scorer_id = find_scorer_id(connection, scorer)
    if scorer_id is not None and not any(counts.values()):
        update_active_scorer(engine, scorer_id, datasets)


def _walk_sources(
    sources: Sequence[Source[Any]], order: Order, asked: Callable[[], list[int]]
) -> Iterator[tuple[Source[Any], Callable[[], list[int]]]]:
    for source in sources:
        wanted = partial(source.pending, order, asked)
        yield from _walk_sources(source.sources, order, wanted)
        yield source, wanted


def _build_identity(scorer: Scorer) -> dict[str, Any]:
    return {
        "metric": scorer.metric,
        "models": scorer.models(),
        "params": scorer.params(),
        "code_version": scorer.code_version,
    }
