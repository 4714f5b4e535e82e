"""The command ui: serves Dagster's web interface on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from orchestration.cli.output import console, print_sentence
from orchestration.cli.pass_installation import pass_installation
from orchestration.cli.port import Port, check_port

if TYPE_CHECKING:
    from orchestration.installation import Installation


@pass_installation
def ui(installation: Installation, port: Port = 3000) -> None:
    """Serve Dagster's web interface with its daemon: lineage, runs, checks, plots. Ctrl-C ends it."""
    check_port(port)
    print_sentence(f"http://127.0.0.1:{port} in a moment; Ctrl-C ends it")
    console.print("runs of commands are on the page Runs, not on the timeline")
    from orchestration.web.serving import serve_interface

    serve_interface(installation, port)
    raise typer.Exit(1)
