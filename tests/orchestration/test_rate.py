"""The page of `reelsieve rate` in a browser, wide and narrow: keys, undo, two raters, two windows, what is hidden."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from db.schema import rating
from db.server.engine import open_engine
from tests.conftest import copied_database
from tests.orchestration.looking import HOSTILE, SYSTEMS, Shown, add_clips, served
from tests.orchestration.test_look import browser, page

if TYPE_CHECKING:
    from playwright.sync_api import Page

__all__ = ["browser", "page"]  # fixtures

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def shown(shared_server: Engine, tmp_path_factory: pytest.TempPathFactory) -> Generator[Shown, None, None]:
    folder = tmp_path_factory.mktemp("media")
    with copied_database(shared_server) as url:
        engine = open_engine(url)
        with served(engine, *add_clips(engine, folder), folder) as pages:
            yield pages
        engine.dispose()


@pytest.fixture
def rater(request: pytest.FixtureRequest) -> str:
    """Another one in each test."""
    return f"ann of {request.node.name}"


def stored(shown: Shown, rater: str) -> list[tuple[Any, ...]]:
    """Sample, aspect and value of each rating of a rater, in the order in which they were given."""
    columns = (rating.c.sample_id, rating.c.aspect, rating.c.value)
    query = sa.select(*columns).where(rating.c.rater == rater).order_by(rating.c.extra["rated_at"].astext)
    with shown.engine.connect() as connection:
        return [tuple(row) for row in connection.execute(query)]


def now(page: Page) -> int:
    """The caption that the page asks about, once it is another one than before or the first."""
    address = page.locator(".rate").get_attribute("data-answer") or ""
    return int(address.partition("sample=")[2].partition("&")[0])


def press(page: Page, key: str) -> None:
    """Press a key and wait for the next caption."""
    with page.expect_navigation():
        page.keyboard.press(key)


def test_keys_answer_skip_and_undo_and_each_answer_is_stored_at_once(page: Page, shown: Shown, rater: str) -> None:
    page.goto("/look/clips")
    page.get_by_role("link", name="Rate", exact=True).click()
    page.get_by_label("Your name").fill(rater)
    page.get_by_label("What you rate").fill("coverage")
    page.get_by_role("button", name="Begin").click()
    page.get_by_text(f"{rater}: 0 of 30 rated").wait_for()
    first = now(page)
    press(page, "4")
    assert stored(shown, rater) == [(first, "coverage", 4.0)]
    second = now(page)
    press(page, "s")
    third = now(page)
    press(page, "1")
    press(page, "u")
    assert (now(page), stored(shown, rater)) == (third, [(first, "coverage", 4.0)])
    press(page, "2")
    page.get_by_role("button", name="5", exact=True).click()
    page.get_by_text(f"{rater}: 3 of 30 rated").wait_for()
    assert [row[2] for row in stored(shown, rater)] == [4.0, 2.0, 5.0]
    assert second not in [row[0] for row in stored(shown, rater)]


def test_the_page_is_blind(page: Page, shown: Shown, rater: str) -> None:
    page.goto(f"/look/clips/rate?aspect=coverage&rater={rater}")
    for _ in range(6):
        said = page.content()
        assert "A dog" in page.locator(".caption").inner_text()
        assert HOSTILE in page.locator(".caption").inner_text()
        for secret in (*SYSTEMS[:2], "o&#39;brien", "vcs", "evqa"):
            assert secret not in said
        press(page, "3")


def test_raters_of_one_seed_share_the_order_and_each_has_their_own(page: Page, shown: Shown, rater: str) -> None:
    other = page.context.browser.new_page(base_url=shown.address)  # type: ignore[union-attr]  # a page has one
    seen: dict[str, list[int]] = {rater: [], f"{rater} too": []}
    for each, window in zip(seen, (page, other), strict=True):
        window.goto(f"/look/clips/rate?aspect=truth&rater={each}&seed=7")
    for _ in range(3):
        for each, window in zip(seen, (page, other), strict=True):
            seen[each].append(now(window))
            press(window, "5" if window is page else "2")
    assert seen[rater] == seen[f"{rater} too"]
    for each, value in zip(seen, (5.0, 2.0), strict=True):
        assert stored(shown, each) == [(i, "truth", value) for i in seen[each]]
    other.close()


def test_two_windows_on_one_caption_store_one_answer(page: Page, shown: Shown, rater: str) -> None:
    address = f"/look/clips/rate?aspect=coverage&rater={rater}"
    page.goto(address)
    other = page.context.new_page()
    other.goto(address)
    first = now(page)
    assert now(other) == first
    press(page, "5")
    other.keyboard.press("1")
    other.get_by_role("status").get_by_text("that answer was not stored").wait_for()
    assert stored(shown, rater) == [(first, "coverage", 5.0)]
    other.get_by_role("link", name="Go on").click()
    other.get_by_text("1 of 30 rated").wait_for()
    assert now(other) == now(page)


def test_other_scales_are_stored_from_1_to_5(page: Page, shown: Shown, rater: str) -> None:
    page.goto(f"/look/clips/rate?aspect=points&rater={rater}&scale=0-100")
    page.get_by_label("From 0, worst, to 100, best").fill("75")
    with page.expect_navigation():
        page.get_by_role("button", name="Store").click()
    page.goto(f"/look/clips/rate?aspect=sound&rater={rater}&scale=yes-no")
    press(page, "y")
    press(page, "n")
    assert [row[1:] for row in stored(shown, rater)] == [("points", 4.0), ("sound", 5.0), ("sound", 1.0)]
    page.goto(f"/look/clips/rate?aspect=sound&rater={rater}&scale=1-5")
    page.get_by_role("alert").get_by_text("sound is rated on the scale yes-no here").wait_for()


def test_after_the_last_caption_comes_the_end(page: Page, shown: Shown, rater: str) -> None:
    skip = "&".join(f"skip={i}" for i in shown.ids[:-1])
    page.goto(f"/look/clips/rate?aspect=coverage&rater={rater}&{skip}")
    assert now(page) == shown.ids[-1]
    press(page, "3")
    page.get_by_role("link", name="go on with them").click()
    page.get_by_text("1 of 30 rated").wait_for()
    assert now(page) in shown.ids[:-1]


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("rater=a&aspect=b&scale=1-7", "there is no scale &#39;1-7&#39;"),
        ("rater=a&aspect=%00", "NUL character"),
        ("rater=%20&aspect=b", "the rater"),
        ("rater=a&aspect=b&seed=-1", "is no whole number"),
        ("rater=a&aspect=b&skip=x", "is no whole number"),
    ],
)
def test_a_mistake_is_told_in_one_sentence(shown: Shown, query: str, sentence: str) -> None:
    answer = shown.ask(f"/look/clips/rate?{query}")
    assert (answer.status, sentence in (text := answer.read().decode())) == (400, True), text


@pytest.mark.parametrize(
    "said", ["answer=6&sample=1", "answer=4&sample=x", "sample=1", "answer=4&sample=99999999999999999999", "answer=4"]
)
def test_what_is_no_answer_is_refused(shown: Shown, said: str) -> None:
    answer = shown.ask(f"/look/clips/rate?rater=z&aspect=coverage&text={'0' * 64}&{said}", "POST", {})
    assert (answer.status, stored(shown, "z")) == (400, [])


def test_another_site_stores_nothing(shown: Shown) -> None:
    path = f"/look/clips/rate?rater=z&aspect=coverage&sample={shown.ids[0]}&answer=4&text={'0' * 64}"
    assert shown.ask(path, "POST", {}, Origin="http://evil.example").status == 403
    assert shown.ask(path, "POST", Content_Type="text/plain").status == 415
    assert stored(shown, "z") == []
