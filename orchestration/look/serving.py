"""The server of `reelsieve look` and `reelsieve rate`: only the pages, without Dagster, behind the same guard."""

from __future__ import annotations

from collections.abc import Mapping

import uvicorn

from orchestration.installation import Installation
from orchestration.look.app import make_look_app
from orchestration.look.state import RatingSetup
from orchestration.web.access import AccessGuard, open_page_keys
from orchestration.web.guard import NO_PROXY, PublicAddress, RequestGuard

# How long open requests may take to end.
PATIENCE_S = 1


def serve_look_pages(
    installation: Installation,
    port: int,
    setups: Mapping[str, RatingSetup] | None = None,
    public: PublicAddress = NO_PROXY,
) -> None:
    """Serve the look pages, without Dagster, on 127.0.0.1 at this port, until a signal ends this by KeyboardInterrupt.
    setups: guidelines and attention checks, by aspect. public: where a proxy serves raters' links, if one does.
    """
    app = make_look_app(installation.engine, lambda: installation.curation.scorers, has_lineage=False, setups=setups)
    config = uvicorn.Config(
        RequestGuard(AccessGuard(app, open_page_keys(installation.home), public), port, public),
        host="127.0.0.1",
        port=port,
        log_level="warning",
        # uvloop would keep signals from the thread that ends this process in time (orchestration/stopping.py).
        loop="asyncio",
        # Nothing is decided by X-Forwarded-For and the others, which anybody can send.
        proxy_headers=False,
        timeout_graceful_shutdown=PATIENCE_S,
    )
    uvicorn.Server(config).run()
