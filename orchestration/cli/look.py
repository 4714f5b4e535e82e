"""The command look: shows the samples of a dataset in a browser."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

import typer

from orchestration.cli.pass_installation import pass_installation
from orchestration.cli.port import Port
from orchestration.cli.served_pages import serve_pages

if TYPE_CHECKING:
    from orchestration.installation import Installation


@pass_installation
def look(
    installation: Installation,
    dataset: Annotated[
        str | None, typer.Option("--dataset", "-d", help="Name of the dataset (default: a list of all).")
    ] = None,
    port: Port = 3001,
) -> None:
    """Serve pages to look through samples in a browser: videos, captions, scores and why. Ctrl-C ends it."""
    serve_pages(installation, f"/look/{quote(dataset)}" if dataset else "/look", dataset, port)
