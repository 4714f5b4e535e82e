"""A pool of Ray actors of one size, whose models stay loaded; every actor computes one step at a time, and a dead one
is replaced.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError

from assets.definitions.curation import Step
from assets.definitions.steps import StepAbandoned
from assets.progress import LineWriter
from db.manifest.datasets import Dataset
from orchestration.cluster.pool_size import PoolSize
from orchestration.cluster.worker import RayWorker

# Seconds without a working actor after which the pool reports that it waits for room.
PATIENCE_S = 30.0
# The number of actors that may end one after the other before any of them begins.
STARTS_IN_VAIN = 4
# A shard at which this many actors died is given up.
TRIES = 3


class WorkIdentityDiffers(RuntimeError):
    """Raised when an actor sees another dataset or makes other scorers than this command, because its machine has
    another database, other settings or another version.
    """

    plain = True


class NoActors(RuntimeError):
    """Raised when five actors in a row end before any of them begins; the message has the reason that Ray gives."""

    plain = True


class RayActorPool:
    """Ray actors of one size that compute the steps of a run, one step at a time, and keep their models loaded. Actors
    are started when steps need them, and they end with the connection to Ray.
    """

    def __init__(self, size: PoolSize, concerns: tuple[Dataset, Sequence[str]], work_identity: list[str]) -> None:
        """Start no actor yet. concerns: the dataset and the metrics. work_identity: the identity of work on these that
        every actor must report.
        """
        self._size, self._concerns, self._work_identity = size, concerns, work_identity
        self._n_in_vain = 0
        self._idle: list[Any] = []
        self._starting: dict[Any, Any] = {}
        self._working: dict[Any, tuple[Any, Step]] = {}

    def compute_steps(self, steps: Sequence[Step], tell: LineWriter) -> Iterator[list[tuple[str, Any]]]:
        """Compute steps of one shard each by actors, and yield the list of (key, result) of every step when it ends, in
        any order. A step whose actor died is given to another actor. tell: called with lines of progress.

        Raises the error of a step at once, WorkIdentityDiffers and NoActors; and at the end StepAbandoned for steps at
        which three actors died. Actors that still work when an error is raised are killed.
        """
        left, died = deque(steps), Counter[str]()
        try:
            while left or self._working:
                self._hand_out(left)
                for future in self._wait_for_futures(tell):
                    if future in self._starting:
                        self._begin(self._starting.pop(future), future, tell)
                        continue
                    actor, step = self._working.pop(future)
                    try:
                        results = ray.get(future)
                    except RayTaskError as error:
                        self._idle.append(actor)
                        raise error.cause from None
                    except RayError as error:
                        key = step.shards[0].key
                        died[key] += 1
                        if died[key] < TRIES:
                            left.appendleft(step)
                        rest = "another one takes it over" if died[key] < TRIES else "it is given up"
                        tell(f"an actor died at {key}, {rest}: {_first_line(error)}")
                        continue
                    self._idle.append(actor)
                    yield results
        finally:
            # After a step failed or the run was stopped, nobody waits for the other actors any more.
            for actor, _ in self._working.values():
                ray.kill(actor)
            self._working.clear()
        if lost := [key for key, n in died.items() if n == TRIES]:
            raise StepAbandoned(
                lost,
                f"{steps[0].asset} of {', '.join(lost)} was not computed, since {TRIES} actors in a row died at "
                f"{'it' if len(lost) == 1 else 'every one of them'}: see the logs of Ray",
            )

    def _hand_out(self, left: deque[Step]) -> None:
        """Give steps to idle actors, and start actors for the remaining steps, up to the pool's size."""
        actor: Any
        while left and self._idle:
            actor, step = self._idle.pop(), left.popleft()
            self._working[actor.compute_step.remote(step)] = (actor, step)
        while len(self._starting) < min(len(left), self._size.n - len(self._working)):
            # Assigned here instead of by Ray, which would let steps wait for an actor whose machine is gone.
            options = {"num_cpus": self._size.cpus, "num_gpus": self._size.gpus, "scheduling_strategy": "SPREAD"}
            # A GPU waits for decoders, of which its part of the machine can feed it; other actors share the cores.
            n_decoders = None if self._size.gpus else max(1, int(self._size.cpus))
            decoding = (n_decoders, self._size.n, self._size.cpus)
            actor = ray.remote(RayWorker).options(**options, max_restarts=0).remote(*decoding)
            self._starting[actor.report_identity.remote(*self._concerns)] = actor

    def _wait_for_futures(self, tell: LineWriter) -> list[Any]:
        """Return the futures of actors that have begun, ended a step or died; wait until there is one."""
        futures, since = [*self._starting, *self._working], time.monotonic()
        while not (ready := ray.wait(futures, timeout=PATIENCE_S)[0]):
            if not self._working:
                n, size = time.monotonic() - since, self._size
                gpus = f" and REELSIEVE_RAY_GPUS={size.gpus:g}" if size.gpus else ""
                needed = f"an actor needs REELSIEVE_RAY_CPUS={size.cpus:g}{gpus} of the cluster"
                tell(f"no actor has started for {n:.0f} s: {needed}")
        return list(ready)

    def _begin(self, actor: Any, future: Any, tell: LineWriter) -> None:
        """Make a started actor an idle one. Raises its error, WorkIdentityDiffers and NoActors."""
        try:
            place, work_identity = ray.get(future)
        except RayTaskError as error:
            ray.kill(actor)
            raise error.cause from None
        except RayError as error:
            self._n_in_vain += 1
            if self._n_in_vain > STARTS_IN_VAIN:
                raise NoActors(f"no actor starts on the cluster ({_first_line(error)}): see the logs of Ray") from None
            tell(f"an actor ended before it began: {_first_line(error)}")
            return
        if work_identity != self._work_identity:
            # The raised error keeps this actor alive, which keeps its cores: the run's next step would wait for them.
            ray.kill(actor)
            raise WorkIdentityDiffers(f"{place} {self._explain_difference(work_identity)}")
        self._n_in_vain = 0
        self._idle.append(actor)

    def _explain_difference(self, work_identity: Sequence[str]) -> str:
        """Return how an actor's identity differs from that of this command, with the remedy, as the end of a sentence
        about the actor's process.
        """
        if work_identity[0] != self._work_identity[0]:
            return (
                "has another database than this command: set the same CURATION_DB_URL there (for an embedded server, "
                "the output of `reelsieve db url --owner`)"
            )
        pairs = zip(self._concerns[1], work_identity[1:], self._work_identity[1:], strict=True)
        metrics = ", ".join(metric for metric, theirs, ours in pairs if theirs != ours)
        return (
            f"has other scorers of {metrics} than this command: install the same version there, and set the same "
            "REELSIEVE_ variables"
        )


def _first_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0]
