"""Answers only people with an address that a command printed: other accounts of this machine reach its ports too, and
people outside where a lab's proxy passes their requests on.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime, timezone
from functools import partial
from html import escape
from pathlib import Path
from typing import Literal, NamedTuple
from urllib.parse import quote, urlencode

from starlette.datastructures import Headers, QueryParams
from starlette.requests import cookie_parser
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from orchestration.web.guard import NAMES, NO_PROXY, POLICY_VIOLATION, PublicAddress
from orchestration.web.limits import RateLimits

SECRET_FILE = "pages-secret"
TOKEN = "token"
COOKIE = "reelsieve-"
# The value in a request's scope by which pages know a rater's link, and sign the addresses of its videos.
SIGN_MEDIA = "reelsieve.sign_media"
MEDIA_KEY = "key"
# What names a sitting in the address of its pages.
SITTING = ("rater", "aspect", "scale", "pairs", "spans", "seed", "for-promise")
# How many requests (a second, at once) one link may send: answers and marks, and all others. A page with its video
# makes some ten; a long video inside a tar file comes in parts of 4 MiB.
CHANGES_PER_LINK = (3.0, 100)
READS_PER_LINK = (20.0, 600)
# Those without a link that a proxy passes on, of all people together.
UNSIGNED = (20.0, 600)
_REFUSAL = "this address needs the token of the one that reelsieve printed in the terminal: open that one first"
_REFUSAL_OUTSIDE = "this page needs the link that you were sent: open that link again"


class RaterLink(NamedTuple):
    """One sitting, by one rater and on one aspect or on keypoints, which a signed link opens. kind: of the page, "rate"
    or "rate/facts". sitting: the query string of its addresses, as `format_sitting` returns it. until: when the link
    expires, in seconds since 1970.
    """

    dataset: str
    kind: str
    sitting: str
    until: int


def format_sitting(parameters: Mapping[str, str] | QueryParams) -> str:
    """Return those parameters of an address that name a sitting, sorted, as a query string.

    >>> format_sitting({"seed": "0", "rater": "rater-1", "aspect": "coverage", "skip": "4"})
    'aspect=coverage&rater=rater-1&seed=0'
    """
    items = parameters.multi_items() if isinstance(parameters, QueryParams) else parameters.items()
    return urlencode(sorted((name, value) for name, value in items if name in SITTING))


class PageKeys:
    """Makes and reads the tokens of a home's pages. secret: of the home; another secret makes other tokens."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def sign(self, link: RaterLink | None = None) -> str:
        """Return the token of a rater's link, which opens only its questions; without a link the token that opens all
        pages.

        >>> keys = PageKeys(b"of the example")
        >>> link = RaterLink("clips", "rate", "aspect=coverage&rater=rater-1&seed=0", 1_800_000_000)
        >>> keys.read(keys.sign(link)) == link
        True
        >>> keys.read(keys.sign()), keys.read("W10.forged")
        ('all pages', None)
        """
        text = base64.urlsafe_b64encode(json.dumps(link or ()).encode()).decode().rstrip("=")
        return f"{text}.{self._compute_digest(text)}"

    def read(self, token: str) -> RaterLink | Literal["all pages"] | None:
        """Return the link that a token was made for, also an expired one, or "all pages"; None for a token that these
        keys did not make.
        """
        text, _, digest = token.partition(".")
        if not hmac.compare_digest(self._compute_digest(text).encode(), digest.encode(errors="replace")):
            return None
        match json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))):
            case []:
                return "all pages"
            case [str(dataset), str(kind), str(sitting), int(until)]:
                return RaterLink(dataset, kind, sitting, until)
        return None

    def sign_media(self, link: RaterLink, path: str) -> str:
        """Return the key by which a link opens what is below a path of a video. A page of the link gives it to its
        videos, and nothing opens the others.
        """
        return self._compute_digest(json.dumps([path, *link]))

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
    """ASGI middleware that passes requests with a token to an inner application, and refuses others with status 403, or
    429 for too many, and one sentence; a refused web socket is closed. keys: make and read the tokens. public: where a
    proxy serves raters' links; there nothing else is open. clock: gives the seconds since 1970.

    A token comes in the address, which is then answered with a cookie and a redirect to the address without it; or in
    that cookie, or for programs in the header `Authorization: Bearer TOKEN`.
    """

    def __init__(
        self,
        app: ASGIApp,
        keys: PageKeys,
        public: PublicAddress = NO_PROXY,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._app, self._keys, self._public, self._clock = app, keys, public, clock
        self._limits = RateLimits(clock)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on to the inner application, set a cookie for its token, or refuse it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        headers, parameters = Headers(scope=scope), QueryParams(scope["query_string"])
        is_outside = headers.get("host", "").partition(":")[0].lower() not in NAMES
        held = [value for name, value in cookie_parser(headers.get("cookie", "")).items() if name.startswith(COOKIE)]
        held += [headers.get("authorization", "").removeprefix("Bearer ")]
        links = [link for link in map(self._keys.read, held) if link is not None]
        if "all pages" in links and not is_outside:
            await self._app(scope, receive, send)
            return
        open_here = [link for link in links if isinstance(link, RaterLink) and self._opens(link, scope, parameters)]
        # Of links that open the same, the one that expires last.
        link = max(open_here, key=lambda link: link.until, default=None)
        refusal: Response | None
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": POLICY_VIOLATION})
            return
        if link is not None and link.until > self._clock():
            scope[SIGN_MEDIA] = partial(self._keys.sign_media, link)
            refusal = self._refuse_link(link, scope["method"], headers)
        else:
            refusal = self._answer_token(parameters, scope, headers, is_outside, link)
        await (refusal or self._app)(scope, receive, send)

    def _opens(self, link: RaterLink, scope: Scope, parameters: QueryParams) -> bool:
        """Whether a link opens the address of a request, before it expires: its questions, the videos of those that it
        was shown, and the files of all pages.
        """
        if scope["type"] != "http":
            return False
        parts = scope["path"].split("/")
        if parts[1:3] == ["look", "files"]:
            return True
        if parts[:3] != ["", "look", link.dataset]:
            return False
        if parts[3:4] == ["video"] and len(parts) == 6 and parts[5] in ("file", "frames.jpg"):
            key = self._keys.sign_media(link, "/".join(parts[:5]))
            return hmac.compare_digest(key.encode(), parameters.get(MEDIA_KEY, "").encode(errors="replace"))
        pages = [link.kind, f"{link.kind}/undo", *(["rate/spans"] if link.kind == "rate" else [])]
        return "/".join(parts[3:]) in pages and format_sitting(parameters) == link.sitting

    def _refuse_link(self, link: RaterLink, method: str, headers: Headers) -> Response | None:
        """Return the refusal of a request by a link that expired, or that sent too many requests; None for others."""
        if link.until <= self._clock():
            when = datetime.fromtimestamp(link.until, timezone.utc)
            return _refuse(headers, f"this link expired on {when:%Y-%m-%d at %H:%M} UTC: ask for a new one")
        is_read = method in ("GET", "HEAD")
        wait = self._limits.take(f"{is_read} {link}", *(READS_PER_LINK if is_read else CHANGES_PER_LINK))
        return _refuse(headers, "too many requests came by this link", wait) if wait else None

    def _answer_token(
        self, parameters: QueryParams, scope: Scope, headers: Headers, is_outside: bool, expired: RaterLink | None
    ) -> Response:
        """Return the response that sets a cookie for the token in an address, or the refusal. expired: the link of a
        cookie that would have opened the address, or None.
        """
        token = parameters.get(TOKEN, "")
        link = self._keys.read(token) if scope["method"] == "GET" else None
        if link == "all pages" and is_outside:
            link = None
        link = link or expired
        if link is None:
            wait = self._limits.take("", *UNSIGNED) if is_outside else 0
            sentence = _REFUSAL_OUTSIDE if is_outside else _REFUSAL
            return _refuse(headers, "too many requests came without a link" if wait else sentence, wait)
        if isinstance(link, RaterLink) and (refusal := self._refuse_link(link, scope["method"], headers)):
            return refusal
        rest = urlencode([(name, value) for name, value in parameters.multi_items() if name != TOKEN])
        address = f"{quote(scope['path'])}{'?' if rest else ''}{rest}"
        response: Response = RedirectResponse(address, 303)
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            # A link on another site, such as that of a mailbox: a browser sends no strict cookie after its redirect.
            response = HTMLResponse(f'<meta http-equiv="refresh" content="0;url={escape(address)}">')
        name, is_secure = f"{COOKIE}{token[-12:]}", is_outside and self._public.scheme == "https"
        age = link.until - int(self._clock()) if isinstance(link, RaterLink) else None
        response.set_cookie(name, token, age, httponly=True, samesite="strict", secure=is_secure)
        response.headers["Cache-Control"] = "no-store"
        return response


def _refuse(headers: Headers, sentence: str, wait: int = 0) -> Response:
    """Return the refusal of a request, as text for a page and as JSON for its scripts and for programs. wait: the
    seconds after which the request may come again, 0 for one that is refused for good.
    """
    more = {"Cache-Control": "no-store"}
    status, sentence = (429, f"{sentence}: wait {wait} s") if wait else (403, sentence)
    more |= {"Retry-After": str(wait)} if wait else {}
    if "text/html" in headers.get("accept", ""):
        return PlainTextResponse(f"{sentence}\n", status, more)
    return JSONResponse({"message": sentence}, status, more)
