"""Who computes: an asset holds a lease on each shard while it works on it, whoever started the run and wherever."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from sqlalchemy.engine import Engine

from assets.sources.base import Tell
from db.server.leases import Leases


def leased(engine: Engine, asset: str, partitions: Iterable[str], tell: Tell) -> Iterator[tuple[str, Tell]]:
    """Yield every partition while no other process can compute this asset there; those that are free come first.

    With each comes a `tell`, which makes sure that the lease is still held before it passes a line on to the given one.
    It raises LeaseLost where another process took the partition over after the connection was lost.
    """
    with Leases(engine.url) as leases:
        names = {_name(asset, partition): partition for partition in partitions}
        for name in leases.in_turn(names, lambda name: tell(_waiting(leases, name))):
            yield names[name], _checked(leases, tell)


@contextmanager
def all_leased(engine: Engine, asset: str, partitions: Iterable[str], tell: Tell) -> Iterator[Tell]:
    """Hold the leases of all partitions at once. Yields a `tell` as `leased` does, and may raise LeaseLost like it."""
    with Leases(engine.url) as leases:
        # In one order everywhere, so that no two processes wait for one another.
        for name in sorted(_name(asset, partition) for partition in partitions):
            if not leases.take_if_free(name):
                tell(_waiting(leases, name))
                leases.take(name)
        yield _checked(leases, tell)


def _name(asset: str, partition: str) -> str:
    return f"{asset} of {partition}"


def _waiting(leases: Leases, name: str) -> str:
    return f"waits for {name}, on which {leases.holder(name) or 'another process'} works"


def _checked(leases: Leases, tell: Tell) -> Tell:
    def checked(line: str) -> None:
        leases.check()
        tell(line)

    return checked
