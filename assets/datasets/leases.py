"""Leases: an asset on a shard is computed by one process at a time, and no dataset is dropped while it is worked on.

A process that computes an asset holds the lease on the shard for itself. All processes that work on a dataset share a
lease on its name; a drop takes that lease for itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from sqlalchemy.engine import Engine

from assets.progress import LineWriter
from db.server.leases import Leases, take_one


def lease_partitions(
    engine: Engine,
    asset: str,
    partitions: Iterable[str],
    tell_waiting: LineWriter,
    tell: LineWriter,
    choose_group_size: Callable[[int], int] = take_one,
) -> Iterator[tuple[list[str], LineWriter]]:
    """Yield groups of partitions in which only this process may compute the asset, until the next group is asked for.
    Every partition comes once: free ones first, then those that another process worked on, for which it waits. A group
    comes with a function that checks the leases and passes a line on to `tell`.

    That function raises LeaseLost where another process took a partition over after the connection was lost. Nobody can
    drop the datasets meanwhile. tell_waiting: called with a line that names the process this one waits for.
    choose_group_size: returns the most partitions of the next group, given the number that is left.
    """
    names = {format_lease_name(asset, partition): partition for partition in partitions}
    datasets = {partition.rpartition(":")[0] or partition for partition in names.values()}
    with hold_datasets(engine, *sorted(datasets)) as leases:

        def wait(name: str) -> None:
            what = f"{'shard' if ':' in names[name] else 'dataset'} {names[name]}"
            tell_waiting(f"waits for {what}, on which {leases.find_holder(name) or 'another process'} works")

        def tell_checked(line: str) -> None:
            leases.check()
            tell(line)

        for group in leases.take_in_turn(names, wait, choose_group_size):
            yield [names[name] for name in group], tell_checked


def format_lease_name(asset: str, partition: str) -> str:
    """Return the name of the lease that a process holds while it computes an asset of a partition: "ASSET of
    PARTITION".
    """
    return f"{asset} of {partition}"


@contextmanager
def hold_datasets(engine: Engine, *names: str) -> Iterator[Leases]:
    """Keep others from dropping the datasets of these names until the block ends; there may be no such dataset yet.
    Yields the leases, which can take more on the same connection. Waits while a drop is under way.
    """
    with Leases(engine.url) as leases:
        for name in names:
            leases.take(format_dataset_lease_name(name), is_shared=True)
        yield leases


def format_dataset_lease_name(name: str) -> str:
    """Return the name of the lease on a dataset: its users share the lease, and a drop holds it exclusively."""
    return f"dataset {name}"
