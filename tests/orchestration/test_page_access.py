"""Who may open the pages of `look`, `rate` and `ui`: people with a link, and nobody else on the machine."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

pytest.importorskip("uvicorn", reason="the extra `ui` is not installed")
from starlette.routing import Route  # with the extra

from orchestration.look.app import make_look_app
from orchestration.web.access import (
    CHANGES_PER_LINK,
    READS_PER_LINK,
    SECRET_FILE,
    SIGN_MEDIA,
    UNSIGNED,
    AccessGuard,
    PageKeys,
    RaterLink,
    open_page_keys,
)
from orchestration.web.guard import PublicAddress

KEYS = PageKeys(b"of the test")
NOW = 1_000_000.0
OWN = "aspect=coverage&rater=rater-1&scale=1-5&seed=0"
FACTS = "rater=rater-1&seed=0"
LINK = RaterLink("clips", "rate", OWN, int(NOW) + 60)
RATER, LABELLER = KEYS.sign(LINK), KEYS.sign(LINK._replace(kind="rate/facts", sitting=FACTS))
EXPIRED = KEYS.sign(LINK._replace(until=int(NOW)))
MEDIA = f"key={KEYS.sign_media(LINK, '/look/clips/video/3')}"
PROXY = PublicAddress("https://rate.lab.example", ("rater:8080",))


class Answer:
    """What the guard answered; reached: whether the request came through to the pages, is_link: by a rater's link."""

    status = 0
    reached = False
    is_link = False

    def __init__(self) -> None:
        self.headers: dict[str, str] = {}
        self.body = b""


def make_guard(clock: Callable[[], float] = lambda: NOW) -> AccessGuard:
    """The guard of pages that tell the answer that a request reached them."""

    async def pages(scope: Any, *_: Any) -> None:
        scope["answer"].reached, scope["answer"].is_link = True, SIGN_MEDIA in scope

    return AccessGuard(pages, KEYS, PROXY, clock)


def ask(
    path: str,
    query: str = "",
    method: str = "GET",
    kind: str = "http",
    guard: AccessGuard | None = None,
    **headers: str,
) -> Answer:
    """Send a request to pages behind the guard, a new one by default."""
    answer = Answer()
    headers.setdefault("host", "127.0.0.1:3001")

    async def send(message: dict[str, Any]) -> None:
        answer.status = message.get("status", answer.status or message.get("code", 0))
        answer.headers |= {name.decode(): value.decode() for name, value in message.get("headers", ())}
        answer.body += message.get("body", b"")

    scope = {
        "type": kind,
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "answer": answer,
        "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()],
    }
    asyncio.run((guard or make_guard())(scope, None, send))  # type: ignore[arg-type]  # it reads nothing
    return answer


def list_routes() -> list[tuple[str, str]]:
    """The method and path of every route of the pages, with the files of the pages and Dagster's."""
    app: Any = make_look_app(None, dict, has_lineage=True)  # type: ignore[arg-type]  # it is asked nothing
    found = [
        (
            method,
            route.path.replace("{dataset}", "clips").replace("{sample_id:row}", "1").replace("{video_id:row}", "1"),
        )
        for route in app.routes
        if isinstance(route, Route)
        for method in sorted(route.methods or ())
    ]
    assert len(found) > 30
    return [*found, ("GET", "/look/files/look.js"), ("POST", "/graphql"), ("GET", "/asset-groups")]


@pytest.mark.parametrize(("method", "path"), list_routes())
def test_no_route_answers_without_a_token(method: str, path: str) -> None:
    forged = RATER[:-1] + ("0" if RATER[-1] != "0" else "1")
    for query, headers in (
        (OWN, {}),
        (f"{OWN}&token={forged}", {}),
        (f"{OWN}&token=", {"cookie": f"reelsieve-x={forged}; reelsieve-y=; other={RATER}"}),
        (OWN, {"authorization": f"Bearer {PageKeys(b'of another home').sign()}"}),
    ):
        answer = ask(path, query, method, **headers)
        assert (answer.status, answer.reached) == (403, False)
        assert json.loads(answer.body)["message"].startswith("this address needs the token")
    assert ask(path, "", method, cookie=f"reelsieve-x={KEYS.sign()}").reached
    assert ask(path, "", method, authorization=f"Bearer {KEYS.sign()}").reached


