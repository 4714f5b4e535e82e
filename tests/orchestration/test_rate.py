"""The page of `reelsieve rate` in a browser, wide and narrow: keys, undo, pairs, raters, windows, what is hidden."""

from __future__ import annotations

import html
import re
from hashlib import sha256
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, quote_plus, urlencode, urlsplit

import pytest
import sqlalchemy as sa

from assets.ingest.scales import parse_scale
from assets.promise.select import PromiseUnconfirmed, make_promised_selection
from assets.promise.state import PromiseState
from assets.promise.terms import PromiseTerms
from db.manifest.answers import Rater
from db.manifest.datasets import find_dataset
from db.reports.judgements import SPANS_ASPECT, count_ratings
from db.schema import attention_check, keypoint_label, preference, rating, rating_scale, sample, wrong_span
from db.selection.recipes import Recipe
from metrics_core.protocols import TextEncoder
from orchestration.look.rating import RatingSession
from tests.assets.reporting import rate
from tests.browser import barriers
from tests.db.answering import ask_about
from tests.db.builders import add_reference, add_sample, add_video, change_text, make_dataset
from tests.db.judging import list_ratings
from tests.orchestration.looking import (
    HOSTILE,
    SYSTEMS,
    Shown,
    in_both_windows,
    page,
    shown,
    tab,
)
from tests.orchestration.test_look import until

if TYPE_CHECKING:
    from playwright.sync_api import Page

__all__ = ["page", "shown", "tab"]  # fixtures

pytestmark = pytest.mark.browser


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
    """Press a key and wait for the next caption; a key that comes before the scripts of the page ran is lost."""
    page.wait_for_load_state()
    with page.expect_navigation():
        page.keyboard.press(key)


@in_both_windows
def test_keys_answer_skip_and_undo_and_each_answer_is_stored_at_once(page: Page, shown: Shown, rater: str) -> None:
    page.goto("/look/clips")
    page.get_by_role("link", name="Rate", exact=True).click()
    page.get_by_label("Your name").fill(rater)
    assert barriers(page) == []
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
    other.get_by_role("status").get_by_text("your answer was not stored").wait_for()
    assert stored(shown, rater) == [(first, "coverage", 5.0)]
    other.get_by_role("link", name="Continue").click()
    other.get_by_text("1 of 30 rated").wait_for()
    assert now(other) == now(page)


def test_other_scales_are_stored_from_1_to_5(page: Page, shown: Shown, rater: str) -> None:
    page.goto(f"/look/clips/rate?aspect=points&rater={rater}&scale=0-100")
    page.get_by_label("0 is worst, 100 best").fill("75")
    with page.expect_navigation():
        page.get_by_role("button", name="Store").click()
    page.goto(f"/look/clips/rate?aspect=sound&rater={rater}&scale=yes-no")
    press(page, "y")
    press(page, "n")
    assert [row[1:] for row in stored(shown, rater)] == [("points", 4.0), ("sound", 5.0), ("sound", 1.0)]
    page.goto(f"/look/clips/rate?aspect=sound&rater={rater}&scale=1-5")
    page.get_by_role("alert").get_by_text("sound has the scale yes-no here").wait_for()


def test_a_declared_scale_is_asked_and_stored_as_declared(page: Page, shown: Shown, rater: str) -> None:
    scales = {
        "size": ("1-7", 1, 7, False),
        "slips": ("0-20, lowest is best", 0, 20, True),
        "z": ("real", None, None, False),
    }
    with shown.engine.begin() as connection:
        connection.execute(sa.delete(rating_scale))
        for aspect, (scale, least, most, is_turned) in scales.items():
            values = {"aspect": aspect, "scale": scale, "least": least, "most": most, "lowest_is_best": is_turned}
            connection.execute(sa.insert(rating_scale), {"dataset_id": shown.dataset.dataset_id, **values})
    page.goto(f"/look/clips/rate?aspect=size&rater={rater}")
    page.get_by_text("1 is worst, 7 best").wait_for()
    assert barriers(page) == []
    press(page, "7")
    page.goto(f"/look/clips/rate?aspect=slips&rater={rater}")
    page.get_by_role("heading", name="How much slips does the caption have?").wait_for()
    page.get_by_label("20 is worst, 0 best").fill("3")
    assert barriers(page) == []
    with page.expect_navigation():
        page.get_by_role("button", name="Store").click()
    page.goto(f"/look/clips/rate?aspect=z&rater={rater}")
    page.get_by_label("Number").fill("-2.5")
    assert barriers(page) == []
    with page.expect_navigation():
        page.keyboard.press("Enter")
    assert [row[1:] for row in stored(shown, rater)] == [("size", 7.0), ("slips", 3.0), ("z", -2.5)]
    page.goto(f"/look/clips/rate?aspect=size&rater={rater}&scale=1-5")
    page.get_by_role("alert").get_by_text("size has the scale 1-7 here").wait_for()


