"""The option for a port, and the check that a web server can serve there."""

from __future__ import annotations

from typing import Annotated

import typer

from orchestration.cli.refusals import RequestRefused

Port = Annotated[int, typer.Option(min=1, max=65535, help="Port on 127.0.0.1.")]


def check_port(port: int) -> None:
    """Raise RequestRefused if no web server is installed, or if another process listens on this port of 127.0.0.1."""
    import importlib.util
    import socket

    if importlib.util.find_spec("dagster_webserver") is None:
        raise RequestRefused("the web interface is not installed: install the extra `ui` (pip install 'reelsieve[ui]')")
    with socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", port)) == 0:
            raise RequestRefused(f"port {port} is in use: choose another one with --port")
