"""The command ui: Dagster's web interface on this machine."""

from __future__ import annotations

from typing import Annotated

import typer

from orchestration.cli.output import console


def ui(port: Annotated[int, typer.Option(min=1, max=65535, help="Port on 127.0.0.1.")] = 3000) -> None:
    """Open Dagster's web interface with its daemon on this machine: lineage, runs, checks, plots. Ctrl-C ends it."""
    from orchestration.cli.port import check_port

    check_port(port)
    console.print(f"http://127.0.0.1:{port} in a moment; Ctrl-C ends it")
    from orchestration.web.serving import serve

    serve(port)
    raise typer.Exit(1)
