"""How many actors a run on Ray gets, computed from the machines, the metrics and the settings. Needs no Ray."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from assets.metrics.registry import list_source_classes


class ActorSizeError(ValueError):
    """Raised when no machine has room for an actor of the size that the settings ask for, or when that size is a whole
    GPU and a part of another.
    """

    plain = True


@dataclass(frozen=True, slots=True)
class Machine:
    """The numbers of cores (cpus) and GPUs of one machine of the Ray cluster."""

    cpus: float
    gpus: float = 0.0


@dataclass(frozen=True, slots=True)
class PoolSize:
    """The size of a pool: the number of actors `n`, and the cores and GPUs that one actor takes of its machine. A
    fraction of `gpus` is a part of one GPU.
    """

    n: int
    cpus: float
    gpus: float = 0.0


class ActorSettings(Protocol):
    """The settings that pool sizes are computed from. ray_actors, ray_gpu_actors: numbers of actors without and with a
    GPU; None for as many as fit. ray_cpus, ray_gpus: cores and GPUs per actor; actors without a GPU take only cores.
    """

    ray_actors: int | None
    ray_cpus: float
    ray_gpu_actors: int | None
    ray_gpus: float


def choose_pool_sizes(
    machines: Sequence[Machine], metrics: Iterable[str], settings: ActorSettings
) -> dict[str, PoolSize]:
    """Return the sizes of the pool without GPUs ("cpu") and of the pool with GPUs ("gpu") for a run of these metrics; a
    pool without actors is left out. machines: those of the cluster. Raises ActorSizeError.

    If there is only one pool, it computes all steps. An actor is one process and loads a model once, for all
    metrics that need it: by default one actor uses a GPU, and two actors with half a GPU would load the models
    twice. Metrics without models get no GPU. If the actors with GPUs take all cores, there are none without.
    """
    slots = [_count_parts(machine.cpus, settings.ray_cpus) for machine in machines]
    if not any(slots):
        most = max((machine.cpus for machine in machines), default=0)
        raise ActorSizeError(
            f"REELSIEVE_RAY_CPUS asks for {settings.ray_cpus:g} cores per actor, but the largest machine has {most:g}: "
            "lower it"
        )
    n_gpu = 0
    if any("pytorch" in kind.kinds for kind in list_source_classes(metrics).values()) and settings.ray_gpu_actors != 0:
        fitting = [
            min(room, _count_actors_on_gpus(machine.gpus, settings.ray_gpus))
            for room, machine in zip(slots, machines, strict=True)
        ]
        _check_gpus(machines, fitting, settings)
        # The actors without a GPU that the settings ask for need cores too.
        left = max(1, sum(slots) - (settings.ray_actors or 0))
        n_gpu = min(sum(fitting), left) if settings.ray_gpu_actors is None else settings.ray_gpu_actors
    n_cpu = max(0, sum(slots) - n_gpu) if settings.ray_actors is None else settings.ray_actors
    sizes = {"cpu": PoolSize(n_cpu, settings.ray_cpus), "gpu": PoolSize(n_gpu, settings.ray_cpus, settings.ray_gpus)}
    return {kind: size for kind, size in sizes.items() if size.n}


def _check_gpus(machines: Sequence[Machine], fitting: Sequence[int], settings: ActorSettings) -> None:
    if settings.ray_gpus > 1 and settings.ray_gpus % 1:
        raise ActorSizeError(
            f"REELSIEVE_RAY_GPUS is {settings.ray_gpus:g}: give a part of one GPU, or a whole number of them"
        )
    most = max(machine.gpus for machine in machines)
    if not any(fitting) and (most or settings.ray_gpu_actors):
        if most < settings.ray_gpus:
            why = f"an actor needs REELSIEVE_RAY_GPUS={settings.ray_gpus:g}, and no machine has more than {most:g}"
            raise ActorSizeError(f"{why}: lower it, or set REELSIEVE_RAY_GPU_ACTORS to 0")
        raise ActorSizeError(
            f"an actor needs REELSIEVE_RAY_CPUS={settings.ray_cpus:g}, and no machine with GPUs has so many cores: "
            "lower it, or set REELSIEVE_RAY_GPU_ACTORS to 0"
        )


def _count_actors_on_gpus(gpus: float, gpus_per_actor: float) -> int:
    """Return how many actors the GPUs have room for; an actor's part lies on one GPU."""
    return int(gpus) * _count_parts(1, gpus_per_actor) if gpus_per_actor < 1 else _count_parts(gpus, gpus_per_actor)


def _count_parts(whole: float, part: float) -> int:
    # 0.3 goes three times into 0.9, although the quotient of floats is smaller.
    return math.floor(whole / part + 1e-9)
