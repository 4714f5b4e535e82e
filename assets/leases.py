"""Leases of who computes, whoever started the run and wherever: of an asset on a shard, and of all work on a dataset.

An asset has the lease on a shard for itself while it works on it. Those who work on a dataset share a lease on its
name; a drop or a renaming has that one for itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from sqlalchemy.engine import Engine

from assets.sources.base import LineWriter
from db.server.leases import Leases, take_one


def lease_partitions(
    engine: Engine,
    asset: str,
    partitions: Iterable[str],
    tell_waiting: LineWriter,
    tell: LineWriter,
    choose_group_size: Callable[[int], int] = take_one,
) -> Iterator[tuple[list[str], LineWriter]]:
    """Yield every partition while no other process can compute this asset there; those that are free come first.

    Nobody can drop or rename their datasets meanwhile: also not where this process is an actor whose run is gone.
    Partitions come in groups. at_once: the most that a group has, of so many that are left. waits: told for whom this
    process waits when the others have all that is left. With each group comes a `tell`, which makes sure that the
    leases are still held before it passes a line on to the given one. It raises LeaseLost where another process took a
    partition over after the connection was lost.
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
    """The name of the lease of who computes an asset of a partition."""
    return f"{asset} of {partition}"


@contextmanager
def hold_datasets(engine: Engine, *names: str) -> Iterator[Leases]:
    """Keep others from dropping or renaming datasets until the block ends. names: there may be no such dataset yet.

    Yields the leases that do so, for others on the same connection. Waits while a drop or a renaming is under way.
    """
    with Leases(engine.url) as leases:
        for name in names:
            leases.take(format_dataset_lease_name(name), is_shared=True)
        yield leases


def format_dataset_lease_name(name: str) -> str:
    """Return the name of the lease on a dataset."""
    return f"dataset {name}"
