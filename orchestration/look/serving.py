"""The server of `reelsieve look` and `reelsieve rate`: the pages alone, without Dagster, behind the same guard."""

from __future__ import annotations

import uvicorn

from assets.agreement.settling import Draws
from orchestration.look.app import Look
from orchestration.platform import Installation
from orchestration.web.guard import Guard

# How long open requests may take to end.
PATIENCE_S = 1


def look(installation: Installation, *, has_lineage: bool, draws: Draws | None = None) -> Look:
    """The pages of this installation."""
    return Look(installation.engine, lambda: installation.curation.scorers, has_lineage, draws)


def serve(installation: Installation, port: int, draws: Draws | None) -> None:
    """Serve the pages on 127.0.0.1 until a signal comes, which leaves here as KeyboardInterrupt.

    draws: those that are made already.
    """
    config = uvicorn.Config(
        Guard(look(installation, has_lineage=False, draws=draws).app(), port),
        host="127.0.0.1",
        port=port,
        log_level="warning",
        # uvloop would keep signals from the thread that ends this process in time (orchestration/stopping.py).
        loop="asyncio",
        timeout_graceful_shutdown=PATIENCE_S,
    )
    uvicorn.Server(config).run()
