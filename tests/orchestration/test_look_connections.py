"""A page of `reelsieve look` holds one connection at a time: pages that wait for a second one hold up all others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlencode

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine import Engine
from starlette.applications import Starlette
from starlette.routing import Route

from db.manifest.answers import Rater
from db.schema import keypoint
from orchestration.look.app import make_look_app
from tests.db.answering import ask_about
from tests.orchestration.looking import PLAYING, Shown, shown

__all__ = ["shown"]  # a fixture


@contextmanager
def counting(engine: Engine) -> Iterator[list[int]]:
    """A list of how many connections were held at each checkout of one."""
    held, seen = 0, [0]

    def taken(*_: object) -> None:
        nonlocal held
        held += 1
        seen.append(held)

    def given_back(*_: object) -> None:
        nonlocal held
        held -= 1

    event.listen(engine, "checkout", taken)
    event.listen(engine, "checkin", given_back)
    try:
        yield seen
    finally:
        event.remove(engine, "checkout", taken)
        event.remove(engine, "checkin", given_back)


def ask(shown: Shown, method: str, path: str) -> tuple[int, str]:
    answer = shown.ask(path, method, {} if method == "POST" else None, Origin=shown.address, Host="127.0.0.1:{port}")
    return answer.status, answer.read().decode(errors="replace")


def about(shown: Shown, place: int) -> dict[str, str]:
    """What an answer says of the caption at a place."""
    with shown.engine.connect() as connection:
        question = ask_about(connection, Rater(shown.dataset, "ann"), [shown.ids[place]])
    return {"sample": str(shown.ids[place]), "seen": question.seen}


def fact(shown: Shown) -> dict[str, str]:
    """What a label says of the first fact and the first caption."""
    with shown.engine.connect() as connection:
        keypoint_id = connection.execute(sa.select(keypoint.c.keypoint_id).limit(1)).scalar_one()
        question = ask_about(connection, Rater(shown.dataset, "ann"), [shown.ids[0]], keypoint_id)
    return {"keypoint": str(keypoint_id), "sample": str(shown.ids[0]), "seen": question.seen}


def requests(shown: Shown) -> dict[tuple[str, str], str]:
    """An address for each method and route."""
    own, named = "/look/{dataset}", {"rater": "ann", "aspect": "coverage"}
    answer = urlencode({**named, "answer": "4", **about(shown, 0)})
    mark = urlencode({**named, "from": "0", "to": "1", **about(shown, 0)})
    label = urlencode({"rater": "ann", "answer": "yes", **fact(shown)})
    tag = {"kind": "tag", "text": "good", "sample": str(shown.ids[0])}
    video = f"{own}/video/{{video_id:row}}"
    drawn = {"vectors": "texts by texts", "colour": "system"}
    points = json.loads(ask(shown, "GET", f"/look/texts/map/points?{urlencode(drawn)}")[1])
    area = json.dumps(["texts by texts", points["stamp"], -9, 9, -9, 9])
    at = {
        ("GET", "/"): "/",
        ("GET", "/look"): "/look",
        ("GET", own): "/look/clips",
        ("GET", f"{own}/histogram"): "/look/clips/histogram?column=vcs",
        ("GET", f"{own}/sample/{{sample_id:row}}"): f"/look/clips/sample/{shown.ids[0]}",
        ("GET", f"{own}/sample/{{sample_id:row}}/similar"): f"/look/texts/sample/{shown.text_ids[0]}/similar",
        ("GET", video): f"/look/clips/video/{PLAYING + 1}",
        ("GET", f"{video}/file"): f"/look/clips/video/{PLAYING + 1}/file",
        ("GET", f"{video}/frames.jpg"): f"/look/clips/video/{PLAYING + 1}/frames.jpg",
        ("GET", f"{own}/selection"): "/look/clips/selection?sort=vcs",
        ("POST", f"{own}/selection"): "/look/clips/selection?sort=vcs",
        ("GET", f"{own}/sql"): "/look/clips/sql",
        ("GET", f"{own}/rate"): f"/look/clips/rate?{urlencode(named)}",
        ("POST", f"{own}/rate"): f"/look/clips/rate?{answer}",
        ("POST", f"{own}/rate/undo"): f"/look/clips/rate/undo?{urlencode(named)}",
        ("POST", f"{own}/rate/spans"): f"/look/clips/rate/spans?{mark}",
        ("GET", f"{own}/rate/progress"): f"/look/clips/rate/progress?{urlencode(named)}",
        ("GET", f"{own}/rate/raters"): f"/look/clips/rate/raters?{urlencode(named)}",
        ("GET", f"{own}/rate/facts"): "/look/clips/rate/facts?rater=ann",
        ("POST", f"{own}/rate/facts"): f"/look/clips/rate/facts?{label}",
        ("POST", f"{own}/rate/facts/undo"): "/look/clips/rate/facts/undo?rater=ann",
        ("POST", f"{own}/remarks"): f"/look/clips/remarks?{urlencode({**tag, 'by': 'ann'})}",
        ("GET", f"{own}/remarks"): f"/look/clips/remarks?sample={shown.ids[0]}",
        ("POST", f"{own}/remarks/remove"): f"/look/clips/remarks/remove?{urlencode(tag)}",
        ("GET", f"{own}/map"): "/look/texts/map",
        ("GET", f"{own}/map/points"): f"/look/texts/map/points?{urlencode(drawn)}",
        ("POST", f"{own}/map/tag"): f"/look/texts/map/tag?{urlencode({**tag, 'by': 'ann', 'area': area})}",
        ("POST", f"{own}/map/untag"): "",  # as the answer to the tag names it
        ("POST", f"{own}/views"): "/look/clips/views?name=best&sort=vcs",
        ("POST", f"{own}/views/remove"): "/look/clips/views/remove?name=best",
    }
    return at


def test_no_page_holds_two_connections(shown: Shown) -> None:
    asked = requests(shown)
    app = make_look_app(shown.engine, dict, has_lineage=True)
    assert isinstance(app, Starlette)
    routes = [route for route in app.routes if isinstance(route, Route)]
    known = {(method, route.path) for route in routes for method in route.methods or () if method != "HEAD"}
    assert set(asked) == known, "each route is asked here"
    most: dict[tuple[str, str], int] = {}
    undo = ""
    for route, path in asked.items():
        with counting(shown.engine) as seen:
            status, text = ask(shown, route[0], path or undo)
        undo = json.loads(text)["undo"] if route[1].endswith("/map/tag") else undo
        assert status in (200, 307), (route, status, text[:300])
        most[route] = max(seen)
    assert {route: n for route, n in most.items() if n > 1} == {}