def test_after_the_last_caption_comes_the_end(page: Page, shown: Shown, rater: str) -> None:
    skip = "&".join(f"skip={i}" for i in shown.ids[:-1])
    page.goto(f"/look/clips/rate?aspect=coverage&rater={rater}&{skip}")
    assert now(page) == shown.ids[-1]
    press(page, "3")
    page.get_by_role("link", name="continue with").click()
    page.get_by_text("1 of 30 rated").wait_for()
    assert now(page) in shown.ids[:-1]


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("rater=a&aspect=b&scale=1-7", "there is no scale &#39;1-7&#39;"),
        ("rater=a&aspect=%00", "NUL character"),
        (f"rater=a&aspect={quote(SPANS_ASPECT)}", "is computed from labels or marks, and not rated"),
        ("rater=%20&aspect=b", "the rater"),
        ("rater=a&aspect=b&seed=-1", "is not a whole number"),
        ("rater=a&aspect=b&skip=x", "is not a whole number"),
    ],
)
def test_a_mistake_is_told_in_one_sentence(shown: Shown, query: str, sentence: str) -> None:
    answer = shown.ask(f"/look/clips/rate?{query}")
    assert (answer.status, sentence in (text := answer.read().decode())) == (400, True), text


def test_an_own_field_of_the_manifest_is_no_scale_of_the_page(shown: Shown) -> None:
    rate(shown.engine, {shown.ids[0]: [2]}, "style", scale="1-7")
    answer = shown.ask("/look/clips/rate?rater=z&aspect=style")
    assert (answer.status, "1 is worst, 5 best" in answer.read().decode()) == (200, True)


@pytest.mark.parametrize(
    "said", ["answer=6&sample=1", "answer=4&sample=x", "sample=1", "answer=4&sample=99999999999999999999", "answer=4"]
)
def test_what_is_no_answer_is_refused(shown: Shown, said: str) -> None:
    answer = shown.ask(f"/look/clips/rate?rater=z&aspect=coverage&seen={'0' * 64}&{said}", "POST", {})
    assert (answer.status, stored(shown, "z")) == (400, [])


def test_another_site_stores_nothing(shown: Shown) -> None:
    one, other = (f"&sample={i}&seen={hash_text(shown, i)}" for i in shown.ids[:2])
    for said in (
        f"?rater=z&aspect=coverage&answer=4{one}",
        f"?rater=z&aspect=coverage&pairs=1&answer=a{one}{other}",
        "/undo?rater=z&aspect=coverage",
        f"/spans?rater=z&aspect=coverage&from=0&to=1{one}",
        f"/facts?rater=z&answer=yes&keypoint=1&sample={shown.ids[0]}",
        "/facts/undo?rater=z",
    ):
        assert shown.ask(f"/look/clips/rate{said}", "POST", {}, Origin="http://evil.example").status == 403
        assert shown.ask(f"/look/clips/rate{said}", "POST", Content_Type="text/plain").status == 415
    assert (stored(shown, "z"), preferred(shown, "z"), labels(shown, "z"), marked(shown, "z")) == ([], [], [], [])


# Two side by side, repeats, and agreement so far.


def preferred(shown: Shown, rater: str) -> list[tuple[Any, ...]]:
    """Both captions and the value of each preference of a rater, in the order in which they were given."""
    columns = (preference.c.sample_id, preference.c.other_id, preference.c.value)
    query = sa.select(*columns).where(preference.c.rater == rater).order_by(preference.c.extra["rated_at"].astext)
    with shown.engine.connect() as connection:
        return [tuple(row) for row in connection.execute(query)]


def both(page: Page) -> tuple[int, int]:
    """The captions A and B that the page asks about."""
    address = page.locator(".rate").get_attribute("data-answer") or ""
    a, b = (int(part.partition("&")[0]) for part in address.split("sample=")[1:])
    return a, b


