"""`reelsieve score --engine ray`: the runs of this process with their steps taken by actors."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from assets.datasets import dataset_of_key
from assets.progress import sparsely
from assets.scores.registry import source_kinds
from assets.sources.base import Tell
from assets.steps import Step
from orchestration.cluster.plan import Machine, plan
from orchestration.cluster.session import check_installed, session
from orchestration.launch import run_scoring
from orchestration.platform import Installation

if TYPE_CHECKING:
    from orchestration.cluster.pool import Pool


def run_on_ray(
    installation: Installation,
    dataset: str,
    metrics: Sequence[str],
    options: Mapping[str, bool] | None = None,
    shards: Collection[int] | None = None,
) -> Iterator[tuple[str, dict[str, int]]]:
    """As `orchestration.launch.run_scoring`, with actors at work.

    Raises RayMissing, NoCluster, BadSize and SightDiffers too.
    """
    check_installed()
    dataset_of_key(installation.engine, dataset)
    resource = installation.curation
    with ExitStack() as stack:
        resource.others = _Crew(installation, metrics, stack)
        stack.callback(setattr, resource, "others", None)
        yield from run_scoring(installation, dataset, metrics, options, shards)


class _Crew:
    """Takes the steps of runs, each shard by an actor. Joins or starts the cluster when the first step comes."""

    def __init__(self, installation: Installation, metrics: Sequence[str], stack: ExitStack) -> None:
        self._installation, self._metrics, self._stack = installation, metrics, stack
        self._pools: dict[str, Pool] = {}

    def __call__(self, step: Step, tell: Tell) -> Iterator[tuple[str, Any]]:
        self._pools = self._pools or self._started(step)
        is_source = step.asset in source_kinds()
        needs_model = is_source and "pytorch" in source_kinds()[step.asset].kinds
        own, other = ("gpu", "cpu") if needs_model else ("cpu", "gpu")
        pool = self._pools.get(own) or self._pools[other]
        steps = [replace(step, shards=(shard,)) for shard in step.shards]
        progress = sparsely(tell)
        for done, results in enumerate(pool.take(steps, tell), 1):
            progress(f"{step.asset} is done in {done} of {len(steps)} shards")
            yield from results

    def _started(self, step: Step) -> dict[str, Pool]:
        wanted = self._installation.settings
        cores = wanted.ray_cpus * ((wanted.ray_actors or 0) + (wanted.ray_gpu_actors or 0))
        self._stack.enter_context(session(cores))
        sizes = plan(_machines(), self._metrics, wanted)
        # Imported here: Ray reads its variables when it is imported.
        from orchestration.cluster.pool import Pool
        from orchestration.cluster.worker import sight_of

        concerns = (step.shards[0].dataset, self._metrics)
        sight = sight_of(self._installation.curation, *concerns)
        return {kind: Pool(size, concerns, sight) for kind, size in sizes.items()}


def _machines() -> list[Machine]:
    import ray

    found = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    return [Machine(each.get("CPU", 0.0), each.get("GPU", 0.0)) for each in found]
