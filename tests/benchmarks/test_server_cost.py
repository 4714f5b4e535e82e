"""The CPU seconds of a server whose processes end while they are counted."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from benchmarks.server_cost import sum_server_cpu


class EndingChild:
    """A process of the server that has ended, so that its own time can no longer be read."""

    def cpu_times(self) -> Any:
        raise psutil.NoSuchProcess(1)


class EndingServer:
    """A server of 1 second, one of whose processes ends after the first or the second reading of its parent's time."""

    def __init__(self, reading: int) -> None:
        self.left = reading
        self.ended_s = 0.0

    def cpu_times(self) -> Any:
        times = SimpleNamespace(user=1.0, system=0.0, children_user=self.ended_s, children_system=0.0)
        self.left -= 1
        if not self.left:
            self.ended_s = 339.0
        return times

    def children(self) -> Sequence[Any]:
        living = SimpleNamespace(cpu_times=lambda: SimpleNamespace(user=330.0, system=9.0))
        return [living if self.left > 0 else EndingChild()]


@pytest.mark.parametrize("reading", [1, 2, 3])
def test_a_process_that_ends_meanwhile_counts_once(reading: int) -> None:
    server: Any = EndingServer(reading)
    assert sum_server_cpu(server) == 340.0
