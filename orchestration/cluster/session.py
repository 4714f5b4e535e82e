"""The connection to Ray: to the cluster of RAY_ADDRESS, else to one on this machine that ends with the command."""

from __future__ import annotations

import importlib.util
import logging
import math
import os
import secrets
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from orchestration.stopping import clean_up_after_kill

# Actors exchange counts, no data; this is the minimum that Ray takes.
OBJECT_STORE_BYTES = 80 * 2**20
LOOPBACK = "127.0.0.1"
KNOCK_S = 10.0


class RayMissing(RuntimeError):
    """Raised when the package ray is not installed."""

    plain = True


class NoCluster(RuntimeError):
    """Raised when no Ray cluster answers at RAY_ADDRESS."""

    plain = True


def check_ray_installed() -> None:
    """Raise RayMissing if the package ray is not installed. Does not import it."""
    if importlib.util.find_spec("ray") is None:
        raise RayMissing("Ray is not installed: pip install 'reelsieve[ray]'")


@contextmanager
def connect_to_ray(cpus: float, folder: Path) -> Iterator[None]:
    """Connect this process to the Ray cluster of RAY_ADDRESS until the block ends. Without that variable, start one on
    this machine with `cpus` cores, rounded up, or as many as the machine has if these are more. Standard output is
    discarded meanwhile. folder: an empty one; Ray's processes import from the folder in which it is started. Raises
    NoCluster.

    A cluster that is started here listens only on loopback, asks for a token, has no dashboard and reports no usage
    statistics. Sets environment variables of Ray before it imports Ray.
    """
    address = os.environ.get("RAY_ADDRESS")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Seconds in which a process of Ray's own must start; on a busy machine the 60 of Ray are too few.
    os.environ.setdefault("RAY_DASHBOARD_STARTUP_TIMEOUT_S", "300")
    if not address or address.rpartition(":")[0] == LOOPBACK:
        # Despite its name, this variable makes Ray take 127.0.0.1 for the address of this machine on every system, and
        # listen only there. Otherwise its ports are open to the network, and anyone who reaches them can run code.
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    if not address and "RAY_AUTH_MODE" not in os.environ:
        # Other users of this machine reach loopback too.
        os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=secrets.token_hex(32))
    # Ray reads both when it is imported.
    import ray

    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    with ExitStack() as stack:
        if address:
            _check_address(address)
            options = {"address": address, **quiet}
        else:
            session = stack.enter_context(_create_session_folder())
            cores = max(math.ceil(cpus), os.cpu_count() or 1)
            quiet |= {"include_dashboard": False, "object_store_memory": OBJECT_STORE_BYTES}
            options = {"address": "local", "num_cpus": cores, "_temp_dir": session, **quiet}
        before = os.getcwd()
        os.chdir(folder)
        try:
            ray.init(**options)
        finally:
            os.chdir(before)
        if not address:
            stack.enter_context(clean_up_after_kill(session))
        stack.callback(ray.shutdown)
        # Ray would print the errors of its processes on standard output; the command reports them in its own words.
        stack.enter_context(redirect_stdout(stack.enter_context(open(os.devnull, "w"))))
        yield


def _create_session_folder() -> TemporaryDirectory[str]:
    # Sockets are in it, whose paths must be short.
    return TemporaryDirectory(prefix="ray-", dir=os.environ.get("RAY_TMPDIR"), ignore_cleanup_errors=True)


def _check_address(address: str) -> None:
    """Raise NoCluster if nothing listens at the address; Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), KNOCK_S).close()
    except (ValueError, OverflowError):
        raise NoCluster(
            f"RAY_ADDRESS is {address}, which is no HOST:PORT: set it to the one that `ray start` prints, or unset it "
            "to score on this machine"
        ) from None
    except OSError as error:
        raise NoCluster(
            f"RAY_ADDRESS is {address}, where no Ray cluster answers ({error}): set it to the HOST:PORT that "
            "`ray start` prints, or unset it to score on this machine"
        ) from None
