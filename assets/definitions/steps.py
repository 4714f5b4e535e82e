"""A step: the computation of an asset on shards of a run, without Dagster, so that other processes can do it too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import Any

from assets.datasets.leases import lease_partitions
from assets.datasets.lookup import SHARDS_PER_GROUP
from assets.definitions.curation import Curation, Step
from assets.metrics.registry import list_source_classes
from assets.progress import LineWriter, throttle_lines
from assets.scores.draws import settle_undrawn_samples
from assets.scores.pending import make_evidence, store_scorer
from assets.scores.run import score_shard
from assets.sources.base import MissingEvidence, Order
from assets.words.text import format_count

# Of the shards that a source has left, a process takes one of so many parts at once, and no fewer than these: evidence
# of small shards is made together.
PARTS = 4
MIN_SHARDS = 8


class StepAbandoned(RuntimeError):
    """Raised when the processes that computed a step died repeatedly on some shards; its other shards are done.
    `shards` has the partition keys of those that are not.
    """

    plain = True

    def __init__(self, shards: Sequence[str], message: str) -> None:
        """shards: their partition keys."""
        super().__init__(message)
        self.shards = shards


def run_step(curation: Curation, step: Step, tell: LineWriter) -> Iterator[tuple[str, Any]]:
    """Compute a step in this process, or by `curation.step_runner` if that is set, as `compute_step` does. Yields
    (metric, counts of evidence) for a source, or (partition key, ShardScores or MissingEvidence) for scores, as soon as
    they are stored. tell: called with lines of progress.

    Raises the errors of `compute_step`, and StepAbandoned.
    """
    return curation.step_runner(step, tell) if curation.step_runner else compute_step(curation, step, tell)


def compute_step(curation: Curation, step: Step, tell: LineWriter) -> Iterator[tuple[str, Any]]:
    """Compute and store what an asset lacks on the shards of a step, while the lease on a shard is held. Yields
    (metric, counts of evidence) for a source, once per group of shards. For scores it yields (partition key,
    ShardScores), or MissingEvidence in their place where an ingest changed the shard meanwhile.

    tell: called with lines of progress. Raises the errors of sources and scorers, and LeaseLost.
    """
    return (_make_evidence if step.asset in list_source_classes() else _score_shards)(curation, step, tell)


def _make_evidence(curation: Curation, step: Step, tell: LineWriter) -> Iterator[tuple[str, Any]]:
    scorers = {metric: curation.scorers[metric] for metric in step.metrics}
    ids = {metric: store_scorer(curation.engine, scorer) for metric, scorer in scorers.items()}
    for _, dataset_shards in groupby(step.shards, key=lambda shard: shard.dataset):
        shards = {shard.key: shard for shard in dataset_shards}
        for keys, tell_held in lease_partitions(
            curation.engine, step.asset, shards, tell, throttle_lines(tell), _choose_group_size
        ):
            for metric, scorer in scorers.items():
                orders = [
                    Order(
                        curation.engine,
                        where.dataset,
                        where.number,
                        ids[metric],
                        step.run_id,
                        tell_held,
                        step.options,
                        outbox=step.outbox,
                    )
                    for where in (shards[key] for key in keys)
                ]
                yield metric, make_evidence(scorer, list_source_classes()[step.asset], orders)


def _choose_group_size(n_left: int) -> int:
    """Choose how many of the remaining shards a process takes at a time: a fraction, so that others get some, but at
    least 8.

    >>> _choose_group_size(3), _choose_group_size(24), _choose_group_size(100), _choose_group_size(1000)
    (8, 8, 25, 32)
    """
    return min(SHARDS_PER_GROUP, max(MIN_SHARDS, -(-n_left // PARTS)))


def _score_shards(curation: Curation, step: Step, tell: LineWriter) -> Iterator[tuple[str, Any]]:
    (metric,) = step.metrics
    scorer, shards = curation.scorers[metric], {shard.key: shard for shard in step.shards}
    for (key,), tell_held in lease_partitions(curation.engine, step.asset, shards, tell, throttle_lines(tell)):
        where, progress = shards[key], partial(_tell_progress, tell_held, metric, key)
        try:
            n_undrawn = settle_undrawn_samples(curation.engine, where.dataset, scorer, where.number, step.run_id)
            scored = score_shard(
                curation.engine, scorer, where.dataset, where.number, run_id=step.run_id, progress=progress
            )
            done: Any = replace(scored, n_pending=scored.n_pending + n_undrawn, n_written=scored.n_written + n_undrawn)
        except MissingEvidence as error:
            done = error
        yield key, done


def _tell_progress(tell: LineWriter, metric: str, shard: str, done: int, total: int) -> None:
    tell(f"{done:,} of {format_count(total, 'sample')} of {shard} done with {metric}")
