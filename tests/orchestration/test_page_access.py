"""Who may open the pages of `look`, `rate` and `ui`: people with a link, and nobody else on the machine."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

pytest.importorskip("uvicorn", reason="the extra `ui` is not installed")
from starlette.routing import Route  # with the extra

from orchestration.look.app import make_look_app
from orchestration.web.access import SECRET_FILE, AccessGuard, PageKeys, open_page_keys

KEYS = PageKeys(b"of the test")
RATER = KEYS.sign("clips", "rate", "rater-1", "coverage")
LABELLER = KEYS.sign("clips", "rate/facts", "rater-1", "")
OWN = "rater=rater-1&aspect=coverage"


class Answer:
    """What the guard answered; reached: whether the request came through to the pages."""

    status = 0
    reached = False

    def __init__(self) -> None:
        self.headers: dict[str, str] = {}
        self.body = b""


def ask(path: str, query: str = "", method: str = "GET", kind: str = "http", **headers: str) -> Answer:
    """Send a request to pages behind the guard."""
    answer = Answer()

    async def pages(*_: Any) -> None:
        answer.reached = True

    async def send(message: dict[str, Any]) -> None:
        answer.status = message.get("status", answer.status or message.get("code", 0))
        answer.headers |= {name.decode(): value.decode() for name, value in message.get("headers", ())}
        answer.body += message.get("body", b"")

    scope = {
        "type": kind,
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()],
    }
    asyncio.run(AccessGuard(pages, KEYS)(scope, None, send))  # type: ignore[arg-type]  # it reads nothing
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
        assert answer.body.decode().startswith("this address needs the token")
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
        (RATER, "/look/clips/rate", f"{OWN}&seed=0&skip=4", True),
        (RATER, "/look/clips/rate/undo", OWN, True),
        (RATER, "/look/clips/rate/spans", OWN, True),
        (RATER, "/look/clips/rate/progress", OWN, True),
        (RATER, "/look/clips/video/3/file", "", True),
        (RATER, "/look/clips/video/3/frames.jpg", "", True),
        (RATER, "/look/files/look.js", "", True),
        (RATER, "/look/clips/rate", "rater=rater-2&aspect=coverage", False),
        (RATER, "/look/clips/rate", f"{OWN}&rater=rater-2", False),
        (RATER, "/look/clips/rate", "rater=rater-1&aspect=style", False),
        (RATER, "/look/clips/rate", "", False),
        (RATER, "/look/clips/rate/facts", OWN, False),
        (RATER, "/look/others/rate", OWN, False),
        (RATER, "/look/clips", OWN, False),
        (RATER, "/look/clips/sample/1", OWN, False),
        (RATER, "/look/clips/video/3", OWN, False),
        (RATER, "/look/others/video/3/file", OWN, False),
        (RATER, "/look/clips/sql", OWN, False),
        (RATER, "/graphql", OWN, False),
        (LABELLER, "/look/clips/rate/facts", "rater=rater-1", True),
        (LABELLER, "/look/clips/rate/facts/undo", "rater=rater-1", True),
        (LABELLER, "/look/clips/rate/facts", "rater=rater-2", False),
        (LABELLER, "/look/clips/rate", OWN, False),
    ],
)
def test_a_raters_link_opens_only_its_questions(token: str, path: str, query: str, is_open: bool) -> None:
    answer = ask(path, query, cookie=f"reelsieve-x={token}")
    assert (answer.reached, answer.status) == ((True, 0) if is_open else (False, 403))


def test_links_stay_valid_and_belong_to_one_home(tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    token = open_page_keys(tmp_path / "first").sign("clips", "rate", "ann", "style")
    assert open_page_keys(tmp_path / "first").read(token) == ("clips", "rate", "ann", "style")
    assert open_page_keys(tmp_path / "second").read(token) is None
    assert os.listdir(tmp_path / "first") == [SECRET_FILE]
    assert stat.S_IMODE((tmp_path / "first" / SECRET_FILE).stat().st_mode) == 0o600
