"""Answers only people with an address that a command printed: other accounts of this machine reach its ports too."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Sequence
from contextlib import suppress
from html import escape
from pathlib import Path
from urllib.parse import quote, urlencode

from starlette.datastructures import Headers, QueryParams
from starlette.requests import cookie_parser
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from orchestration.web.guard import POLICY_VIOLATION

SECRET_FILE = "pages-secret"
TOKEN = "token"
COOKIE = "reelsieve-"
_REFUSAL = "this address needs the token of the one that reelsieve printed in the terminal: open that one first"


class PageKeys:
    """Makes and reads the tokens of a home's pages. secret: of the home; another secret makes other tokens."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def sign(self, *link: str) -> str:
        """Return the token of a rater's link, which opens only its questions; without arguments the token that opens
        all pages. link: dataset, kind of the page ("rate" or "rate/facts"), rater and aspect ("" for facts).

        >>> keys = PageKeys(b"of the example")
        >>> keys.read(keys.sign("clips", "rate", "rater-1", "coverage"))
        ('clips', 'rate', 'rater-1', 'coverage')
        >>> keys.read(keys.sign()), keys.read("W10.forged")
        ((), None)
        """
        text = base64.urlsafe_b64encode(json.dumps(link).encode()).decode().rstrip("=")
        return f"{text}.{self._compute_digest(text)}"

    def read(self, token: str) -> tuple[str, ...] | None:
        """Return the link that a token was made for; None for a token that these keys did not make."""
        text, _, digest = token.partition(".")
        if not hmac.compare_digest(self._compute_digest(text).encode(), digest.encode(errors="replace")):
            return None
        return tuple(json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))))

    def _compute_digest(self, text: str) -> str:
        return hmac.new(self._secret, text.encode(errors="replace"), hashlib.sha256).hexdigest()


def open_page_keys(home: Path) -> PageKeys:
    """Return the keys of a home, whose secret is a file of this account only; make the file if needed. Links of earlier
    commands stay valid as long as it exists.
    """
    place = home / SECRET_FILE
    if not place.exists():
        fresh = home / f"{SECRET_FILE}-{secrets.token_hex(4)}"
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(secrets.token_bytes(32))
        # Of two commands that begin at once, the first one gives the secret.
        with suppress(FileExistsError):
            os.link(fresh, place)
        fresh.unlink()
    return PageKeys(place.read_bytes())


class AccessGuard:
    """ASGI middleware that passes requests with a token to an inner application, and refuses others with status 403 and
    one sentence; a refused web socket is closed. keys: make and read the tokens.

    A token comes in the address, which is then answered with a cookie and a redirect to the address without it; or in
    that cookie, or for programs in the header `Authorization: Bearer TOKEN`.
    """

    def __init__(self, app: ASGIApp, keys: PageKeys) -> None:
        self._app, self._keys = app, keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on to the inner application, set a cookie for its token, or refuse it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        headers, parameters = Headers(scope=scope), QueryParams(scope["query_string"])
        held = [value for name, value in cookie_parser(headers.get("cookie", "")).items() if name.startswith(COOKIE)]
        held += [headers.get("authorization", "").removeprefix("Bearer ")]
        links = [link for link in map(self._keys.read, held) if link is not None]
        if any(_is_open(link, scope, parameters) for link in links):
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": POLICY_VIOLATION})
        else:
            await self._answer_token(parameters, scope, headers)(scope, receive, send)

    def _answer_token(self, parameters: QueryParams, scope: Scope, headers: Headers) -> Response:
        """Return the response that sets a cookie for the token in an address, or the refusal."""
        token = parameters.get(TOKEN, "")
        if scope["method"] != "GET" or self._keys.read(token) is None:
            return PlainTextResponse(f"{_REFUSAL}\n", 403)
        rest = urlencode([(name, value) for name, value in parameters.multi_items() if name != TOKEN])
        address = f"{quote(scope['path'])}{'?' if rest else ''}{rest}"
        response: Response = RedirectResponse(address, 303)
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            # A link on another site, such as that of a mailbox: a browser sends no strict cookie after its redirect.
            response = HTMLResponse(f'<meta http-equiv="refresh" content="0;url={escape(address)}">')
        response.set_cookie(f"{COOKIE}{token[-12:]}", token, httponly=True, samesite="strict")
        response.headers["Cache-Control"] = "no-store"
        return response


def _is_open(link: Sequence[str], scope: Scope, parameters: QueryParams) -> bool:
    """Whether a token of this link opens the address of a request: () opens all. A rater's link opens its questions,
    the videos of their dataset, and the files of all pages.
    """
    if not link:
        return True
    dataset, kind, rater, aspect = link
    if scope["type"] != "http":
        return False
    parts = scope["path"].split("/")
    if parts[1:3] == ["look", "files"]:
        return True
    if parts[:3] != ["", "look", dataset]:
        return False
    if parts[3:4] == ["video"]:
        return len(parts) == 6 and parts[5] in ("file", "frames.jpg")
    pages = [kind, f"{kind}/undo", *(f"{kind}/{part}" for part in ("progress", "raters", "spans") if kind == "rate")]
    named = {"rater": [rater], **({"aspect": [aspect]} if aspect else {})}
    return "/".join(parts[3:]) in pages and all(parameters.getlist(name) == given for name, given in named.items())