@in_both_windows
def test_two_captions_of_a_video_are_compared_by_keys(page: Page, shown: Shown, rater: str) -> None:
    page.goto("/look/clips/rate")
    page.get_by_label("Your name").fill(rater)
    page.get_by_label("What you rate").fill("coverage")
    page.get_by_label("How").select_option("two side by side")
    page.get_by_role("button", name="Begin").click()
    page.get_by_text(f"{rater}: 0 pairs compared").wait_for()
    wanted, seen = [], []
    for key, better in (("a", 0), ("b", 1), ("t", None)):
        pair = both(page)
        assert (pair[0] - shown.ids[0]) // len(SYSTEMS) == (pair[1] - shown.ids[0]) // len(SYSTEMS), "of one video"
        wanted.append((*sorted(pair), 0 if better is None else 1 if pair[better] == min(pair) else -1))
        seen.append(pair)
        press(page, key)
        assert preferred(shown, rater) == wanted
    other = page.context.browser.new_page(base_url=shown.address)  # type: ignore[union-attr]  # a page has one
    other.goto(page.url.replace(quote_plus(rater), quote_plus(f"{rater} too")))
    other.get_by_text(f"{rater} too: 0 pairs compared").wait_for()
    assert sorted(both(other)) == sorted(seen[0]), "raters of one seed share the order"
    press(other, "t")
    assert preferred(shown, f"{rater} too") == [(*sorted(seen[0]), 0)]
    other.close()
    skipped = both(page)
    press(page, "s")
    assert both(page) not in (skipped, *seen)
    press(page, "u")
    assert preferred(shown, rater) == wanted[:2]
    assert stored(shown, rater) == [], "a preference is no rating"
    said = page.content()
    for secret in (SYSTEMS[0], "o&#39;brien", "vcs", "evqa"):
        assert secret not in said
    if (page.viewport_size or {})["width"] > 1000:
        a, b = (page.get_by_role("region", name=name).bounding_box() or {} for name in "AB")
        assert a["y"] == b["y"]
        assert a["x"] < b["x"], "A stands on the left"


@in_both_windows
def test_without_a_picture_the_caption_and_its_buttons_come_first(page: Page, shown: Shown, rater: str) -> None:
    page.goto(f"/look/texts/rate?aspect=overall&rater={rater}")
    page.get_by_role("heading", name="How good is the caption overall?").wait_for()
    tops = [page.locator(part).bounding_box() for part in ("h1", ".caption", ".scale", "blockquote")]
    places = [box["y"] + box["height"] for box in tops if box]
    assert places == sorted(places) or (page.viewport_size or {})["width"] > 1000
    assert places[2] < 400, "without scrolling"
    page.goto(f"/look/texts/rate?aspect=overall&rater={rater}&pairs=1")
    page.get_by_role("heading", name="Which caption is better overall?").wait_for()


@pytest.mark.parametrize(
    ("aspect", "scale", "question"),
    [
        ("Overall", "0-100", "How good is the caption overall?"),
        ("coverage", "1-5", "How good is the caption's coverage?"),
        ("overall", "yes-no", "Is the caption good overall?"),
        ("sound", "yes-no", "Is the caption's sound good?"),
        ("coverage", None, "Which caption is better in coverage?"),
    ],
)
def test_the_question_is_a_sentence(shown: Shown, aspect: str, scale: str | None, question: str) -> None:
    assert RatingSession(Rater(shown.dataset, "ann", aspect), scale).question == question


@in_both_windows
def test_guidelines_of_the_aspect_are_shown_with_the_question(page: Page, shown: Shown, rater: str) -> None:
    page.goto(f"/look/clips/rate?aspect=style&rater={rater}")
    if (page.viewport_size or {})["width"] < 1000:
        assert not page.get_by_text("too long").is_visible()
        page.get_by_text("Guidelines", exact=True).press("Enter")
    page.get_by_text("Mark down what is too long.").wait_for()
    page.goto(f"/look/clips/rate?aspect=other&rater={rater}")
    assert page.get_by_text("Guidelines", exact=True).count() == 0


def checks(shown: Shown, rater: str) -> list[tuple[Any, ...]]:
    """Sample, value and result of each attention check of a rater, in the order in which they were answered."""
    check = attention_check.c
    query = sa.select(check.sample_id, check.value, check.has_passed).where(check.rater == rater)
    with shown.engine.connect() as connection:
        return [tuple(row) for row in connection.execute(query.order_by(check.extra["rated_at"].astext))]


