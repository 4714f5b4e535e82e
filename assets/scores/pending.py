"""The samples that a scorer has still to score, the sources that they need, and the active scorer of a metric."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from sqlalchemy.engine import Connection, Engine

from assets.reports.text import spelled
from assets.scores.base import Refusing, Scorer
from assets.sources.base import BATCH_SIZE, Forecast, Order, Source, chain
from db.evidence.models import fingerprint
from db.manifest.datasets import Dataset
from db.scores.quality import reasons_by_status
from db.scores.stored import activate_scorer, find_scorer, register_scorer
from db.scores.work import PENDING, PendingSample, batches, load_samples, pending_samples, shard_counts
from db.server.conflicts import retry_conflicts


@retry_conflicts
def register(engine: Engine, scorer: Scorer) -> int:
    """Return the scorer's id; a new scorer is stored first. It does not become the active one."""
    with engine.begin() as connection:
        return register_scorer(connection, **_identity(scorer))


def registered(connection: Connection, scorer: Scorer) -> int | None:
    """Return the scorer's id; None for a scorer that never ran."""
    return find_scorer(connection, **_identity(scorer))


def fingerprint_of(scorer: Scorer) -> str:
    """The fingerprint by which the database knows the scorer, as hexadecimal digits. Loads no model."""
    return fingerprint(_identity(scorer))


@retry_conflicts
def activate(engine: Engine, scorer_id: int, datasets: Sequence[Dataset]) -> None:
    """Make the scorer its metric's active one if its scores on these datasets allow it; see `activate_scorer`."""
    with engine.begin() as connection:
        activate_scorer(connection, scorer_id, [dataset.dataset_id for dataset in datasets])


def pending(engine: Engine, scorer: Scorer, dataset: Dataset, shard: int) -> list[int]:
    """Return the ids of the shard's samples that the scorer has still to score. Changes nothing in the database."""
    with engine.connect() as connection:
        return pending_samples(
            connection,
            scorer_id=registered(connection, scorer),
            dataset_id=dataset.dataset_id,
            shard=shard,
        )


def requests(scorer: Scorer, order: Order) -> Iterator[tuple[Source[Any], Callable[[], list[int]]]]:
    """Yield all sources below a scorer, and for every source a function that returns the samples to make evidence for.

    A source comes after the sources that it rests on. It serves the samples that the scorer, or the source above it,
    has still to do.
    """
    return _requests(scorer.sources, order, lambda: pending(order.engine, scorer, order.dataset, order.shard))


def make_source(scorer: Scorer, kind: type[Source[Any]], orders: Sequence[Order]) -> Mapping[str, int | str]:
    """Make the evidence of one kind's asset that a scorer lacks on shards of one dataset, and return its counts.

    The shards' samples go to the source together, so that small shards fill its batches. The sources that this kind
    rests on must have made theirs.
    """
    counts: dict[str, int | str] = {}
    # The same sources for every shard, in the same order.
    for of_shards in zip(*(requests(scorer, order) for order in orders), strict=True):
        source = of_shards[0][0]
        if source.asset == kind.asset:
            counts |= source.make(orders[0], sorted(sample for _, wanted in of_shards for sample in wanted()))
    return counts


def forecast(engine: Engine, scorer: Scorer, dataset: Dataset, shard: int) -> tuple[int, list[Forecast]]:
    """How many samples of a shard the scorer has still to score, and what models that cost money would be asked.

    Asks nothing. The scorer is registered, without becoming the active one.
    """
    order = Order(engine, dataset, shard, register(engine, scorer), run_id="")
    asked = [part for source, wanted in requests(scorer, order) for part in source.forecast(order, wanted())]
    return len(pending(engine, scorer, dataset, shard)), asked


Reasons = Counter[tuple[str, str | None]]
"""How many samples have no value, by status and reason."""


def refusals(scorer: Scorer, samples: Iterable[PendingSample]) -> Reasons | None:
    """Why the scorer can give none of these samples a value; None where it can, or where only models can tell.

    Asks no model. Where it gives reasons, a scoring of these samples stores no value.
    """
    reasons: Reasons = Counter()
    if not isinstance(scorer, Refusing):
        return None
    for sample in samples:
        if (refused := scorer.refusal(sample)) is None:
            return None
        reasons[refused.status, refused.reason] += 1
    return reasons


def reasons_in_words(reasons: Reasons) -> tuple[int, str]:
    """How many samples there are to speak of, and the most frequent of their reasons, with its share unless it is all.

    Samples of a kind that the metric is not for count only where there are no others.

    >>> reasons_in_words(Counter({("no_reference", "none"): 2, ("empty_text", "no"): 1, ("not_applicable", "qa"): 9}))
    (3, 'no reference, none (so 2 of them)')
    """
    meant = Counter({why: n for why, n in reasons.items() if why[0] != "not_applicable"}) or reasons
    ((status, reason), n) = meant.most_common(1)[0]
    most = f" (so {n} of them)" if n < meant.total() else ""
    return meant.total(), f"{spelled(status)}, {reason}{most}"


def why_none(engine: Engine, scorer: Scorer, dataset: Dataset, shards: Collection[int]) -> Reasons | None:
    """Why the scorer has a value for none of the samples of these shards: how many by status and reason.

    None where a sample has a value, or where only models can tell. Asks no model. The scorer is registered, without
    becoming the active one.
    """
    scorer_id = register(engine, scorer)
    with engine.connect() as connection:
        counts = shard_counts(connection, scorer_id, [dataset.dataset_id])
    if any("ok" in counts.get((dataset.dataset_id, shard), ()) for shard in shards):
        return None
    reasons: Reasons = Counter()
    for shard in shards:
        for ids in batches(pending(engine, scorer, dataset, shard), BATCH_SIZE):
            with engine.connect() as connection:
                samples = load_samples(connection, ids, scorer.inputs, scorer_id)
            if (refused := refusals(scorer, samples)) is None:
                return None
            reasons += refused
        with engine.connect() as connection:
            stored = reasons_by_status(connection, scorer_id, dataset.dataset_id, shard)
        reasons.update({(each.status, each.reason): each.n for each in stored if each.status not in PENDING})
    return reasons


def pending_by_shard(engine: Engine, scorer: Scorer, datasets: Iterable[Dataset]) -> dict[tuple[str, int], int]:
    """How many samples the scorer has still to score, by (dataset, shard)."""
    by_id = {dataset.dataset_id: dataset for dataset in datasets}
    with engine.connect() as connection:
        counts = shard_counts(connection, registered(connection, scorer), by_id)
    return {
        (dataset.name, shard): sum(counts.get((dataset.dataset_id, shard), {}).get(status, 0) for status in PENDING)
        for dataset in by_id.values()
        for shard in range(dataset.n_shards)
    }


def outstanding_shards(engine: Engine, scorer: Scorer, dataset: Dataset) -> set[int]:
    """Return the shards with evidence that an option left incomplete, although the samples may have scores."""
    scorer_id = register(engine, scorer)
    return {
        shard for source in chain(scorer.sources) for shard in source.outstanding(engine, scorer_id, dataset.dataset_id)
    }


def activate_if_complete(
    engine: Engine, scorer: Scorer, datasets: Sequence[Dataset], counts: Mapping[tuple[str, int], int]
) -> None:
    """Make the scorer its metric's active one if nothing is left to score on these datasets.

    counts: the result of `pending_by_shard`. Without samples to score there is no run that would activate the scorer.
    It may be a retired one, because the settings went back to it. A scorer without a score there does not change.
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
