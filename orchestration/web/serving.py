"""Dagster's web server with its daemon and a code server for both, as `dagster dev` runs them, behind the guard."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import dagster as dg
import uvicorn

# `dagster dev` is made of these parts; none of them is public.
from dagster._cli.proxy_server_manager import ProxyServerManager
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import ModuleTarget, WorkspaceFileTarget
from dagster._utils.log import configure_loggers
from dagster_webserver.app import create_app_from_workspace_process_context
from dagster_webserver.cli import (
    DEFAULT_DB_STATEMENT_TIMEOUT,
    DEFAULT_POOL_MAX_OVERFLOW,
    DEFAULT_POOL_RECYCLE,
)
from dagster_webserver.version import __version__

from orchestration.platform import PROJECT, instance
from orchestration.settings import settings
from orchestration.web.guard import Guard
from orchestration.web.landing import Landing
from orchestration.web.terminal import Terminal

DEFINITIONS = "orchestration.definitions"
POLL_RATE_MS = 2000
# How long open requests, and then the daemon, may take to end: after a signal there are some seconds for both.
PATIENCE_S = 1
LOG = "ui.log"


def serve(port: int) -> None:
    """Serve the interface on 127.0.0.1 for ever. It returns when the daemon ends, and one line says so.

    From then on, what this process and those that it starts print goes to a log; only this line and errors are shown.
    """
    # Sets up Dagster's storage and its variables here, or the web server and the daemon would race to do it.
    instance().dispose()
    terminal = Terminal(settings().home_folder / "logs" / LOG)
    try:
        _serve(port, terminal)
    except Exception:
        terminal.say(f"error: the web interface ended; {terminal.log} says why")
        raise


def _serve(port: int, terminal: Terminal) -> None:
    # With these variables Dagster shows errors in the definitions without its own frames.
    os.environ.update({"DAGSTER_IS_DEV_CLI": "1", "DAGSTER_verbose": ""})
    configure_loggers(log_level="INFO")
    with ExitStack() as stack:
        served = stack.enter_context(dg.DagsterInstance.get())
        served.optimize_for_webserver(DEFAULT_DB_STATEMENT_TIMEOUT, DEFAULT_POOL_RECYCLE, DEFAULT_POOL_MAX_OVERFLOW)
        workspace = stack.enter_context(code_server(served))
        daemon = stack.enter_context(daemon_process(workspace))
        context = stack.enter_context(
            WorkspaceProcessContext(served, WorkspaceFileTarget([str(workspace)]), version=__version__)
        )
        app = Landing(create_app_from_workspace_process_context(context, live_data_poll_rate=POLL_RATE_MS))
        config = uvicorn.Config(
            Guard(app, port),
            host="127.0.0.1",
            port=port,
            log_level="warning",
            # uvloop would keep signals from the thread that ends this process in time (orchestration/stopping.py).
            loop="asyncio",
            timeout_graceful_shutdown=PATIENCE_S,
        )
        server = uvicorn.Server(config)
        threading.Thread(target=_end_together, args=(daemon, server), daemon=True).start()
        terminal.say(f"ready: http://127.0.0.1:{port} (what Dagster says is in {terminal.log})")
        server.run()
        # A signal leaves this block as KeyboardInterrupt.
        terminal.say(f"error: Dagster's daemon ended with exit code {daemon.poll()}; {terminal.log} says why")


@contextmanager
def code_server(instance: dg.DagsterInstance) -> Iterator[Path]:
    """A process that holds the definitions, on a socket of its own; yields the workspace file that leads to it."""
    target = ModuleTarget(DEFINITIONS, None, str(PROJECT), None)
    with ProxyServerManager(instance, target, "WARNING") as servers, TemporaryDirectory() as folder:
        workspace = Path(folder) / "workspace.yaml"
        # JSON is YAML.
        workspace.write_text(json.dumps({"load_from": servers.get_code_server_specs()}))
        yield workspace


@contextmanager
def daemon_process(workspace: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Dagster's daemon, which runs schedules and sensors, as a process that is stopped at the end."""
    program = ["-m", "dagster._daemon", "run", "--workspace", str(workspace), "--log-level", "warning"]
    process = subprocess.Popen([sys.executable, *program])
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _end_together(daemon: subprocess.Popen[bytes], server: uvicorn.Server) -> None:
    daemon.wait()
    server.should_exit = True