@pytest.mark.parametrize("pairs", [False, True])
def test_an_attention_check_looks_like_any_question_and_is_no_rating(
    page: Page, shown: Shown, rater: str, pairs: bool
) -> None:
    page.goto(f"/look/texts/rate?aspect=watched&rater={rater}{'&pairs=1' if pairs else ''}")
    pages, planted = set(), []
    for n in range(4):
        page.get_by_text(f"{rater}: {n} answer").wait_for()
        box = page.locator(".rate").evaluate("each => each.outerHTML")
        # Without ids, hashes and texts, all questions are one.
        pages.add(re.sub(r"[0-9a-f]{64}|(sample|skip)=[0-9-]+|<p class=.caption.*?</p>", "", box))
        texts, before = page.locator(".caption").all_inner_texts(), checks(shown, rater)
        press(page, "t" if pairs else "4")
        if len(checks(shown, rater)) > len(before):
            planted.append((checks(shown, rater)[-1][0], texts))
    assert len(pages) == 1
    assert [(value, passed) for _, value, passed in checks(shown, rater)] == [(0, True) if pairs else (4, False)] * len(
        planted
    )
    assert len(planted) in (1, 2)
    answers = preferred(shown, rater) if pairs else stored(shown, rater)
    assert len(answers) + n_repeated(shown, rater) + len(planted) == 4
    for sample_id, texts in planted:
        with shown.engine.connect() as connection:
            own = connection.execute(sa.select(sample.c.text).where(sample.c.sample_id == sample_id)).scalar_one()
        assert own not in texts
    while checks(shown, rater):
        press(page, "u")
    assert page.locator(".caption").all_inner_texts() == planted[0][1], "it is asked again"
    press(page, "b" if pairs else "2")
    ((_, value, has_passed),) = checks(shown, rater)
    assert (abs(value), has_passed) == ((1, value < 1) if pairs else (2, True))


def n_repeated(shown: Shown, rater: str) -> int:
    """How many captions and pairs a rater answered twice."""
    with shown.engine.connect() as connection:
        return sum(
            connection.scalar(sa.select(sa.func.count()).where(table.c.rater == rater, table.c.extra.has_key("again")))
            or 0
            for table in (rating, preference)
        )


def test_there_is_no_check_where_the_page_shows_nothing_of_the_video(shown: Shown, rater: str) -> None:
    dataset = make_dataset(shown.engine, "unseen")
    videos = [add_video(shown.engine, dataset, f"u{n}", status="text_only", uri=None) for n in range(8)]
    for n, video in enumerate(videos):
        add_sample(shown.engine, dataset, video, f"u{n}", f"A fox runs {n} times.")

    def count_checks(name: str) -> int:
        for _ in range(6):
            page = shown.ask(f"/look/unseen/rate?{urlencode({'aspect': 'watched', 'rater': name})}").read().decode()
            address = html.unescape(page.partition('data-answer="')[2].partition('"')[0])
            assert shown.ask(f"{address}&answer=2", "POST", {}).status == 200
        return len(checks(shown, name))

    def list_raters() -> list[str]:
        page = shown.ask(f"/look/unseen/rate/raters?{urlencode({'aspect': 'watched', 'rater': rater})}").read().decode()
        return re.findall(r"<t[hd] [^>]*>([^<]*)</t[hd]>", page)

    assert count_checks(rater) == 0
    for n, video in enumerate(videos):
        add_reference(shown.engine, dataset, video, f"r{n}", f"A fox was seen {n} times.")
    assert count_checks(f"{rater} again") == 2
    # The page of all raters does not tell how many of six answers were checks.
    assert sorted(list_raters()) == sorted(["rater", "answers", rater, "6", f"{rater} again", "6"])


@pytest.mark.parametrize(
    ("scale", "passing", "failing"),
    [
        ("1-5", (1, 2), (3, 4, 5)),
        ("1-7", (1, 2, 3), (4, 7)),
        ("0-20, lowest is best", (20, 14), (13, 0)),
        ("yes-no", (0,), (1,)),
        ("-3-3", (-3, -1), (-0.5, 3)),
    ],
)
def test_a_rating_in_the_worst_third_of_the_scale_passes_a_check(
    shown: Shown, scale: str, passing: tuple[float, ...], failing: tuple[float, ...]
) -> None:
    session = RatingSession(Rater(shown.dataset, "ann", "any"), scale, declared=parse_scale(scale))
    assert {session.has_passed(value) for value in passing} == {True}
    assert {session.has_passed(value) for value in failing} == {False}


