"""Attempts on the pages that a proxy passes on for raters: nothing opens but what a link is for, and nothing is stored
twice or under another name.

Run it with `python -m tests.attack.rater_links --attempts 10000 --seed 1`.
"""

from __future__ import annotations

import asyncio
import base64
import json
import string
from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import sqlalchemy as sa
import typer
from sqlalchemy.engine import Engine
from starlette.types import ASGIApp

from db.manifest.datasets import Dataset
from db.schema import rating
from orchestration.look.app import make_look_app
from orchestration.web.access import AccessGuard, PageKeys, RaterLink, format_sitting
from orchestration.web.guard import PublicAddress, RequestGuard
from tests.attack.campaign import Campaign, Seed, empty_database
from tests.db.builders import add_sample, add_video, make_dataset

PROXY = PublicAddress("https://rate.lab.example")
PORT = 3001
HOST, ORIGIN = {"host": "rate.lab.example"}, {"origin": "https://rate.lab.example"}
JSON = {"content-type": "application/json"}
SPAN_S = 1000
N_VIDEOS = 3
OTHER_PAGES = (
    *(
        "/look",
        "/look/clips",
        "/look/clips/sample/1",
        "/look/clips/video/1",
        "/look/clips/sql",
        "/look/clips/selection",
    ),
    *("/look/clips/histogram", "/look/clips/rate/progress", "/look/clips/rate/raters", "/look/clips/rate/facts"),
    *("/look/clips/remarks", "/look/clips/map", "/look/clips/map/points", "/look/others/rate", "/", "/graphql"),
    *("/look/clips/video/1/file", "/look/clips/video/1/frames.jpg", "/look/clips/views", "/look/clips/map/tag"),
)
FORWARDED = ("x-forwarded-host", "x-forwarded-server", "x-original-host", "x-host", "forwarded", "x-real-ip")
OVERRIDES = ("x-original-url", "x-rewrite-url", "x-http-method-override", "x-forwarded-for", "x-forwarded-proto")


class Attempt(NamedTuple):
    """A request that must open nothing."""

    kind: str
    method: str
    path: str
    query: str
    headers: Mapping[str, str]


class Pages:
    """The guarded pages of a database, and the time on their clock."""

    def __init__(self, engine: Engine) -> None:
        self.now = 1_800_000_000.0
        self.reached = False
        self._app = make_look_app(engine, dict, has_lineage=False)
        self.keys = PageKeys(b"of the attack")
        guard: ASGIApp = AccessGuard(self._note, self.keys, PROXY, lambda: self.now)
        self._guard = RequestGuard(guard, PORT, PROXY)

    async def _note(self, scope: Any, receive: Any, send: Any) -> None:
        self.reached = True
        await self._app(scope, receive, send)

    async def ask(self, method: str, path: str, query: str, headers: Mapping[str, str]) -> tuple[int, bytes, bool]:
        """Status and body of an answer, and whether it sets a cookie. A second passes."""
        self.now += 1
        self.reached = False
        status, body, has_cookie = 0, b"", False

        async def receive() -> Any:
            return {"type": "http.request", "body": b"{}", "more_body": False}

        async def send(message: Any) -> None:
            nonlocal status, body, has_cookie
            status = message.get("status", status)
            body += message.get("body", b"")
            has_cookie |= any(name == b"set-cookie" for name, _ in message.get("headers", ()))

        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": method,
            "path": path,
            "query_string": query.encode(),
            "raw_path": quote(path).encode(),
            "root_path": "",
            "scheme": "http",
            "server": ("127.0.0.1", PORT),
            "headers": [(name.encode(), value.encode("utf-8", "replace")) for name, value in headers.items()],
        }
        await self._guard(scope, receive, send)
        return status, body, has_cookie


def main(attempts: int = 10_000, seed: Seed = None) -> None:
    """Try so often."""
    campaign = Campaign("rater_links", seed)
    with empty_database() as (_, engine):
        attack(engine, attempts, campaign)
    campaign.finish()


def attack(engine: Engine, attempts: int, campaign: Campaign) -> None:
    """Make a dataset, rate one caption by a link, and try so often to do what no link allows."""
    dataset = make_dataset(engine, "clips")
    for number in range(N_VIDEOS):
        video = add_video(engine, dataset, f"v{number}", status="text_only", uri=None, duration_s=None)
        add_sample(engine, dataset, video, f"s{number}", f"A dog runs {number} times.")
    asyncio.run(_attack(engine, dataset, attempts, campaign))


