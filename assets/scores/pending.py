"""Pending work of a scorer: the samples without a current score, the evidence that they lack, and what it will cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from sqlalchemy.engine import Connection, Engine

from assets.scores.base import Refusing, Scorer
from assets.sources.base import BATCH_SIZE, Forecast, Order, Source, walk_sources
from assets.words.text import format_name
from db.evidence.models import compute_fingerprint
from db.manifest.datasets import Dataset
from db.schema.inputs import DRAW_NAME
from db.scores.pending import (
    PENDING_STATUSES,
    PendingSample,
    list_pending_samples,
    list_shard_samples,
    load_samples,
    load_shard_counts,
    split_ids,
)
from db.scores.quality import count_statuses_with_reasons
from db.scores.store import activate_scorer, find_scorer, register_scorer
from db.selection.draws import list_coming_samples
from db.server.conflicts import retry_conflicts


@retry_conflicts
def store_scorer(engine: Engine, scorer: Scorer) -> int:
    """Return the scorer's id in the database, and store the scorer first if it is new. The metric's active scorer,
    whose scores are shown, stays the same.
    """
    with engine.begin() as connection:
        return register_scorer(connection, **_build_identity(scorer))


def find_scorer_id(connection: Connection, scorer: Scorer) -> int | None:
    """Return the scorer's id in the database; None if it is not stored there."""
    return find_scorer(connection, **_build_identity(scorer))


def compute_scorer_fingerprint(scorer: Scorer) -> str:
    """Return the hash of the scorer's metric, models, parameters and code version, as hexadecimal digits. The database
    finds a scorer by this hash. No model is loaded.
    """
    return compute_fingerprint(_build_identity(scorer))


@retry_conflicts
def update_active_scorer(engine: Engine, scorer_id: int, datasets: Sequence[Dataset]) -> None:
    """Make a scorer its metric's active one in the database if it has a score of status "ok" on one of these datasets.
    If no scorer is active, or the active one has no score of status "ok" on any dataset, any score on these datasets is
    enough. Otherwise nothing changes.
    """
    with engine.begin() as connection:
        activate_scorer(connection, scorer_id, [dataset.dataset_id for dataset in datasets])


def list_samples_to_score(engine: Engine, scorer: Scorer, dataset: Dataset, shard: int) -> list[int]:
    """Return the ids of the shard's samples whose score by the scorer is missing, stale or failed, ascending; [] if
    none is left. Changes nothing in the database; for a scorer that is not stored there yet, all samples are left to
    score.
    """
    with engine.connect() as connection:
        return list_pending_samples(
            connection,
            scorer_id=find_scorer_id(connection, scorer),
            dataset_id=dataset.dataset_id,
            shard=shard,
        )


def _list_source_requests(scorer: Scorer, order: Order) -> Iterator[tuple[Source[Any], Callable[[], list[int]]]]:
    """Yield (source, function) for every source that a scorer needs, on the dataset and shard of the order. The
    function reads the database and returns the ids of the samples that the source has to make evidence for. A source
    comes after the sources that it needs itself.

    A sample is pending for a source if the source has to make evidence before the scorer, or the source that needs this
    one, can use it. A source that two others need comes twice.
    """
    return _walk_sources(
        scorer.sources, order, lambda: list_samples_to_score(order.engine, scorer, order.dataset, order.shard)
    )


def make_evidence(scorer: Scorer, kind: type[Source[Any]], orders: Sequence[Order]) -> Mapping[str, int | str]:
    """Make and store the evidence that a scorer lacks from its source of class `kind`, for several shards of one
    dataset together; return counts. The counts are those of `Source.make`: numbers, and names of models, by name; {} if
    the scorer has no such source. orders: one for every shard.

    The samples of all shards go to the source together, so that small shards fill its batches. Sources that this one
    needs must have made their evidence. Orders with an outbox are only for sources that ask chat models.
    """
    counts: dict[str, int | str] = {}
    # Every shard has the same sources, in the same order.
    for requests in zip(*(_list_source_requests(scorer, order) for order in orders), strict=True):
        source = requests[0][0]
        if source.asset == kind.asset and (orders[0].outbox is None or source.chat_models):
            sample_ids = sorted(sample_id for _, list_pending in requests for sample_id in list_pending())
            counts |= source.make(orders[0], sample_ids)
    return counts


