"""The first page of the web interface: it opens the lineage with all groups folded, top to bottom."""

from __future__ import annotations

from starlette.responses import HTMLResponse
from starlette.types import ASGIApp, Receive, Scope, Send

# Dagster's page keeps a person's choices in the browser's storage. It fits the graph's width to the window: from top to
# bottom the graph is narrow, and its names are large. With all groups open it draws no name at all.
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


class LandingRouter:
    """ASGI application that chooses who answers a request, by its path: / gets the first page, which leads to Dagster's
    lineage. Paths below /look go to the application `look`, and all others to Dagster's application `app`.
    """

    def __init__(self, app: ASGIApp, look: ASGIApp) -> None:
        self._app, self._look = app, look

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with the first page, or pass the request to the look pages or to Dagster."""
        app = self._app
        if scope["type"] == "http" and scope["path"].split("/")[1] == "look":
            app = self._look
        elif scope["type"] == "http" and scope["path"] == "/" and scope["method"] in ("GET", "HEAD"):
            app = HTMLResponse(PAGE)
        await app(scope, receive, send)
