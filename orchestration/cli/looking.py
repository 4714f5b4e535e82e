"""Commands that show a dataset in a browser: look, rate."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote, urlencode

import typer

from orchestration.cli.output import console
from orchestration.cli.refusals import Refused, UsageError

Port = Annotated[int, typer.Option(min=1, max=65535, help="Port on 127.0.0.1.")]


def look(
    dataset: Annotated[str | None, typer.Argument(help="Name of the dataset (default: a list of all).")] = None,
    port: Port = 3001,
) -> None:
    """Look through samples in a browser: videos, captions, scores and why, histograms to filter by. Ctrl-C ends it."""
    _serve(f"/look/{quote(dataset)}" if dataset else "/look", dataset, port)


def rate(
    dataset: Annotated[str, typer.Argument(help="Name of the dataset.")],
    aspect: Annotated[str, typer.Option(help="What is rated, such as coverage.")],
    rater: Annotated[str | None, typer.Option(help="Name of the rater (default: the page asks).")] = None,
    scale: Annotated[
        str | None, typer.Option(help="1-5, 0-100 or yes-no (default: as the aspect was rated before, else 1-5).")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random order; raters of one seed share the order.")] = 0,
    port: Port = 3001,
) -> None:
    """Rate captions in a browser, one at a time, blind to systems and scores. Every answer is stored at once."""
    from orchestration.look.rating import SCALES

    if scale is not None and scale not in SCALES:
        raise UsageError(f"--scale: there is no scale {scale!r}: choose one of {', '.join(SCALES)}")
    said = {"aspect": aspect, "rater": rater, "scale": scale, "seed": str(seed)}
    query = urlencode({name: value for name, value in said.items() if value is not None})
    _serve(f"/look/{quote(dataset)}/rate?{query}", dataset, port)


def _serve(path: str, dataset: str | None, port: int) -> None:
    """Serve the pages for ever, and say at which address one of them is."""
    check_port(port)
    from assets.datasets import dataset_of_key
    from orchestration.look.serving import serve
    from orchestration.platform import engine

    if dataset is not None:
        dataset_of_key(engine(), dataset)
    console.print(f"http://127.0.0.1:{port}{path} in a moment; Ctrl-C ends it", soft_wrap=True, markup=False)
    serve(port)


def check_port(port: int) -> None:
    """Refuse where no web server is installed, and where the port is taken."""
    import importlib.util
    import socket

    if importlib.util.find_spec("dagster_webserver") is None:
        raise Refused("the web interface is not installed: install the extra `ui` (pip install 'reelsieve[ui]')")
    with socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", port)) == 0:
            raise Refused(f"port {port} is in use: choose another one with --port")