async def _attack(engine: Engine, dataset: Dataset, attempts: int, campaign: Campaign) -> None:
    pages = Pages(engine)
    link = _make_link(pages, "rater-1", "coverage", int(pages.now) + attempts * 2 + SPAN_S)
    own = {**HOST, "cookie": f"reelsieve-x={pages.keys.sign(link)}"}
    status, body, _ = await pages.ask("GET", "/look/clips/rate", link.sitting, own)
    campaign.expect((status, b'data-answer="' in body) == (200, True), f"the link does not open its page: {status}")
    query = body.decode().partition('data-answer="')[2].partition('"')[0].partition("?")[2].replace("&amp;", "&")
    answer = f"{query}&answer=4"
    change = {**own, **ORIGIN, **JSON}
    status, *_ = await pages.ask("POST", "/look/clips/rate", answer, change)
    campaign.expect(status == 200, f"the link stores no answer: {status}")
    stored = _list_ratings(engine)
    campaign.expect(len(stored) == 1, f"stored: {stored}")
    kinds = list(_KINDS)
    for number in range(attempts):
        kind = kinds[number % len(kinds)]
        for attempt in _KINDS[kind](pages, link, answer, campaign.random):
            status, _, has_cookie = await pages.ask(attempt.method, attempt.path, attempt.query, attempt.headers)
            is_refused = status in (403, 404, 405, 415, 421, 429) and not pages.reached and not has_cookie
            campaign.expect(is_refused, f"{kind}: {status} for {attempt}")
            campaign.counts["attempts"] += 1
            campaign.counts[f"{kind}: {status}"] += 1
    # The true answer sent again, from a second browser with the same link: it is there already.
    for _ in range(20):
        status, *_ = await pages.ask("POST", "/look/clips/rate", answer, change)
        campaign.expect(status == 409, f"an answer sent again: {status}")
        campaign.counts["answers sent again"] += 1
    campaign.expect(_list_ratings(engine) == stored, "the ratings are others than before")
    status, *_ = await pages.ask("POST", "/look/clips/rate/undo", link.sitting, change)
    campaign.expect((status, _list_ratings(engine)) == (200, []), f"the link takes its answer not back: {status}")
    pages.now = link.until
    status, *_ = await pages.ask("POST", "/look/clips/rate", answer, change)
    campaign.expect((status, _list_ratings(engine)) == (403, []), f"an expired link stores an answer: {status}")


def _make_link(pages: Pages, rater: str, aspect: str, until: int) -> RaterLink:
    sitting = {"rater": rater, "aspect": aspect, "scale": "1-5", "seed": "0"}
    return RaterLink("clips", "rate", format_sitting(sitting), until)


def _list_ratings(engine: Engine) -> list[tuple[Any, ...]]:
    with engine.connect() as connection:
        columns = rating.c.sample_id, rating.c.rater, rating.c.aspect, rating.c.value
        return [tuple(row) for row in connection.execute(sa.select(*columns))]


# Each yields attempts: a change, or a page.


def _try(kind: str, query: str, headers: Mapping[str, str], random: Random) -> Iterator[Attempt]:
    """One attempt to open the question, to answer it or to take the answer back."""
    method, path = random.choice([("GET", ""), ("HEAD", ""), ("POST", ""), ("POST", "/undo"), ("POST", "/spans")])
    more = {**ORIGIN, **JSON} if method == "POST" else {}
    yield Attempt(kind, method, f"/look/clips/rate{path}", query, {**HOST, **more, **headers})


def _carry(token: str, query: str, random: Random) -> tuple[str, dict[str, str]]:
    """A query and headers that carry a token in one of the three ways."""
    match random.randrange(3):
        case 0:
            return query, {"cookie": f"reelsieve-{token[-12:]}={token}"}
        case 1:
            return query, {"authorization": f"Bearer {token}"}
    return f"{query}&{urlencode({'token': token}, errors='replace')}", {}


def guess(pages: Pages, link: RaterLink, answer: str, random: Random) -> Iterator[Attempt]:
    """Tokens made up, spoilt, cut off, of another secret, and with another text under a true signature."""
    true = pages.keys.sign(link)
    text, _, digest = true.partition(".")
    other = base64.urlsafe_b64encode(json.dumps([*link[:3], link.until + 9**9]).encode()).decode().rstrip("=")
    place = random.randrange(len(true))
    token = random.choice(
        [
            f"{text}.{random.randbytes(32).hex()}",
            true[:place] + random.choice([c for c in string.hexdigits if c != true[place]]) + true[place + 1 :],
            true[:place],
            f"{other}.{digest}",
            f"W10.{digest}",
            f"{text}.{digest.upper()}x",
            f"{text}=.{digest}",
            f"{text}.",
            PageKeys(random.randbytes(32)).sign(link),
            PageKeys(b"").sign(),
            "",
        ]
    )
    yield from _try("guess", *_carry(token, answer, random), random)


def rate_for_another(pages: Pages, link: RaterLink, answer: str, random: Random) -> Iterator[Attempt]:
    """The true link with the name of another rater, in place of the own one or next to it."""
    name = random.choice(["rater-2", "Rater-1", "rater-1 ", "", "rater-1\0", f"rater-{random.randrange(2, 99)}"])
    more = urlencode({"rater": name})
    query = random.choice([answer.replace("rater=rater-1", more), f"{answer}&{more}", f"{more}&{answer}"])
    yield from _try("another rater", *_carry_link(pages, link, query, random), random)


