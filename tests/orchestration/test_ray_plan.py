"""The actors of a run on Ray, by a table of machines and settings, without Ray."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from assets.metrics.registry import SCORERS
from assets.sources.base import walk_sources
from orchestration.cluster.pool_size import ActorSizeError, Machine, PoolSize, choose_pool_sizes

LAPTOP, BOX, FARM = Machine(2), Machine(16, 2), [Machine(64), Machine(4, 4), Machine(4, 4)]


def wanted(**changes: Any) -> Any:
    given = {"ray_actors": None, "ray_cpus": 1.0, "ray_gpu_actors": None, "ray_gpus": 1.0}
    return SimpleNamespace(**(given | changes))


@pytest.mark.parametrize(
    ("machines", "settings", "cpu", "gpu"),
    [
        ([LAPTOP], {}, 2, 0),
        ([LAPTOP], {"ray_actors": 4}, 4, 0),
        ([LAPTOP], {"ray_cpus": 2}, 1, 0),
        ([BOX], {}, 14, 2),
        # As docs/figures.md lays out eight GPUs.
        ([Machine(192, 8)], {"ray_cpus": 24}, 0, 8),
        ([BOX], {"ray_gpus": 0.5}, 12, 4),
        # What is left of each GPU is too small for a third one, though the machine has a whole GPU left in sum.
        ([BOX], {"ray_gpus": 0.4}, 12, 4),
        ([BOX], {"ray_gpus": 0.3}, 10, 6),
        ([BOX], {"ray_gpus": 2}, 15, 1),
        ([BOX], {"ray_gpu_actors": 0}, 16, 0),
        ([BOX], {"ray_gpu_actors": 0, "ray_gpus": 8}, 16, 0),
        ([BOX], {"ray_gpu_actors": 1, "ray_actors": 3}, 3, 1),
        ([BOX], {"ray_cpus": 8}, 0, 2),
        ([Machine(1, 1)], {}, 0, 1),
        ([Machine(8, 8)], {"ray_actors": 2}, 2, 6),
        (FARM, {}, 64, 8),
        # The cores of a machine count for its own GPUs alone.
        (FARM, {"ray_cpus": 4}, 16, 2),
        ([Machine(0.9)], {"ray_cpus": 0.3}, 3, 0),
    ],
)
def test_actors_follow_from_machines_and_settings(
    machines: list[Machine], settings: dict[str, Any], cpu: int, gpu: int
) -> None:
    given = wanted(**settings)
    sizes = {"cpu": PoolSize(cpu, given.ray_cpus), "gpu": PoolSize(gpu, given.ray_cpus, given.ray_gpus)}
    assert choose_pool_sizes(machines, ["vcs", "ecs"], given) == {kind: size for kind, size in sizes.items() if size.n}


def test_metrics_without_models_take_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    class Plain:
        rests_on = ()

    monkeypatch.setitem(SCORERS, "plain", Plain)
    assert choose_pool_sizes([BOX], ["plain"], wanted()) == {"cpu": PoolSize(16, 1.0)}


@pytest.mark.parametrize(
    ("machines", "settings", "said"),
    [
        ([BOX], {"ray_cpus": 32}, "REELSIEVE_RAY_CPUS asks for 32 cores per actor, but the largest machine has 16"),
        ([], {}, "the largest machine has 0"),
        ([BOX], {"ray_gpus": 1.5}, "REELSIEVE_RAY_GPUS is 1.5: give a part of one GPU, or a whole number"),
        (
            [BOX, BOX],
            {"ray_gpus": 3},
            "an actor needs REELSIEVE_RAY_GPUS=3, and no machine has more than 2: lower it",
        ),
        (
            [LAPTOP],
            {"ray_gpu_actors": 1},
            "an actor needs REELSIEVE_RAY_GPUS=1, and no machine has more than 0: lower it",
        ),
        (
            [Machine(64), Machine(1, 1)],
            {"ray_cpus": 2},
            "an actor needs REELSIEVE_RAY_CPUS=2, and no machine with GPUs has so many cores",
        ),
    ],
)
def test_a_size_that_fits_nowhere_is_said_in_a_sentence(
    machines: list[Machine], settings: dict[str, Any], said: str
) -> None:
    with pytest.raises(ActorSizeError, match=said) as caught:
        choose_pool_sizes(machines, ["vcs"], wanted(**settings))
    assert "\n" not in str(caught.value)


def test_the_metrics_of_an_actor_share_their_models() -> None:
    scorers = [SCORERS[metric].from_settings(SCORERS[metric].settings()) for metric in ("vcs", "vcs_short", "ecs")]
    encoders = [
        source.encoder for scorer in scorers for source in walk_sources(scorer.sources) if hasattr(source, "encoder")
    ]
    assert len(encoders) >= 3
    assert len(set(map(id, encoders))) == 1
