"""Keeps other web sites out of the pages on this machine, which trust every request to 127.0.0.1."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

GRAPHQL = "/graphql"
NAMES = ("127.0.0.1", "localhost")
HTTP_PORT = 80
# Close code for a web socket that breaks a rule (RFC 6455); the browser sees HTTP 403 where it was never accepted.
POLICY_VIOLATION = 1008


@dataclass(frozen=True)
class PublicAddress:
    """Where a lab's own proxy serves raters' links; by default there is none. url: the address that browsers see, such
    as https://rate.lab.example, or None. further_hosts: other names that the proxy may send in the header Host.

    >>> PublicAddress("https://rate.lab.example", ("rater",)).origins == {"https://rate.lab.example", "https://rater"}
    True
    """

    url: str | None = None
    further_hosts: tuple[str, ...] = ()

    @property
    def scheme(self) -> str:
        """The scheme of the address: https, unless it says http."""
        return urlsplit(self.url or "https:").scheme

    @property
    def hosts(self) -> frozenset[str]:
        """The values of the header Host that the proxy may send."""
        return frozenset(map(str.lower, filter(None, (urlsplit(self.url or "").netloc, *self.further_hosts))))

    @property
    def origins(self) -> frozenset[str]:
        """The origins of the pages at this address."""
        return frozenset(f"{self.scheme}://{host}" for host in self.hosts)


NO_PROXY = PublicAddress()


class RequestGuard:
    """ASGI middleware that passes requests of our own pages and of programs on this machine to an inner application,
    and refuses those of other web sites: an HTTP request with status 403, 404, 405, 415 or 421 and one sentence, and a
    web socket by closing it. port: of this server. public: a proxy's address, if any.

    A request must name this server or the proxy in its header Host, so that no foreign name can be pointed here; no
    forwarded name counts. It must come from no other origin. Only a POST of JSON, which no form or link can send, may
    change anything. No other site may frame our pages.
    """

    def __init__(self, app: ASGIApp, port: int, public: PublicAddress = NO_PROXY) -> None:
        self._app = app
        # Browsers leave out the default port.
        own = {f"{name}:{port}" for name in NAMES} | ({*NAMES} if port == HTTP_PORT else set())
        self._hosts = own | public.hosts
        self._origins = {f"http://{host}" for host in own} | public.origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on to the inner application, or refuse it with a status and one sentence."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        if refusal is None:
            await self._app(scope, receive, _forbid_framing(send))
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": POLICY_VIOLATION})
        else:
            status, sentence = refusal
            await PlainTextResponse(f"{sentence}\n", status)(scope, receive, send)

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        """Return status and reason for a request that must not pass, else None."""
        headers = Headers(scope=scope)
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            return 421, f"this server answers under {' and '.join(sorted(self._hosts))} only"
        # Programs send no origin; browsers send one with every request that could change something.
        if not self._origins.issuperset(origins):
            return 403, "a page of another site may not use this server"
        return _explain_refused_request(scope, headers) if scope["type"] == "http" else None


def _explain_refused_request(scope: Scope, headers: Headers) -> tuple[int, str] | None:
    """Return status and reason for a path that names nothing, or for a request that any link or form can send although
    it might change something; else None.
    """
    path = scope["path"]
    parts = path.split("/")[1:]
    is_no_log = parts[0] == "logs" and (len(parts) < 3 or "" in parts)
    # Dagster takes such a name for that of a file, and answers that it has a fault.
    if is_no_log or {"..", "."}.intersection(parts) or "\0" in path:
        return 404, "nothing has this name"
    if scope["method"] in ("GET", "HEAD"):
        # Where HTML is accepted Dagster answers with a page to type queries into; else it runs the query.
        if path == GRAPHQL and "text/html" not in headers.get("accept", ""):
            return 405, "send queries by POST"
    elif [kind.partition(";")[0].strip().lower() for kind in headers.getlist("content-type")] != ["application/json"]:
        return 415, "send JSON: the content type must be application/json"
    return None


def _forbid_framing(send: Send) -> Send:
    """Return a send function that adds a header by which browsers refuse to frame the page in other sites."""

    async def send_unframed(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message)["X-Frame-Options"] = "SAMEORIGIN"
        await send(message)

    return send_unframed