def test_answers_of_pages_pass_on_their_own_scales(shown: Shown) -> None:
    passing = {"1-5": ["1", "2"], "yes-no": ["no"], "0-100": [str(n) for n in range(34)]}
    for scale, answers in passing.items():
        session = RatingSession(Rater(shown.dataset, "ann", "any"), scale)
        assert [text for text, value in session.answers.items() if session.has_passed(value)] == answers or (
            sorted(answers) == sorted(text for text, value in session.answers.items() if session.has_passed(value))
        )
    assert RatingSession(Rater(shown.dataset, "ann", "any"), "real", declared=parse_scale("real")).has_passed(0) is None
    pair = RatingSession(Rater(shown.dataset, "ann", "any", kind="preference"), None)
    assert [pair.has_passed(value) for value in (1, 0, -1)] == [False, True, True]


def marked(shown: Shown, rater: str) -> list[tuple[Any, ...]]:
    """The words that a rater marked, with their places, in the order of the text."""
    mark = wrong_span.c
    query = sa.select(mark.words, mark.start_at, mark.end_at, mark.is_planted).where(mark.rater == rater)
    with shown.engine.connect() as connection:
        return [tuple(row) for row in connection.execute(query.order_by(mark.sample_id, mark.start_at))]


def selected(page: Page) -> list[str]:
    """The words that the page shows as marked."""
    return page.locator(".words [aria-selected=true]").all_inner_texts()


def wait_for(page: Page, message: str) -> None:
    page.get_by_role("status").get_by_text(message).wait_for()


@in_both_windows
def test_words_are_marked_by_mouse_and_the_marks_taken_back(page: Page, shown: Shown, rater: str) -> None:
    page.goto(f"/look/texts/rate?aspect=overall&rater={rater}&spans=1")
    words = page.get_by_role("option")
    text = page.locator(".words").inner_text()
    assert barriers(page) == []
    words.nth(1).click()
    wait_for(page, "'brown' is marked as wrong")
    assert marked(shown, rater) == [("brown", 2, 7, False)]
    words.nth(3).hover()
    page.mouse.down()
    words.nth(5).hover()
    assert page.locator(".words .chosen").count() == 3
    page.mouse.up()
    end = len(" ".join(text.split(" ")[:6]))
    wait_for(page, f"{text[12:end]!r} is marked as wrong")
    assert marked(shown, rater)[1:] == [(text[12:end], 12, end, False)]
    assert selected(page) == ["brown", *text.split(" ")[3:6]]
    assert barriers(page) == []
    words.nth(5).hover()
    page.mouse.down()
    words.nth(6).hover()
    page.mouse.up()
    wait_for(page, "a word is marked already: take its mark back first")
    words.nth(4).click()
    wait_for(page, "is not marked any more")
    assert selected(page) == ["brown"]
    page.keyboard.press("u")
    wait_for(page, "is marked as wrong")
    assert (len(marked(shown, rater)), len(selected(page))) == (2, 4)
    page.keyboard.press("u")
    wait_for(page, "is not marked any more")
    page.reload()
    assert selected(page) == ["brown"]
    press(page, "2")
    assert selected(page) == []
    press(page, "u")
    assert (selected(page), stored(shown, rater)) == (["brown"], []), "the mark stays where an answer is taken back"
    press(page, "2")
    with shown.engine.connect() as connection:
        extra = connection.scalar(sa.select(rating.c.extra).where(rating.c.rater == rater))
    assert extra["spans"] is True


def test_words_are_marked_by_keys(page: Page, shown: Shown, rater: str) -> None:
    page.goto(f"/look/clips/rate?aspect=overall&rater={rater}&spans=1")
    page.wait_for_load_state()
    text = page.locator(".words").inner_text()
    assert HOSTILE in text
    for key in ("w", "ArrowRight", "Shift+ArrowRight", "Shift+ArrowRight", "Shift+ArrowLeft", "Space"):
        page.keyboard.press(key)
    wait_for(page, "is marked as wrong")
    first, second = text.split()[1:3]
    end = text.index(second) + len(second)
    assert marked(shown, rater) == [(text[2:end], 2, end, False)]
    assert selected(page) == [first, second]
    page.keyboard.press("Enter")
    wait_for(page, "is not marked any more")
    assert (marked(shown, rater), selected(page)) == ([], [])
    for key in ("ArrowLeft", "ArrowLeft", "Space"):
        page.keyboard.press(key)
    wait_for(page, "'A' is marked as wrong")
    assert page.get_by_role("option", selected=True).all_inner_texts() == ["A"]
    press(page, "4")
    assert [row[2] for row in stored(shown, rater)] == [4.0]


