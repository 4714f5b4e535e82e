"""`reelsieve score --engine ray`: the runs of this process with their steps taken by actors."""

from __future__ import annotations

import importlib.util
import logging
import math
import os
import secrets
import socket
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import replace
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from assets.curation import Curation
from assets.datasets import dataset_of_key
from assets.progress import sparsely
from assets.scores.registry import source_kinds
from assets.sources.base import Tell
from assets.steps import Step
from orchestration.cluster.plan import Machine, plan
from orchestration.launch import run_scoring
from orchestration.platform import Installation
from orchestration.settings import settings
from orchestration.stopping import dying_along

if TYPE_CHECKING:
    from orchestration.cluster.pool import Pool


# Connect to Ray: to the cluster that RAY_ADDRESS names, else to one of this machine that ends with the command.

# Actors exchange counts, no data; this is the least that Ray takes.
OBJECT_STORE_BYTES = 80 * 2**20
LOOPBACK = "127.0.0.1"
KNOCK_S = 10.0


class RayMissing(RuntimeError):
    """The package ray is not installed."""

    plain = True


class NoCluster(RuntimeError):
    """RAY_ADDRESS leads to no cluster."""

    plain = True


def check_installed() -> None:
    """Raise RayMissing where Ray is not installed. Does not import it."""
    if importlib.util.find_spec("ray") is None:
        raise RayMissing("Ray is not installed: pip install 'reelsieve[ray]'")


@contextmanager
def session(cpus: float) -> Iterator[None]:
    """Join the cluster of RAY_ADDRESS, or start one of this machine with at least so many cores for actors.

    The latter listens on loopback alone, asks for a token, has no dashboard and reports nothing to anybody. Raises
    NoCluster.
    """
    address = os.environ.get("RAY_ADDRESS")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Seconds in which a process of Ray's own must start; on a busy machine the 60 of Ray are too few.
    os.environ.setdefault("RAY_DASHBOARD_STARTUP_TIMEOUT_S", "300")
    if not address or address.rpartition(":")[0] == LOOPBACK:
        # By this name, on every system, Ray is told to take 127.0.0.1 for the address of this machine, and listens
        # there alone. Otherwise its ports are open to the network, and whoever reaches them may run code.
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    if not address and "RAY_AUTH_MODE" not in os.environ:
        # Other users of this machine reach loopback too.
        os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=secrets.token_hex(32))
    # Ray reads both when it is imported.
    import ray

    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    with ExitStack() as stack:
        if address:
            _knock(address)
            ray.init(address=address, **quiet)
        else:
            folder = stack.enter_context(_own_folder())
            cores = max(math.ceil(cpus), os.cpu_count() or 1)
            quiet |= {"include_dashboard": False, "object_store_memory": OBJECT_STORE_BYTES}
            ray.init("local", num_cpus=cores, _temp_dir=folder, **quiet)
            stack.enter_context(dying_along(folder))
        stack.callback(ray.shutdown)
        # The errors of its processes, which the driver reports in its own words, Ray would print on standard output.
        stack.enter_context(redirect_stdout(stack.enter_context(open(os.devnull, "w"))))
        yield


def _own_folder() -> TemporaryDirectory[str]:
    # Sockets lie in it, whose paths must be short.
    return TemporaryDirectory(prefix="ray-", dir=os.environ.get("RAY_TMPDIR"), ignore_cleanup_errors=True)


def _knock(address: str) -> None:
    """Raise NoCluster where nobody listens, which Ray would try for minutes."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), KNOCK_S).close()
    except (OSError, ValueError) as error:
        raise NoCluster(
            f"RAY_ADDRESS is {address}, where no Ray cluster answers ({error}): set it to the HOST:PORT that "
            "`ray start` prints, or unset it to score on this machine"
        ) from None


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
        resource.others = _Crew(resource, metrics, stack)
        stack.callback(setattr, resource, "others", None)
        yield from run_scoring(installation, dataset, metrics, options, shards)


class _Crew:
    """Takes the steps of runs, each shard by an actor. Joins or starts the cluster when the first step comes."""

    def __init__(self, curation: Curation, metrics: Sequence[str], stack: ExitStack) -> None:
        self._curation, self._metrics, self._stack = curation, metrics, stack
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
        wanted = settings()
        cores = wanted.ray_cpus * ((wanted.ray_actors or 0) + (wanted.ray_gpu_actors or 0))
        self._stack.enter_context(session(cores))
        sizes = plan(_machines(), self._metrics, wanted)
        # Imported here: Ray reads its variables when it is imported.
        from orchestration.cluster.pool import Pool
        from orchestration.cluster.worker import sight_of

        concerns = (step.shards[0].dataset, self._metrics)
        sight = sight_of(self._curation, *concerns)
        return {kind: Pool(size, concerns, sight) for kind, size in sizes.items()}


def _machines() -> list[Machine]:
    import ray

    found = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    return [Machine(each.get("CPU", 0.0), each.get("GPU", 0.0)) for each in found]