def test_web_sockets_need_a_token_too() -> None:
    refused = ask("/graphql", kind="websocket")
    assert (refused.status, refused.reached) == (1008, False)
    assert not ask("/graphql", kind="websocket", cookie=f"reelsieve-x={RATER}").reached
    assert ask("/graphql", kind="websocket", cookie=f"reelsieve-x={KEYS.sign()}").reached


@pytest.mark.parametrize(("headers", "status"), [({}, 303), ({"sec_fetch_site": "cross-site"}, 200)])
def test_a_token_becomes_a_cookie_and_leaves_the_address(headers: dict[str, str], status: int) -> None:
    query = urlencode({"aspect": "a&b", "token": RATER, "rater": "é"})
    answer = ask("/look/a b/rate", query, **headers)
    assert (answer.status, answer.reached) == (status, False)
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith("reelsieve-")
    assert f"={RATER};" in cookie
    assert {"HttpOnly", "SameSite=strict"} <= {part.strip() for part in cookie.split(";")}
    address = "/look/a%20b/rate?aspect=a%26b&rater=%C3%A9"
    if status == 303:
        assert answer.headers["location"] == address
    else:
        assert f'url={address.replace("&", "&amp;")}"' in answer.body.decode()
    assert ask("/look/clips/rate", OWN, cookie=cookie.partition(";")[0]).reached


@pytest.mark.parametrize(
    ("token", "path", "query", "is_open"),
    [
        (RATER, "/look/clips/rate", f"{OWN}&skip=4", True),
        (RATER, "/look/clips/rate/undo", OWN, True),
        (RATER, "/look/clips/rate/spans", OWN, True),
        (RATER, "/look/clips/video/3/file", MEDIA, True),
        (RATER, "/look/clips/video/3/frames.jpg", MEDIA, True),
        (RATER, "/look/files/look.js", "", True),
        (RATER, "/look/clips/rate", OWN.replace("rater-1", "rater-2"), False),
        (RATER, "/look/clips/rate", f"{OWN}&rater=rater-2", False),
        (RATER, "/look/clips/rate", OWN.replace("coverage", "style"), False),
        (RATER, "/look/clips/rate", OWN.replace("1-5", "yes-no"), False),
        (RATER, "/look/clips/rate", OWN.replace("seed=0", "seed=1"), False),
        (RATER, "/look/clips/rate", f"{OWN}&pairs=1", False),
        (RATER, "/look/clips/rate", f"{OWN}&spans=1", False),
        (RATER, "/look/clips/rate", f"{OWN}&for-promise=7", False),
        (RATER, "/look/clips/rate", "", False),
        (RATER, "/look/clips/rate/progress", OWN, False),
        (RATER, "/look/clips/rate/raters", OWN, False),
        (RATER, "/look/clips/rate/facts", OWN, False),
        (RATER, "/look/others/rate", OWN, False),
        (RATER, "/look/clips", OWN, False),
        (RATER, "/look/clips/sample/1", OWN, False),
        (RATER, "/look/clips/video/3", MEDIA, False),
        (RATER, "/look/clips/video/3/file", "", False),
        (RATER, "/look/clips/video/4/file", MEDIA, False),
        (RATER, "/look/others/video/3/file", MEDIA, False),
        (RATER, "/look/clips/sql", OWN, False),
        (RATER, "/graphql", OWN, False),
        (LABELLER, "/look/clips/rate/facts", FACTS, True),
        (LABELLER, "/look/clips/rate/facts/undo", FACTS, True),
        (LABELLER, "/look/clips/rate/facts", FACTS.replace("rater-1", "rater-2"), False),
        (LABELLER, "/look/clips/rate", OWN, False),
        (LABELLER, "/look/clips/video/3/file", MEDIA, False),
        (EXPIRED, "/look/clips/rate", OWN, False),
        (EXPIRED, "/look/files/look.js", "", False),
    ],
)
def test_a_raters_link_opens_only_its_questions(token: str, path: str, query: str, is_open: bool) -> None:
    for host in ("127.0.0.1:3001", "rate.lab.example", "rater:8080"):
        answer = ask(path, query, cookie=f"reelsieve-x={token}", host=host)
        assert (answer.reached, answer.is_link, answer.status) == ((True, True, 0) if is_open else (False, False, 403))