def test_marks_in_a_planted_caption_are_taken_and_count_for_no_caption(page: Page, shown: Shown, rater: str) -> None:
    page.goto(f"/look/texts/rate?aspect=watched&rater={rater}&spans=1")
    for _ in range(3):
        page.get_by_role("option").nth(1).click()
        wait_for(page, "'brown' is marked as wrong")
        press(page, "1")
    assert len(checks(shown, rater)) == 1
    assert sorted(row[3] for row in marked(shown, rater)) == [False, False, True]
    with shown.engine.connect() as connection:
        exported = sa.text("SELECT count(*) FROM wrong_spans WHERE rater = :rater AND NOT is_stale AND words = 'brown'")
        assert connection.scalar(exported, {"rater": rater}) == 2
        rated = sa.select(rating.c.sample_id).where(rating.c.rater == rater)
        dataset = find_dataset(connection, "texts")
        assert dataset is not None
        listed = list_ratings(connection, dataset)
        whole = {row[:1] + row[3:] for row in listed if row[1:3] == (rater, SPANS_ASPECT)}
        assert whole == {(sample_id, 0.0) for sample_id in connection.scalars(rated)}


@pytest.mark.parametrize(
    ("query", "status", "sentence"),
    [
        ("from=2&to=5", 200, "'dog' is marked as wrong"),
        ("from=0&to=1", 409, "a word is marked already: take its mark back first"),
        ("from=0&to=1&remove=1", 200, "'A' is not marked any more"),
        ("from=2&to=5&remove=1", 409, "'dog' is not marked"),
        ("from=1&to=2", 400, "the address names no words of the caption"),
        ("from=3&to=2", 400, "the address names no words of the caption"),
        ("from=2&to=99999", 400, "the address names no words of the caption"),
        ("from=2", 400, "is not a whole number"),
        ("from=2&to=5&pairs=1&spans=0", 400, "words are marked in one caption"),
        ("from=2&to=5&pairs=1", 400, "wrong words are marked in one caption at a time"),
        (f"from=2&to=5&seen={'0' * 64}", 409, "a text was changed or dropped after it was shown; open the page again"),
    ],
)
def test_a_mark_is_stored_or_refused_in_a_sentence(
    shown: Shown, rater: str, query: str, status: int, sentence: str
) -> None:
    own = f"&seen={hash_text(shown, shown.ids[0])}"
    address = f"/look/clips/rate/spans?rater={quote(rater)}&aspect=any&sample={shown.ids[0]}"
    assert shown.ask(f"{address}{own}&from=0&to=1", "POST", {}).status == 200
    answer = shown.ask(f"{address}{'' if 'seen=' in query else own}&spans=1&{query}", "POST", {})
    assert (answer.status, sentence in (told := answer.read().decode())) == (status, True), told
    left = {"from=2&to=5": ["A", "dog"], "from=0&to=1&remove=1": []}.get(query, ["A"])
    assert [row[0] for row in marked(shown, rater)] == left


def test_all_raters_are_counted(page: Page, shown: Shown, rater: str) -> None:
    aspect = f"counted {rater}"
    for name, n in ((rater, 2), (HOSTILE, 3)):
        for i in shown.ids[:n]:
            address = (
                f"/look/clips/rate?aspect={quote(aspect)}&rater={quote(name)}&sample={i}&seen={hash_text(shown, i)}"
            )
            assert shown.ask(f"{address}&answer=4", "POST", {}).status == 200
    page.goto(f"/look/clips/rate?aspect={quote(aspect)}&rater={quote(rater)}")
    page.get_by_text("All raters").press("Enter")
    page.get_by_role("row", name=f"{rater} 2 of 30").wait_for()
    rows = page.get_by_role("region", name="All raters").locator("tbody tr").all_inner_texts()
    assert [row.split("\t") for row in rows] == [[HOSTILE, "3 of 30"], [rater, "2 of 30"]]


def test_the_next_video_is_loaded_while_one_answers(page: Page, shown: Shown, rater: str) -> None:
    """The second of two captions is of another video, whose file the browser has before the first is answered."""
    with shown.engine.connect() as connection:
        query = "SELECT video_id FROM video WHERE status = 'ok' AND key IN ('v4', 'v5') ORDER BY 1"
        videos = list(connection.exec_driver_sql(query).scalars())
    kept = [shown.ids[4 * len(SYSTEMS)], shown.ids[5 * len(SYSTEMS)]]
    skip = "&".join(f"skip={i}" for i in shown.ids if i not in kept)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(urlsplit(request.url).path))
    page.goto(f"/look/clips/rate?aspect=ahead&rater={rater}&{skip}")
    first = now(page)
    other = videos[1 - kept.index(first)]
    until(page, "ahead.readyState === 4")
    assert f"/look/clips/video/{other}/file" in asked
    assert stored(shown, rater) == []


