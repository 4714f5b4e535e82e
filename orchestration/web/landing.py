"""The first page: it leads to the lineage with all groups open, top to bottom, as the README shows it."""

from __future__ import annotations

from starlette.responses import HTMLResponse
from starlette.types import ASGIApp, Receive, Scope, Send

# How Dagster's page names a group, and where it keeps a person's choices, which are left alone. Unless there is room,
# the page draws no names: with icons alone in the navigation, and from top to bottom, the graph has most of it.
PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Reelsieve</title>
<p><a href="/asset-groups">lineage</a></p>
<script>
for (const [choice, usual] of [["asset-graph-direction", '"vertical"'], ["dagster-nav-collapsed", "true"]]) {
  if (localStorage.getItem(choice) === null) localStorage.setItem(choice, usual);
}
const body = JSON.stringify({query: "{ assetNodes { groupName } }"});
fetch("/graphql", {method: "POST", headers: {"Content-Type": "application/json"}, body})
  .then(answer => answer.json())
  .then(({data}) => [...new Set(data.assetNodes.map(node => node.groupName))].sort())
  .catch(() => [])
  .then(groups => {
    const open = new URLSearchParams({expanded: groups.map(name => `global@global:${name}`).join(",")});
    location.replace(`/asset-groups?${open}`);
  });
</script>
</html>
"""


class Landing:
    """An ASGI application in front of Dagster's, which answers for the address without a path."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or pass the request on."""
        is_asked = scope["type"] == "http" and scope["path"] == "/" and scope["method"] in ("GET", "HEAD")
        await (HTMLResponse(PAGE) if is_asked else self._app)(scope, receive, send)