def rate_another_aspect(pages: Pages, link: RaterLink, answer: str, random: Random) -> Iterator[Attempt]:
    """The true link with another aspect, or another way of asking."""
    others = [("aspect", "style"), ("aspect", "Coverage"), ("aspect", ""), ("scale", "yes-no"), ("seed", "7")]
    name, value = random.choice(others)
    more = urlencode({name: value})
    own = f"{name}={ {'aspect': 'coverage', 'scale': '1-5', 'seed': '0'}[name] }"
    extra = random.choice([{"pairs": "1"}, {"spans": "1"}, {"for-promise": "1"}, {"pairs": ""}])
    query = random.choice([answer.replace(own, more), f"{answer}&{more}", f"{answer}&{urlencode(extra)}"])
    yield from _try("another aspect", *_carry_link(pages, link, query, random), random)


def _carry_link(pages: Pages, link: RaterLink, query: str, random: Random) -> tuple[str, dict[str, str]]:
    """By cookie or header: in an address a true token is only exchanged for a cookie, which opens no more."""
    token = pages.keys.sign(link)
    return query, random.choice([{"cookie": f"reelsieve-x={token}"}, {"authorization": f"Bearer {token}"}])


def open_another_page(pages: Pages, link: RaterLink, answer: str, random: Random) -> Iterator[Attempt]:
    """The true link, or the token of all pages, on pages that a proxy does not serve to it."""
    token, path = pages.keys.sign(link), random.choice(OTHER_PAGES)
    query = random.choice([answer, "", link.sitting, f"key={random.randbytes(32).hex()}"])
    if random.random() < 0.5:
        token, path = pages.keys.sign(), random.choice([*OTHER_PAGES, "/look/clips/rate"])
        query, headers = _carry(token, query, random)
    else:
        headers = {"cookie": f"reelsieve-x={token}"}
    method = random.choice(["GET", "HEAD", "POST", "PUT", "DELETE"])
    yield Attempt("another page", method, path, query, {**HOST, **({} if method == "GET" else JSON), **headers})


def replay_expired(pages: Pages, link: RaterLink, answer: str, random: Random) -> Iterator[Attempt]:
    """A link that was true until a moment or a year ago."""
    token = pages.keys.sign(link._replace(until=int(pages.now) - random.choice([0, 1, 60, 86_400 * 365])))
    yield from _try("expired", *_carry(token, answer, random), random)


def forge_across_sites(pages: Pages, link: RaterLink, answer: str, random: Random) -> Iterator[Attempt]:
    """What a page of another site can make a rater's browser send, with the rater's cookie."""
    foreign = random.choice(
        [
            {**JSON, "origin": random.choice(["https://evil.example", "null", "http://rate.lab.example"])},
            {**JSON, "origin": "https://rate.lab.example.evil.example"},
            *({**ORIGIN, "content-type": kind} for kind in ("text/plain", "application/x-www-form-urlencoded")),
            {"content-type": "multipart/form-data; boundary=x"},
            {},
        ]
    )
    path = f"/look/clips/rate{random.choice(['', '/undo', '/spans'])}"
    _, own = _carry_link(pages, link, answer, random)
    yield Attempt("another site", "POST", path, answer, {**HOST, **own, **foreign})


def name_another_host(pages: Pages, link: RaterLink, answer: str, random: Random) -> Iterator[Attempt]:
    """The true link under a host name that is neither this server's nor the proxy's, with forwarded ones or without."""
    names = (
        "evil.example",
        "rate.lab.example.",
        "rate.lab.example:3001",
        "rate.lab.example.evil.example",
        "",
        "127.0.0.1",
    )
    host = random.choice([*names, "localhost:1", "rate.lab.example, evil.example", "0.0.0.0:3001"])
    more = {random.choice(FORWARDED): random.choice(["rate.lab.example", "127.0.0.1:3001", "host=rate.lab.example"])}
    _, own = _carry_link(pages, link, answer, random)
    yield from _try("another host", answer, {**own, **more, "host": host}, random)


def claim_to_be_forwarded(pages: Pages, link: RaterLink, answer: str, random: Random) -> Iterator[Attempt]:
    """No link, or the token of all pages, with headers by which some servers would take a request for one from here."""
    claims = {name: random.choice(["127.0.0.1", "localhost", "127.0.0.1:3001", "for=127.0.0.1"]) for name in FORWARDED}
    claims |= {name: random.choice(["127.0.0.1", "https", "/look/files/look.js", "GET"]) for name in OVERRIDES}
    token = random.choice(["", pages.keys.sign()])
    yield from _try("forwarded", *_merge(_carry(token, answer, random), claims), random)


def _merge(carried: tuple[str, dict[str, str]], more: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    return carried[0], {**carried[1], **more}


_KINDS: Mapping[str, Callable[[Pages, RaterLink, str, Random], Iterator[Attempt]]] = {
    "guess": guess,
    "another rater": rate_for_another,
    "another aspect": rate_another_aspect,
    "another page": open_another_page,
    "expired": replay_expired,
    "another site": forge_across_sites,
    "another host": name_another_host,
    "forwarded": claim_to_be_forwarded,
}


if __name__ == "__main__":
    typer.run(main)