def test_a_repeat_looks_like_any_caption_and_ends_as_consistency(page: Page, shown: Shown, rater: str) -> None:
    page.goto(f"/look/clips/rate?aspect=fun&rater={rater}")
    order: list[int] = []
    answers = {key: str(1 + place % 5) for place, key in enumerate(shown.ids)}
    while len(order) == len(set(order)):
        order.append(now(page))
        said = page.locator(".rate").evaluate("each => each.outerHTML")
        assert not any(word in said for word in ("again", "twice", "due"))
        press(page, answers[order[-1]])
    assert 6 < len(order) <= 10
    page.get_by_text(f"{rater}: {len(order) - 1} of 30 rated").wait_for()
    page.get_by_text("Agreement so far").press("Enter")
    page.get_by_text("rated 1 caption twice and gave the same answer").wait_for()


def test_agreement_so_far_is_folded_and_says_when_it_is_enough(page: Page, shown: Shown, rater: str) -> None:
    aspect = f"so far {rater}"
    for place, i in enumerate(shown.ids):
        address = f"/look/clips/rate?aspect={quote(aspect)}&rater={quote(rater)}&sample={i}&seen={hash_text(shown, i)}"
        assert shown.ask(f"{address}&answer={1 + place % 5}", "POST", {}).status == 200
    page.goto(f"/look/clips/rate?aspect={quote(aspect)}&rater={quote(f'{HOSTILE} of another name')}")
    assert not page.get_by_text("Kendall").count(), "who rates is not told before asking"
    page.get_by_text("Agreement so far").press("Enter")
    region = page.get_by_role("region", name="Agreement so far")
    region.get_by_role("rowheader", name="evqa").wait_for()
    row = region.get_by_role("row", name="evqa").inner_text().split("\t")
    assert row[-1] == "30"
    page.get_by_text("How well people agree with each other is open").wait_for()
    assert page.get_by_text("A forecast assumes that the difference stays as it is now").is_visible()


def hash_text(shown: Shown, sample_id: int) -> str:
    """The hash of what is seen where a caption is shown."""
    with shown.engine.connect() as connection:
        return ask_about(connection, Rater(shown.dataset, "ann"), [sample_id]).seen


def labels(shown: Shown, rater: str) -> list[tuple[int, bool]]:
    """Caption and label of each fact that a rater labelled, in the order in which they did."""
    label = keypoint_label.c
    query = sa.select(label.sample_id, label.covered).where(label.extra["rater"].astext == rater)
    with shown.engine.connect() as connection:
        return [tuple(row) for row in connection.execute(query.order_by(label.extra["rated_at"].astext))]


@in_both_windows
def test_facts_are_labelled_by_keys_and_two_raters_store_one_label(page: Page, shown: Shown, rater: str) -> None:
    page.goto("/look/clips/rate")
    page.get_by_role("link", name="label keypoints").click()
    page.get_by_label("Your name").fill(rater)
    assert barriers(page) == []
    page.get_by_role("button", name="Begin").click()
    page.get_by_text(f"{rater}: 0 facts labelled").wait_for()
    assert f"A dog runs {HOSTILE}" in page.locator(".rate .answer").inner_text()
    other = page.context.browser.new_page(base_url=shown.address)  # type: ignore[union-attr]  # a page has one
    other.goto(page.url.replace(quote_plus(rater), quote_plus(f"{rater} too")))
    other.get_by_text(f"{rater} too: 0 facts labelled").wait_for()
    first = now(page)
    press(page, "y")
    second = now(page)
    press(page, "s")
    press(page, "n")
    assert [covered for _, covered in labels(shown, rater)] == [True, False]
    assert labels(shown, rater)[0][0] == first
    assert second not in [sample_id for sample_id, _ in labels(shown, rater)]
    press(page, "u")
    assert labels(shown, rater) == [(first, True)]
    other.keyboard.press("n")
    other.get_by_role("status").get_by_text("your answer was not stored").wait_for()
    assert (labels(shown, rater), labels(shown, f"{rater} too")) == ([(first, True)], [])
    other.close()


