"""Serves the pages of the commands look and rate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from orchestration.cli.output import console
from orchestration.cli.port import check_port

if TYPE_CHECKING:
    from orchestration.installation import Installation
    from orchestration.look.state import RatingSetup
    from orchestration.web.guard import PublicAddress


def serve_pages(
    installation: Installation,
    path: str,
    dataset: str | None,
    port: int,
    setups: Mapping[str, RatingSetup] | None = None,
    public: PublicAddress | None = None,
) -> None:
    """Print the address of a page, with the token that opens all pages, and serve the pages of look and rate on this
    port of 127.0.0.1 until a signal ends the process. Raises UnknownDataset, and RequestRefused if the port is taken.

    path: in the address. dataset: one that must exist, or None. setups: guidelines and attention checks, by aspect.
    public: where a proxy serves raters' links, if one does.
    """
    check_port(port)
    from assets.datasets.lookup import require_dataset
    from orchestration.look.serving import serve_look_pages
    from orchestration.web.access import TOKEN, open_page_keys
    from orchestration.web.guard import NO_PROXY

    if dataset is not None:
        require_dataset(installation.engine, dataset)
    path += f"{'&' if '?' in path else '?'}{TOKEN}={open_page_keys(installation.home).sign()}"
    console.print(f"http://127.0.0.1:{port}{path} in a moment; Ctrl-C ends it")
    serve_look_pages(installation, port, setups, public or NO_PROXY)
