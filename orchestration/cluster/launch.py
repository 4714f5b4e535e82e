"""`reelsieve score --engine ray`: runs of this process whose steps are computed by actors on Ray."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from assets.datasets.lookup import require_dataset
from assets.definitions.curation import Step
from assets.metrics.registry import list_source_classes
from assets.progress import LineWriter, throttle_lines
from orchestration.cluster.pool_size import Machine, choose_pool_sizes
from orchestration.cluster.session import check_ray_installed, connect_to_ray
from orchestration.installation import Installation
from orchestration.launch import run_scoring

if TYPE_CHECKING:
    from orchestration.cluster.pool import RayActorPool


def run_scoring_on_ray(
    installation: Installation,
    dataset: str,
    metrics: Sequence[str],
    options: Mapping[str, bool] | None = None,
    shards: Collection[int] | None = None,
) -> Iterator[tuple[str, dict[str, int]]]:
    """Score the pending samples of a dataset by actors on Ray, and store the results. Yield (shard key, number of
    results written by metric) for every shard that this process completed. options, shards: as in `run_scoring`; None
    for no options and for all shards.

    Starts Ray on this machine, unless RAY_ADDRESS names a cluster.

    Raises RayMissing, NoCluster, ActorSizeError and WorkIdentityDiffers, in addition to the errors of run_scoring.
    """
    check_ray_installed()
    require_dataset(installation.engine, dataset)
    resource = installation.curation
    with ExitStack() as stack:
        resource.step_runner = _ActorCrew(installation, metrics, stack)
        stack.callback(setattr, resource, "others", None)
        yield from run_scoring(installation, dataset, metrics, options, shards)


class _ActorCrew:
    """Computes the steps of runs by actors, one shard each. The first step joins or starts the cluster."""

    def __init__(self, installation: Installation, metrics: Sequence[str], stack: ExitStack) -> None:
        self._installation, self._metrics, self._stack = installation, metrics, stack
        self._pools: dict[str, RayActorPool] = {}

    def __call__(self, step: Step, tell: LineWriter) -> Iterator[tuple[str, Any]]:
        self._pools = self._pools or self._start_pools(step)
        is_source = step.asset in list_source_classes()
        needs_model = is_source and "pytorch" in list_source_classes()[step.asset].kinds
        own, other = ("gpu", "cpu") if needs_model else ("cpu", "gpu")
        pool = self._pools.get(own) or self._pools[other]
        steps = [replace(step, shards=(shard,)) for shard in step.shards]
        progress = throttle_lines(tell)
        for done, results in enumerate(pool.compute_steps(steps, tell), 1):
            progress(f"{step.asset} is done in {done} of {len(steps)} shards")
            yield from results

    def _start_pools(self, step: Step) -> dict[str, RayActorPool]:
        settings = self._installation.settings
        cores = settings.ray_cpus * ((settings.ray_actors or 0) + (settings.ray_gpu_actors or 0))
        self._stack.enter_context(connect_to_ray(cores, self._installation.create_empty_folder()))
        sizes = choose_pool_sizes(_list_machines(), self._metrics, settings)
        # Imported here: Ray reads its variables when it is imported.
        from orchestration.cluster.pool import RayActorPool
        from orchestration.cluster.worker import build_work_identity

        concerns = (step.shards[0].dataset, self._metrics)
        work_identity = build_work_identity(self._installation.curation, *concerns)
        return {kind: RayActorPool(size, concerns, work_identity) for kind, size in sizes.items()}


def _list_machines() -> list[Machine]:
    import ray

    resources = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    return [Machine(node_resources.get("CPU", 0.0), node_resources.get("GPU", 0.0)) for node_resources in resources]