def forecast_shard(engine: Engine, scorer: Scorer, dataset: Dataset, shard: int) -> tuple[int, list[Forecast]]:
    """Return (number of samples that the scorer has to score on the shard, with those that draws reach by then,
    forecasts by role of the requests to models that may cost money; [] if no model need be asked). Asks none, but
    stores a new scorer. Raises FilterError and SelectionError for a draw's condition that no longer works.
    """
    order = Order(engine, dataset, shard, store_scorer(engine, scorer), run_id="")
    forecasts = [
        forecast
        for source, list_pending in _list_source_requests(scorer, order)
        for forecast in source.forecast(order, list_pending())
    ]
    pending = list_samples_to_score(engine, scorer, dataset, shard)
    if coming := _list_coming_samples(order, scorer):
        forecasts += [part for source in walk_sources(scorer.sources) for part in source.forecast(order, coming)]
    return len({*pending, *coming}), forecasts


RefusalCounts = Counter[tuple[str, str | None]]
"""Number of samples that cannot have a value, by (status, reason)."""


def count_refusals(scorer: Scorer, samples: Iterable[PendingSample]) -> RefusalCounts | None:
    """Count samples by the (status, reason) for which the scorer refuses them; return None if one of them may get a
    value. No model is asked, so a sample that only a model can refuse may get a value. Without samples the counter is
    empty; a scorer without `refusal` always gives None.
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
    """Return (number of samples, text with the most frequent status and reason, and its count unless all have it).
    Samples with status not_applicable count only if all samples have it. reasons: at least one, from `count_refusals`.

    >>> format_refusals(Counter({("no_reference", "none"): 2, ("empty_text", "no"): 1, ("not_applicable", "qa"): 9}))
    (3, 'no reference, none (2 of them)')
    """
    counted = Counter({why: n for why, n in reasons.items() if why[0] != "not_applicable"}) or reasons
    ((status, reason), n) = counted.most_common(1)[0]
    share = f" ({n} of them)" if n < counted.total() else ""
    return counted.total(), f"{format_name(status)}, {reason}{share}"


def count_shard_refusals(
    engine: Engine, scorer: Scorer, dataset: Dataset, shards: Collection[int]
) -> RefusalCounts | None:
    """Count the samples of these shards by the (status, reason) for which they have no value. Return None if one sample
    has a value, or may still get one. Asks no model, but stores the scorer if it is new.
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
        reasons.update(
            {(count.status, count.reason): count.n for count in stored if count.status not in PENDING_STATUSES}
        )
    return reasons


def count_pending_by_shard(engine: Engine, scorer: Scorer, datasets: Iterable[Dataset]) -> dict[tuple[str, int], int]:
    """Return the number of samples whose score by the scorer is missing, stale or failed, by (name of the dataset,
    shard). Every shard of these datasets has an entry: 0 if it is complete.
    """
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
    """Return the numbers of a dataset's shards where a source of the scorer still has evidence to make, although all
    samples may have scores. This is so where a draw wants further answers of a judge. Stores the scorer if it is new.
    """
    scorer_id = store_scorer(engine, scorer)
    return {
        shard
        for source in walk_sources(scorer.sources)
        for shard in source.outstanding(engine, scorer_id, dataset.dataset_id)
    }


def update_active_scorer_if_complete(
    engine: Engine, scorer: Scorer, datasets: Sequence[Dataset], counts: Mapping[tuple[str, int], int]
) -> None:
    """Make the scorer its metric's active one in the database, by the rule of `update_active_scorer`, if no sample of
    these datasets is left to score. A scorer that was never stored is not stored now either. counts: the result of
    `count_pending_by_shard` for these datasets.

    With nothing to score there is no run that would activate the scorer, which may be a retired one that the settings
    went back to.
    """
    with engine.connect() as connection:
        scorer_id = find_scorer_id(connection, scorer)
    if scorer_id is not None and not any(counts.values()):
        update_active_scorer(engine, scorer_id, datasets)


def _list_coming_samples(order: Order, scorer: Scorer) -> list[int]:
    """List the ids of the shard's samples that draws reach as soon as it is scored, ascending."""
    if all(needed.name != DRAW_NAME for needed in scorer.inputs):
        return []
    with order.engine.connect() as connection:
        coming = list_coming_samples(connection, order.dataset, scorer.metric)
        of_shard = list_shard_samples(connection, order.dataset.dataset_id, order.shard) if coming else ()
    return sorted(coming.intersection(of_shard))


def _walk_sources(
    sources: Sequence[Source[Any]], order: Order, asked: Callable[[], list[int]]
) -> Iterator[tuple[Source[Any], Callable[[], list[int]]]]:
    for source in sources:
        list_pending = partial(source.pending, order, asked)
        yield from _walk_sources(source.sources, order, list_pending)
        yield source, list_pending


def _build_identity(scorer: Scorer) -> dict[str, Any]:
    return {
        "metric": scorer.metric,
        "models": scorer.models(),
        "params": scorer.params(),
        "code_version": scorer.code_version,
    }
