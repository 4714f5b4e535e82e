"""Calls in turn beside a floor, on a server whose CPU seconds count too."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from benchmarks.measure import Spread
from benchmarks.million import Bench


class Alone(NamedTuple):
    """What a process of its own took, without its start: seconds, and the kilobytes that it took at most."""

    wall_s: float
    cpu_s: float
    peak_kb: int


def in_turn(bench: Bench, calls: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, dict[str, Any]]:
    """Wall and CPU seconds of each call, and their ratios to the first one; of what runs alone, its peak too."""
    taken: dict[str, list[Alone]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            answers: list[object] = []
            bench.time(name, partial(lambda call, answers: answers.append(call()), call, answers))
            cost, done = bench.seconds[name][-1], answers[0]
            own = done if isinstance(done, Alone) else Alone(cost.wall_s, cost.own_s, 0)
            taken[name].append(own._replace(cpu_s=own.cpu_s + cost.server_s))
    wall_s, cpu_s = ({name: Spread.of([run[i] for run in runs]) for name, runs in taken.items()} for i in (0, 1))
    floor = next(iter(calls))
    return {
        name: {
            "wall_s": wall_s[name].as_dict(),
            "cpu_s": cpu_s[name].as_dict(),
            "to_floor": round(wall_s[name].median / wall_s[floor].median, 2),
            "to_floor_in_cpu": round(cpu_s[name].median / cpu_s[floor].median, 2),
            "peak_kb": max(run.peak_kb for run in runs) or None,
        }
        for name, runs in taken.items()
    }