def test_a_dataset_that_changes_meanwhile_is_asked_anew(page: Page, shown: Shown, rater: str) -> None:
    page.goto(f"/look/clips/rate?aspect=coverage&rater={rater}&pairs=1")
    pair, text = both(page), page.locator(".caption").first.inner_text()
    change_text(shown.engine, pair[0], f"{text} and barks")
    page.keyboard.press("a")
    page.get_by_role("status").get_by_text("your answer was not stored").wait_for()
    assert preferred(shown, rater) == []
    page.get_by_role("link", name="Continue").click()
    page.get_by_text("and barks").wait_for()
    assert both(page) == pair
    press(page, "a")
    assert [row[:2] for row in preferred(shown, rater)] == [tuple(sorted(pair))]
    change_text(shown.engine, pair[0], text)


@pytest.mark.parametrize(
    "said",
    ["sample=1&sample=2", "sample=1&seen=zz", "skip=1-2&sample=1", "pairs=1&skip=1&sample=1", "pairs=1&sample=1"],
)
def test_what_is_about_no_caption_or_pair_is_refused(shown: Shown, said: str) -> None:
    answer = shown.ask(f"/look/clips/rate?rater=z&aspect=coverage&seen={'0' * 64}&answer=4&{said}", "POST", {})
    assert (answer.status, stored(shown, "z"), preferred(shown, "z")) == (400, [], [])


@pytest.mark.parametrize(
    "said",
    ["answer=4&keypoint=1&sample=1", "answer=yes&sample=1", "answer=yes&keypoint=1&sample=1&skip=1", "rater=%00"],
)
def test_what_is_no_label_is_refused(shown: Shown, said: str) -> None:
    answer = shown.ask(f"/look/clips/rate/facts?{said}{'' if 'rater' in said else '&rater=z'}", "POST", {})
    assert (answer.status, labels(shown, "z")) == (400, [])


def test_a_promise_gives_the_captions_and_the_page_counts_down(page: Page, shown: Shown, rater: str) -> None:
    # An aspect of its own, unlike any other, so that every answer is new, and a seed by which nobody was asked before a
    # caption changed.
    aspect = sha256(rater.encode()).hexdigest()
    terms = PromiseTerms(limit=0.4, error_below=3, aspect=aspect, shares=(0.5, 1.0), seed=9)
    recipe = Recipe(by={"vcs": 1.0})

    def state() -> PromiseState:
        with pytest.raises(PromiseUnconfirmed) as refused:
            make_promised_selection(shown.engine, shown.dataset, recipe, terms, no_encoder, print)
        return refused.value.state

    asked = state()
    order, promise_id = asked.list_next_ids(), asked.attempt.promise_id
    needed = asked.count_needed(0).least
    page.goto(f"/look/clips/rate?aspect={quote_plus(terms.aspect or '')}&for-promise={promise_id}&rater={quote(rater)}")
    page.get_by_text(f"{needed} more answers for promise {promise_id}, as things are").wait_for()
    seen = []
    for n in range(4):
        seen.append(now(page))
        for secret in (*SYSTEMS[:2], "vcs", "evqa"):
            assert secret not in page.content()
        press(page, "5")
        page.get_by_text(f"{needed - n - 1} more answer").wait_for()
    assert seen == order[:4]
    assert state().states[0].n_asked == 4
    with shown.engine.connect() as connection:
        # They are no random sample of the dataset, so no statistic takes them for one.
        counted = sa.text("SELECT count(*) FROM random_rating WHERE rater = :rater")
        assert connection.scalar(counted, {"rater": rater}) == 0
        assert count_ratings(connection, shown.dataset.dataset_id).n_chosen >= 4
    while order := [sample_id for sample_id in order if sample_id not in seen]:
        if page.get_by_text("needs no more answers").count() or not page.locator(".rate").count():
            break
        seen.append(now(page))
        press(page, "5")
    chosen = make_promised_selection(shown.engine, shown.dataset, recipe, terms, no_encoder, print)
    assert chosen.selection.n >= asked.states[0].size


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("aspect=b&for-promise=99", "clips has no promise 99"),
        ("aspect=b&for-promise=99&pairs=1", "captions for a promise have an order of their own"),
        ("aspect=b&for-promise=x", "is not a whole number"),
    ],
)
def test_a_promise_that_is_not_there_is_named(shown: Shown, query: str, sentence: str) -> None:
    answer = shown.ask(f"/look/clips/rate?rater=a&{query}")
    assert (answer.status, sentence in (text := answer.read().decode())) == (400, True), text


def no_encoder() -> TextEncoder:
    raise AssertionError("this recipe compares no texts")