@pytest.mark.parametrize("host", ["rate.lab.example", "rater:8080", "127.0.0.1.evil.example", ""])
def test_a_proxy_serves_links_and_nothing_else(host: str) -> None:
    all_pages = KEYS.sign()
    for query, headers in (
        ("", {"cookie": f"reelsieve-x={all_pages}"}),
        ("", {"authorization": f"Bearer {all_pages}"}),
        (f"token={all_pages}", {}),
        ("", {"x_forwarded_host": "127.0.0.1:3001", "cookie": f"reelsieve-x={all_pages}"}),
    ):
        answer = ask("/look", query, host=host, accept="text/html", **headers)
        assert (answer.status, answer.reached) == (403, False)
        assert answer.body == b"this page needs the link that you were sent: open that link again\n"
    answer = ask("/look/clips/rate", f"{OWN}&token={RATER}", host=host)
    assert (answer.status, answer.headers["location"]) == (303, f"/look/clips/rate?{OWN}")
    assert {"Secure", "Max-Age=60"} <= {part.strip() for part in answer.headers["set-cookie"].split(";")}


def test_an_expired_link_says_so_and_a_new_one_replaces_it() -> None:
    cookie, fresh = f"reelsieve-x={EXPIRED}", f"{OWN}&token={RATER}"
    for query, headers in ((OWN, {"cookie": cookie}), (f"{OWN}&token={EXPIRED}", {})):
        answer = ask("/look/clips/rate", query, **headers)
        assert json.loads(answer.body) == {"message": "this link expired on 1970-01-12 at 13:46 UTC: ask for a new one"}
    assert ask("/look/clips/rate", fresh, cookie=cookie).status == 303
    assert ask("/look/clips/rate", OWN, cookie=f"{cookie}; reelsieve-y={RATER}").reached


@pytest.mark.parametrize(
    ("method", "token", "limit", "status"),
    [
        ("GET", RATER, READS_PER_LINK, 0),
        ("POST", RATER, CHANGES_PER_LINK, 0),
        ("GET", "", UNSIGNED, 403),
        ("POST", "", UNSIGNED, 403),
    ],
)
def test_too_many_requests_wait(method: str, token: str, limit: tuple[float, int], status: int) -> None:
    now = [NOW]
    guard, (per_second, burst) = make_guard(lambda: now[0]), limit

    def send(own: str) -> Answer:
        return ask("/look/clips/rate", OWN, method, guard=guard, host="rater:8080", cookie=f"reelsieve-x={own}")

    assert {send(token).status for _ in range(burst)} == {status}
    refused = send(token)
    assert (refused.status, refused.headers["retry-after"], refused.reached) == (429, "1", False)
    assert send(KEYS.sign(LINK._replace(until=LINK.until + 1))).reached, "the limit is of each link"
    now[0] += 1
    assert [send(token).status for _ in range(int(per_second) + 1)] == [*[status] * int(per_second), 429]


def test_links_stay_valid_and_belong_to_one_home(tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    token = open_page_keys(tmp_path / "first").sign(LINK)
    assert open_page_keys(tmp_path / "first").read(token) == LINK
    assert open_page_keys(tmp_path / "second").read(token) is None
    assert os.listdir(tmp_path / "first") == [SECRET_FILE]
    assert stat.S_IMODE((tmp_path / "first" / SECRET_FILE).stat().st_mode) == 0o600
