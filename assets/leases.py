"""Who computes: an asset holds a lease on each shard while it works on it, whoever started the run and wherever."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from sqlalchemy.engine import Engine

from assets.sources.base import Tell
from db.server.leases import Leases, one


def leased(
    engine: Engine,
    asset: str,
    partitions: Iterable[str],
    waits: Tell,
    tell: Tell,
    at_once: Callable[[int], int] = one,
) -> Iterator[tuple[list[str], Tell]]:
    """Yield every partition while no other process can compute this asset there; those that are free come first.

    Partitions come in groups. at_once: the most that a group has, of so many that are left. waits: told for whom this
    process waits when the others have all that is left. With each group comes a `tell`, which makes sure that the
    leases are still held before it passes a line on to the given one. It raises LeaseLost where another process took a
    partition over after the connection was lost.
    """
    with Leases(engine.url) as leases:
        names = {lease_name(asset, partition): partition for partition in partitions}

        def wait(name: str) -> None:
            what = f"{'shard' if ':' in names[name] else 'dataset'} {names[name]}"
            waits(f"waits for {what}, on which {leases.holder(name) or 'another process'} works")

        def checked(line: str) -> None:
            leases.check()
            tell(line)

        for group in leases.in_turn(names, wait, at_once):
            yield [names[name] for name in group], checked


def lease_name(asset: str, partition: str) -> str:
    """The name of the lease of who computes an asset of a partition."""
    return f"{asset} of {partition}"
