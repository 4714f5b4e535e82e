"""Dagster's web server with its daemon and a code server for both, as `dagster dev` runs them, behind the guard."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TextIO

import psutil  # type: ignore[import-untyped]
import uvicorn
from dagster_webserver import cli as webserver
from dagster_webserver.app import create_app_from_workspace_process_context
from starlette.responses import HTMLResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from assets.home import make_home_folder, private_files
from orchestration.look.serving import look
from orchestration.platform import PROJECT, installed
from orchestration.stopping import cleans_up, dying_along
from orchestration.web.guard import Guard

# The first page: it leads to the lineage with all groups folded, top to bottom, as the README shows it.

# Where Dagster's page keeps a person's choices. It fits the graph's width to the window: from top to bottom the graph
# is narrow, and its names are large. It keeps open groups too, and with all of them open it draws no name at all.
PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Reelsieve</title>
<p><a href="/asset-groups">lineage</a>, <a href="/look">samples</a></p>
<script>
for (const [choice, usual] of [["asset-graph-direction", '"vertical"'], ["dagster-nav-collapsed", "true"]]) {
  if (localStorage.getItem(choice) === null) localStorage.setItem(choice, usual);
}
for (const choice of Object.keys(localStorage)) {
  if (choice.startsWith("asset-graph-open-graph-nodes-global")) localStorage.removeItem(choice);
}
location.replace("/asset-groups");
</script>
</html>
"""


class Landing:
    """In front of Dagster's application: answers for the address without a path, and leads to the pages of look."""

    def __init__(self, app: ASGIApp, look: ASGIApp) -> None:
        self._app, self._look = app, look

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or pass the request on."""
        app = self._app
        if scope["type"] == "http" and scope["path"].split("/")[1] == "look":
            app = self._look
        elif scope["type"] == "http" and scope["path"] == "/" and scope["method"] in ("GET", "HEAD"):
            app = HTMLResponse(PAGE)
        await app(scope, receive, send)


# What a person sees of the interface at the terminal; all else that its processes print goes to a log file.


class Terminal:
    """The terminal, apart from standard output and error, which from then on lead to the log."""

    def __init__(self, log: Path) -> None:
        """Send standard output and error of this process and of those that it starts to a new log file."""
        self.log = log
        self._shown: TextIO = os.fdopen(os.dup(1), "w", encoding="utf-8")
        with private_files(), log.open("w") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)

    def say(self, line: str) -> None:
        """Show one line."""
        print(line, file=self._shown, flush=True)


# What `dagster dev` runs: Dagster's web server, here in this process, its daemon, and a code server for both.


DEFINITIONS = "orchestration.definitions"
# How long open requests, and then the other processes, may take to end: after a signal there are some seconds for both.
PATIENCE_S = 1
PAUSE_S = 0.1
POLL_RATE_MS = 2000
LOG = "ui.log"
# Dagster's command has no place for a guard, and with a guard that passes requests on to it, its own port would stand
# open to every site. So this function of it, with which it ends, is replaced. Its host is one that does not exist:
# should a version of Dagster not call the function, nothing is served.
LAST_STEP = "host_dagster_ui_with_workspace_process_context"
NO_HOST = "guarded.invalid"


class NotGuarded(RuntimeError):
    """This version of Dagster's web server cannot be guarded."""


def serve(port: int) -> None:
    """Serve the interface on 127.0.0.1 for ever. It returns when another process ends, and one line says so.

    From then on, what this process and those that it starts print goes to a log; only this line and errors are shown.
    """
    # Sets up Dagster's storage and its variables here, or the web server and the daemon would race to do it.
    installed().instance.dispose()
    terminal = Terminal(make_home_folder(installed().home, "logs") / LOG)
    try:
        with private_files():
            _serve(port, terminal)
    except Exception:
        terminal.say(f"error: the web interface ended; {terminal.log} says why")
        raise


def _serve(port: int, terminal: Terminal) -> None:
    # With these variables Dagster shows errors in the definitions without its own frames.
    os.environ.update({"DAGSTER_IS_DEV_CLI": "1", "DAGSTER_verbose": ""})
    # Sockets have short paths.
    with TemporaryDirectory(prefix="ui-", ignore_cleanup_errors=True) as folder, ExitStack() as stack:
        socket_file, workspace = Path(folder, "code"), Path(folder, "workspace.yaml")
        at = ["--socket", str(socket_file), "--location-name", DEFINITIONS]
        what = ["--module-name", DEFINITIONS, "--working-directory", str(PROJECT), "--log-level", "warning"]
        code = stack.enter_context(process("dagster", "code-server", "start", *at, *what))
        # JSON is YAML.
        server_of_code = {"location_name": DEFINITIONS, "socket": str(socket_file)}
        workspace.write_text(json.dumps({"load_from": [{"grpc_server": server_of_code}]}))
        _wait_for(socket_file, code)
        daemon = stack.enter_context(
            process("dagster-daemon", "run", "--workspace", str(workspace), "--log-level", "warning")
        )
        stack.enter_context(dying_along(folder))
        others = {"code server": code, "daemon": daemon}
        if not hasattr(webserver, LAST_STEP):
            raise NotGuarded(f"Dagster's command has no {LAST_STEP} any more")
        setattr(webserver, LAST_STEP, partial(_host, port, terminal, others))
        command, arguments = webserver.dagster_webserver, ["--workspace", str(workspace), "--host", NO_HOST]
        with command.make_context("dagster-webserver", arguments) as context:
            command.invoke(context)


def _host(port: int, terminal: Terminal, others: Mapping[str, subprocess.Popen[bytes]], context: Any, *_: Any) -> None:
    """Serve behind the guard until another process ends; in the place of Dagster's own function.

    context: Dagster's sight of the code server.
    """
    dagsters = create_app_from_workspace_process_context(context, live_data_poll_rate=POLL_RATE_MS)
    app = Landing(dagsters, look(has_lineage=True).app())
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
    for other in others.values():
        threading.Thread(target=_end_together, args=(other, server), daemon=True).start()
    terminal.say(f"ready: http://127.0.0.1:{port} (what Dagster says is in {terminal.log})")
    server.run()
    # A signal leaves this block as KeyboardInterrupt.
    for name, other in others.items():
        if other.poll() is not None:
            terminal.say(f"error: Dagster's {name} ended with exit code {other.poll()}; {terminal.log} says why")


@contextmanager
def process(program: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """One of Dagster's programs as a process, which is stopped at the end with all that it started."""
    started = subprocess.Popen([str(Path(sys.executable).with_name(program)), *arguments])
    try:
        yield started
    finally:
        family = []
        with suppress(psutil.Error):
            family = psutil.Process(started.pid).children(recursive=True)
        started.terminate()
        with suppress(subprocess.TimeoutExpired):
            started.wait(PATIENCE_S)
        started.kill()
        for child in family:
            with suppress(psutil.Error):
                if not cleans_up(child):
                    child.kill()
        started.wait()


def _wait_for(socket_file: Path, code: subprocess.Popen[bytes]) -> None:
    """Wait until the code server answers, which it does once it has loaded the definitions, or has ended."""
    while code.poll() is None:
        with suppress(OSError), socket.socket(socket.AF_UNIX) as client:
            client.connect(str(socket_file))
            return
        time.sleep(PAUSE_S)


def _end_together(other: subprocess.Popen[bytes], server: uvicorn.Server) -> None:
    other.wait()
    server.should_exit = True
