"""Dagster's web server with its daemon and a code server for both, behind the guard, as `dagster dev` runs them."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import uvicorn
from dagster_webserver import cli as webserver
from dagster_webserver.app import create_app_from_workspace_process_context

from assets.home.files import create_home_folder, keep_files_private
from orchestration.installation import PROJECT_FOLDER, Installation
from orchestration.look.app import make_look_app
from orchestration.stopping import clean_up_after_kill
from orchestration.web.access import TOKEN, AccessGuard, open_page_keys
from orchestration.web.guard import RequestGuard
from orchestration.web.landing import LandingRouter
from orchestration.web.process import PATIENCE_S, run_dagster_program
from orchestration.web.terminal import LoggedTerminal

DEFINITIONS = "orchestration.definitions"
PAUSE_S = 0.1
POLL_RATE_MS = 2000
LOG = "ui.log"
# Dagster's command cannot be given a guard, and behind a guard that passes requests on, its own port would be open to
# every site. So the last function that it calls is replaced. Its host is one that does not exist: if a version of
# Dagster does not call the function, nothing is served.
LAST_STEP = "host_dagster_ui_with_workspace_process_context"
NO_HOST = "guarded.invalid"


class NotGuarded(RuntimeError):
    """Raised when the installed version of Dagster's web server cannot be put behind the guard."""


def serve_interface(installation: Installation, port: int) -> None:
    """Serve Dagster's web interface and the look pages on 127.0.0.1 at this port. Starts Dagster's code server and
    daemon as processes, and returns when one of them ends, after a printed line that names it. A signal ends it by
    KeyboardInterrupt.

    The output of this process and of those that it starts goes to the log logs/ui.log in the home; only the address,
    this line and errors are shown.
    """
    # Sets up Dagster's storage and its variables here, or the web server and the daemon would race to do it.
    installation.instance.dispose()
    terminal = LoggedTerminal(create_home_folder(installation.home, "logs") / LOG)
    # Its programs read modules and .env of the current folder.
    os.chdir(installation.create_empty_folder())
    try:
        with keep_files_private():
            _serve(installation, port, terminal)
    except Exception:
        terminal.print_line(f"error: the web interface ended: see {terminal.log}")
        raise


def _serve(installation: Installation, port: int, terminal: LoggedTerminal) -> None:
    # With these variables Dagster shows errors in the definitions without its own frames.
    os.environ.update({"DAGSTER_IS_DEV_CLI": "1", "DAGSTER_verbose": ""})
    # Sockets have short paths.
    with TemporaryDirectory(prefix="ui-", ignore_cleanup_errors=True) as folder, ExitStack() as stack:
        socket_file, workspace = Path(folder, "code"), Path(folder, "workspace.yaml")
        at = ["--socket", str(socket_file), "--location-name", DEFINITIONS]
        what = ["--module-name", DEFINITIONS, "--working-directory", str(PROJECT_FOLDER), "--log-level", "warning"]
        code = stack.enter_context(run_dagster_program("dagster", "code-server", "start", *at, *what))
        # JSON is YAML.
        server_of_code = {"location_name": DEFINITIONS, "socket": str(socket_file)}
        workspace.write_text(json.dumps({"load_from": [{"grpc_server": server_of_code}]}))
        _wait_for(socket_file, code)
        daemon = stack.enter_context(
            run_dagster_program("dagster-daemon", "run", "--workspace", str(workspace), "--log-level", "warning")
        )
        stack.enter_context(clean_up_after_kill(folder))
        others = {"code server": code, "daemon": daemon}
        if not hasattr(webserver, LAST_STEP):
            raise NotGuarded(f"Dagster's command no longer has {LAST_STEP}")
        setattr(webserver, LAST_STEP, partial(_host_behind_guard, installation, port, terminal, others))
        command, arguments = webserver.dagster_webserver, ["--workspace", str(workspace), "--host", NO_HOST]
        with command.make_context("dagster-webserver", arguments) as context:
            command.invoke(context)


def _host_behind_guard(
    installation: Installation,
    port: int,
    terminal: LoggedTerminal,
    others: Mapping[str, subprocess.Popen[bytes]],
    context: Any,
    *_: Any,
) -> None:
    """Serve behind the guard until another process ends. Called in place of Dagster's own function.

    context: Dagster's context of the code server.
    """
    dagsters = create_app_from_workspace_process_context(context, live_data_poll_rate=POLL_RATE_MS)
    look = make_look_app(installation.engine, lambda: installation.curation.scorers, has_lineage=True)
    app = LandingRouter(dagsters, look)
    keys = open_page_keys(installation.home)
    config = uvicorn.Config(
        RequestGuard(AccessGuard(app, keys), port),
        host="127.0.0.1",
        port=port,
        log_level="warning",
        # uvloop would keep signals from the thread that ends this process in time (orchestration/stopping.py).
        loop="asyncio",
        proxy_headers=False,
        timeout_graceful_shutdown=PATIENCE_S,
    )
    server = uvicorn.Server(config)
    for other in others.values():
        threading.Thread(target=_end_together, args=(other, server), daemon=True).start()
    address = f"http://127.0.0.1:{port}/?{TOKEN}={keys.sign()}"
    terminal.print_line(f"ready: {address} (the log of Dagster is {terminal.log})")
    server.run()
    # A signal leaves this block as KeyboardInterrupt.
    for name, other in others.items():
        if other.poll() is not None:
            terminal.print_line(f"error: Dagster's {name} ended with exit code {other.poll()}; {terminal.log} says why")


def _wait_for(socket_file: Path, code: subprocess.Popen[bytes]) -> None:
    """Wait until the code server answers, which it does once it has loaded the definitions, or until it has ended."""
    while code.poll() is None:
        with suppress(OSError), socket.socket(socket.AF_UNIX) as client:
            client.connect(str(socket_file))
            return
        time.sleep(PAUSE_S)


def _end_together(other: subprocess.Popen[bytes], server: uvicorn.Server) -> None:
    other.wait()
    server.should_exit = True
