"""Which actors a run on Ray gets, from the machines, the metrics and the settings; knows no Ray."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from assets.scores.registry import source_kinds


class BadSize(ValueError):
    """No machine has room for an actor of the size that settings name."""

    plain = True


@dataclass(frozen=True, slots=True)
class Machine:
    """What a machine of the cluster offers."""

    cpus: float
    gpus: float = 0.0


@dataclass(frozen=True, slots=True)
class Size:
    """How many actors, and how many cores and GPUs each takes of its machine."""

    n: int
    cpus: float
    gpus: float = 0.0


class Wanted(Protocol):
    """The settings that sizes follow from; None is as many as fit."""

    ray_actors: int | None
    ray_cpus: float
    ray_gpu_actors: int | None
    ray_gpus: float


def plan(machines: Sequence[Machine], metrics: Iterable[str], wanted: Wanted) -> dict[str, Size]:
    """The actors without a GPU ("cpu") and with one ("gpu"). Where there is one kind alone, it does all.

    An actor has one process and loads a model once, whichever metrics need it. So by default a GPU is one actor's, and
    half a GPU for each means two copies of the models on it. Metrics without models get no GPU. Where a GPU's actors
    take all cores, none is left without. Raises BadSize.
    """
    slots = [_times(machine.cpus, wanted.ray_cpus) for machine in machines]
    if not any(slots):
        most = max((machine.cpus for machine in machines), default=0)
        raise BadSize(
            f"REELSIEVE_RAY_CPUS asks for {wanted.ray_cpus:g} cores an actor, and the largest machine has {most:g}: "
            "lower it"
        )
    n_gpu = 0
    if any("pytorch" in kind.kinds for kind in source_kinds(metrics).values()) and wanted.ray_gpu_actors != 0:
        fitting = [
            min(room, _on_gpus(machine.gpus, wanted.ray_gpus)) for room, machine in zip(slots, machines, strict=True)
        ]
        _check_gpus(machines, fitting, wanted)
        # Those that were asked for without a GPU must find cores too.
        left = max(1, sum(slots) - (wanted.ray_actors or 0))
        n_gpu = min(sum(fitting), left) if wanted.ray_gpu_actors is None else wanted.ray_gpu_actors
    n_cpu = max(0, sum(slots) - n_gpu) if wanted.ray_actors is None else wanted.ray_actors
    sizes = {"cpu": Size(n_cpu, wanted.ray_cpus), "gpu": Size(n_gpu, wanted.ray_cpus, wanted.ray_gpus)}
    return {kind: size for kind, size in sizes.items() if size.n}


def _check_gpus(machines: Sequence[Machine], fitting: Sequence[int], wanted: Wanted) -> None:
    if wanted.ray_gpus > 1 and wanted.ray_gpus % 1:
        raise BadSize(f"REELSIEVE_RAY_GPUS is {wanted.ray_gpus:g}: give a part of one GPU, or a whole number of them")
    most = max(machine.gpus for machine in machines)
    if not any(fitting) and (most or wanted.ray_gpu_actors):
        raise BadSize(
            f"no machine has room for an actor with {wanted.ray_gpus:g} GPUs and {wanted.ray_cpus:g} cores, the most "
            f"GPUs are {most:g}: lower REELSIEVE_RAY_GPUS or REELSIEVE_RAY_CPUS, or set REELSIEVE_RAY_GPU_ACTORS to 0"
        )


def _on_gpus(gpus: float, each: float) -> int:
    """How many actors GPUs have room for: an actor's part lies on one GPU."""
    return int(gpus) * _times(1, each) if each < 1 else _times(gpus, each)


def _times(whole: float, part: float) -> int:
    # 0.3 goes three times into 0.9, although the quotient of floats is smaller.
    return math.floor(whole / part + 1e-9)
