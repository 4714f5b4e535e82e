"""The pages of `reelsieve look` in a browser, wide and narrow, and what they answer to programs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, quote, urlsplit

import pytest
import sqlalchemy as sa

from tests.browser import barriers
from tests.orchestration.looking import (
    HOSTILE,
    MISSING,
    N_VIDEOS,
    PLAYING,
    SYSTEMS,
    TEXT_ONLY,
    UNDECODABLE,
    Shown,
    add_frames,
    frozen_keys,
    in_both_windows,
    page,
    shown,
    tab,
    value_of,
)

if TYPE_CHECKING:
    from playwright.sync_api import Page

__all__ = ["page", "shown", "tab"]  # fixtures

pytestmark = pytest.mark.browser

N_SAMPLES = N_VIDEOS * len(SYSTEMS)


def keys(page: Page) -> list[str]:
    return page.locator(".card .open").all_inner_texts()


def until(page: Page, holds: str) -> None:
    """Wait until an expression is true: the page's policy forbids Playwright's own way, which needs `eval`."""
    page.evaluate(f"new Promise(done => {{ const look = () => {holds} ? done() : setTimeout(look, 50); look(); }})")


@in_both_windows
def test_the_grid_shows_the_best_first_and_leads_to_all(page: Page, shown: Shown) -> None:
    page.goto("/look/clips")
    page.get_by_role("status").get_by_text(f"{N_SAMPLES} samples").wait_for()
    first = keys(page)
    page.get_by_role("link", name="Next page").click()
    page.wait_for_url("**after=**")
    assert (len(first), len({*first, *keys(page)})) == (24, N_SAMPLES)
    best = [shown.ids[place] for place in range(N_SAMPLES) if value_of(place) == 0.95]
    page.get_by_role("link", name="First page").click()
    page.wait_for_url(lambda url: "after" not in url)
    links = page.locator(".card .open").evaluate_all("links => links.map(each => each.pathname)")
    assert links[: len(best)] == [f"/look/clips/sample/{i}" for i in best]
    assert "<b>long</b>" in page.locator(".system").all_inner_texts()[0] + page.locator(".cards").inner_text()


@in_both_windows
def test_a_card_plays_its_video_or_says_why_not(page: Page, shown: Shown) -> None:
    page.goto("/look/clips?sort=")
    cards = page.locator(".card")
    cards.nth(PLAYING * 3).scroll_into_view_if_needed()
    until(page, "document.querySelector('.card img').naturalWidth > 100")
    cards.nth(PLAYING * 3).get_by_role("button").click()
    until(page, "document.querySelector('.card video')?.currentTime > 0.1")
    assert cards.nth(TEXT_ONLY * 3).locator(".film").count() == 0, "the text is the card"
    cards.nth(UNDECODABLE * 3).get_by_text("No video: its file does not decode").wait_for()
    cards.nth(MISSING * 3).scroll_into_view_if_needed()
    cards.nth(MISSING * 3).get_by_text("No video: the file cannot be shown:").wait_for()


@in_both_windows
def test_conditions_order_and_brushes_stand_in_the_address(page: Page, shown: Shown) -> None:
    page.goto("/look/clips")
    field = page.get_by_label("Where")
    field.press_sequentially("evqa >= 0.1 and ev")
    assert page.locator("#where-names option").evaluate_all("all => all.map(each => each.value)") == [
        f"evqa >= 0.1 and {name}" for name in ("evqa", "evqa_models", "evqa_status")
    ]
    field.fill("evqa >= 0.1 and nothing > 1")
    field.press("Enter")
    page.get_by_role("alert").get_by_text("unknown name 'nothing'").wait_for()
    assert field.get_attribute("aria-invalid") == "true"
    field.fill("evqa >= 0.1")
    field.press("Enter")
    page.get_by_role("status").get_by_text(f"{N_SAMPLES - 10} samples").wait_for()
    page.wait_for_load_state()
    page.get_by_label("First").select_option("lowest")
    page.wait_for_url("**order=asc**")
    distributions(page)
    page.get_by_role("link", name="Keep system brief").click()
    page.get_by_role("status").get_by_text("6 samples").wait_for()
    drag(page, "vcs", 0.25, 0.4)
    page.wait_for_url(lambda url: "vcs" in "".join(parse_qs(urlsplit(url).query)["only"]))
    said = parse_qs(urlsplit(page.url).query)
    assert said["where"] == ["evqa >= 0.1"]
    assert said["only"] == ["system = 'brief'", "vcs >= 0.24 and vcs < 0.42"]
    wanted = sorted(
        (value, place)
        for place in range(10, N_SAMPLES)
        if place % 3 == 0 and (value := value_of(place)) is not None and 0.24 <= value < 0.42
    )
    assert keys(page) == [f"v{place // 3}_brief" for _, place in wanted]
    seen = keys(page)
    page.reload()
    assert keys(page) == seen
    with page.expect_navigation():
        page.get_by_role("link", name="Remove the condition vcs").click()
    page.get_by_role("status").get_by_text("6 samples").wait_for()


def distributions(page: Page) -> None:
    """Open the histograms where a narrow window folds them."""
    # The script of the page has folded them by then.
    page.wait_for_load_state("domcontentloaded")
    if page.locator(".side").get_attribute("open") is None:
        page.get_by_text("Distributions").press("Enter")


def drag(page: Page, column: str, low: float, high: float) -> None:
    """Brush a histogram from the bar that holds one value to that of another one."""
    distributions(page)
    bars = page.locator(f'.bars[data-column="{column}"]')
    bars.scroll_into_view_if_needed()
    boxes = bars.locator("g").evaluate_all("""all => all.map(each => {
        const {x, width} = each.querySelector(".hit").getBoundingClientRect();
        return [Number(each.dataset.low), Number(each.dataset.high), x + width / 2];
    })""")
    top = bars.bounding_box()
    assert top is not None
    for move, value in ((page.mouse.down, low), (page.mouse.up, high)):
        (x,) = [x for start, end, x in boxes if start <= value < end]
        page.mouse.move(x, top["y"] + 30)
        move()


def test_a_range_is_typed_where_no_pointer_is(page: Page) -> None:
    page.goto("/look/clips?show=evqa&sort=evqa")
    distributions(page)
    page.get_by_label("evqa from").fill("0.05")
    page.get_by_label("evqa to below").fill("0.075")
    page.get_by_label("evqa to below").press("Enter")
    page.get_by_role("status").get_by_text("3 samples").wait_for()


@in_both_windows
def test_a_sample_shows_its_scores_and_why(page: Page, shown: Shown) -> None:
    page.goto("/look/clips?sort=")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/sample/{shown.ids[0]}?**")
    lines = page.locator("#score-vcs ~ div svg.links line")
    assert lines.evaluate_all("all => all.map(each => each.className.baseVal)") == ["", "broken"]
    page.get_by_label("Parts of the caption joined").get_by_text("2 meets 1, similarity 0.75, goes back").wait_for(
        state="attached"
    )
    assert page.locator("mark").all_inner_texts() == ["dog", HOSTILE[:4]]
    assert page.locator("mark").first.get_attribute("title") == HOSTILE
    assert page.locator(".seen .text").inner_text() == f"A dog {HOSTILE}"
    asset = page.get_by_role("link", name="made by the asset vcs_score").get_attribute("href")
    shard = shown.dataset.compute_shard("v0/<i>..")
    assert asset == f"/assets/vcs_score?view=partitions&partition=clips%3A{shard:04d}"
    page.get_by_text("Why this evqa").scroll_into_view_if_needed()
    page.get_by_role("button", name="Show the video at 1.5 seconds").click()
    until(page, "document.querySelector('video').currentTime === 1.5")
    page.get_by_role("row", name="r1 4 – with the manifest").wait_for()
    page.get_by_text("History of values").click()
    page.get_by_role("rowheader", name="evqa@").wait_for()
    assert barriers(page) == []
    page.get_by_role("link", name="All systems on this video").click()
    page.get_by_text("3 samples side by side").wait_for()
    assert page.locator(".card .system").all_inner_texts() == sorted(SYSTEMS)


def sample_of(page: Page) -> int:
    """The sample that the page shows."""
    return int(urlsplit(page.url).path.rpartition("/")[2])


def walk(page: Page, key: str) -> int:
    """Press a key that leads to another sample, and return that."""
    page.wait_for_load_state()
    with page.expect_navigation():
        page.keyboard.press(key)
    return sample_of(page)


def test_keys_lead_from_sample_to_sample_and_back_to_its_card(page: Page, shown: Shown) -> None:
    address = f"/look/clips?where={quote('vcs is not null')}&sort=vcs&order=asc"
    page.goto(address)
    order = page.locator(".card .open").evaluate_all("all => all.map(each => Number(each.id.slice(1)))")
    page.keyboard.press("j")
    page.keyboard.press("j")
    assert walk(page, "Enter") == order[1]
    assert [walk(page, key) for key in ("j", "ArrowRight", "k", "ArrowLeft")] == [order[i] for i in (2, 3, 2, 1)]
    page.get_by_role("link", name="Previous").click()
    page.wait_for_url(f"**/sample/{order[0]}?**")
    assert page.get_by_role("link", name="Previous").count() == 0
    assert [walk(page, "j") for _ in range(3)] == order[1:4]
    with page.expect_navigation():
        page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.id") == f"s{order[3]}"
    assert page.evaluate("document.querySelector('.card .open').id") == f"s{order[3]}", "its page begins with it"
    # From a card of a later page Escape leads back to that page.
    page.goto(f"{address}&after={quote(f'[{value_of(order[1] - shown.ids[0])}, {order[1]}]')}")
    cards = keys(page)
    page.locator(".card .open").nth(4).click()
    page.wait_for_url(f"**/sample/{order[6]}?**")
    with page.expect_navigation():
        page.keyboard.press("Escape")
    assert keys(page) == cards
    assert page.evaluate("document.activeElement.id") == f"s{order[6]}"


def test_escape_leads_back_to_all_systems_of_a_video_and_then_to_the_cards(page: Page, shown: Shown) -> None:
    page.goto(f"/look/clips?where={quote('vcs is not null')}")
    page.get_by_role("link", name="All systems on video").first.click()
    page.wait_for_url("**/video/**")
    video, cards = page.url, keys(page)
    sample = walk_to_card(page, len(cards) - 1)
    # A comparison of words leads to the same sample; it changes nothing about where Escape leads.
    with page.expect_navigation():
        page.get_by_role("link", name="Compare words with").first.click()
    assert sample_of(page) == sample
    page.keyboard.press("Escape")
    page.wait_for_url(f"{video.partition('?')[0]}?**")
    assert keys(page) == cards
    assert page.evaluate("document.activeElement.id") == f"s{sample}"
    # The next sample is one of the cards, perhaps of another video.
    walk_to_card(page, 0)
    walk(page, "j" if page.get_by_role("link", name="Next").count() else "k")
    assert page.locator(".back").all_inner_texts() == ["clips"]
    page.goto(video)
    page.keyboard.press("Escape")
    page.wait_for_url("**/look/clips?where=**")


def walk_to_card(page: Page, number: int) -> int:
    """Open the sample of a card, and return it."""
    with page.expect_navigation():
        page.locator(".card .open").nth(number).click()
    return sample_of(page)


def test_where_nothing_is_scored_ratings_and_facts_come_first(page: Page, shown: Shown) -> None:
    page.goto("/look/texts")
    assert page.locator(".card").first.locator("dt").all_inner_texts() == [
        "rating_flow",
        "words",
        "sentences",
        "name_share",
    ]
    page.get_by_text("Columns", exact=True).click()
    offered = page.locator("fieldset label").all_inner_texts()
    assert [name.strip() for name in offered[:2]] == ["rating_flow", "words"]
    assert not {"vcs", "vcs_status", "motion", "width"} & {name.strip() for name in offered}
    page.get_by_text("Columns", exact=True).click()
    distributions(page)
    page.get_by_role("img", name="words: 8 values from 10 to 11").wait_for()
    page.locator(".card .open").first.click()
    page.wait_for_url("**/sample/**")
    page.get_by_role("rowheader", name="words").wait_for()
    assert page.get_by_text("unscored").count() == 0
    page.get_by_text("No score yet by vcs, evqa").wait_for()
    assert page.locator(".scores > *").first.get_by_text("Facts").count() == 1


def test_of_a_dataset_without_captions_the_videos_are_shown(page: Page, shown: Shown) -> None:
    page.goto("/look/bare")
    page.get_by_text("No captions: the first 1 video with some facts").wait_for()
    until(page, "document.querySelector('.card img').naturalWidth > 100")
    assert page.get_by_text("loosen one").count() == 0
    page.locator(".card .open").click()
    page.wait_for_url("**/look/bare/video/*")
    assert page.get_by_text("side by side").count() == 0
    page.goto("/look/bare?where=words>3")
    page.get_by_text("No sample passes all conditions: loosen one.").wait_for()


def test_words_that_differ_are_marked_in_both_texts(page: Page, shown: Shown) -> None:
    page.goto(f"/look/texts/sample/{shown.text_ids[0]}")
    page.get_by_role("link", name="Compare words with t0_r").click()
    page.get_by_role("heading", name="Compared with t0_r").wait_for()
    assert page.locator(".seen > .text ins").all_inner_texts() == ["brown", "far far far"]
    assert page.locator("blockquote ins").all_inner_texts() == ["red"]
    page.get_by_role("link", name="short", exact=True).click()
    page.get_by_role("heading", name="Compared with short").wait_for()
    assert page.locator(".seen > .text ins").all_inner_texts() == ["far"]
    assert page.locator("blockquote ins").count() == 0
    # The comparison goes along from sample to sample, and has nothing to say of the system itself.
    walk(page, "j")
    page.get_by_text("There is no system short here to compare with.").wait_for()
    walk(page, "j")
    page.get_by_role("heading", name="Compared with short").wait_for()
    page.get_by_role("link", name="End the comparison").click()
    page.wait_for_url(lambda url: "compared" not in url)
    assert page.locator("ins").count() == 0


def test_similar_samples_come_by_their_vectors(page: Page, shown: Shown) -> None:
    page.goto(f"/look/texts/sample/{shown.text_ids[0]}")
    page.get_by_text("Similar samples").press("Enter")
    # Its own video's other caption is nearer, and left out; the last video has no vectors.
    page.get_by_text("cosine 0.00").wait_for()
    similar = page.locator(".similar li").evaluate_all("all => all.map(each => each.innerText.split('\\n')[0])")
    assert similar == [
        "long t1_long cosine 0.00",
        "short t1_short cosine −0.71",
        "short t2_short cosine −0.71",
        "long t2_long cosine −1.00",
    ]
    page.get_by_role("link", name="t1_short").click()
    page.wait_for_url(f"**/sample/{shown.text_ids[3]}?**")
    page.goto(f"/look/texts/sample/{shown.text_ids[-1]}")
    page.get_by_text("Similar samples").press("Enter")
    page.get_by_text("This caption has no vector of texts yet: run reelsieve search TEXT --dataset texts").wait_for()


def test_similar_videos_come_by_their_frames(page: Page, shown: Shown) -> None:
    with shown.engine.connect() as connection:
        videos = list(connection.exec_driver_sql("SELECT video_id FROM video WHERE status = 'ok' ORDER BY 1").scalars())
    add_frames(shown.engine, {videos[0]: (1, 0), videos[1]: (0, 1), videos[2]: (2, 2)})
    page.goto(f"/look/clips/sample/{shown.ids[PLAYING]}")
    page.get_by_text("Similar samples").press("Enter")
    page.get_by_role("heading", name="Videos with similar frames").wait_for()
    assert page.locator(".similar li").all_inner_texts() == [
        "v4 at 0.5 s, cosine 0.71",
        f"v{MISSING} at 0.5 s, cosine 0.00",
    ]


def test_what_is_seen_is_frozen_as_its_recipe_says(page: Page, shown: Shown) -> None:
    page.goto("/look/clips?where=vcs+>+0.5&only=system+<>+'plain'&sort=vcs")
    page.get_by_role("status").get_by_text("samples").wait_for()
    seen = keys(page)
    page.get_by_role("link", name="Freeze this view").click()
    page.get_by_text("(vcs > 0.5) and (system <> 'plain')").first.wait_for()
    page.get_by_role("button", name=f"Freeze {len(seen)} samples").click()
    page.get_by_role("status").get_by_text("reelsieve export").wait_for()
    number = int(page.get_by_role("status").inner_text().split()[1])
    assert frozen_keys(shown.engine, number) == set(seen)


def test_what_is_seen_is_a_statement(page: Page, shown: Shown) -> None:
    page.goto("/look/clips?where=vcs+>+0.5&sort=vcs&order=asc")
    seen = keys(page)
    page.get_by_role("link", name="As SQL").click()
    statement = page.locator("#statement").inner_text()
    with shown.engine.connect() as connection:
        assert list(connection.scalars(sa.text(statement))) == seen


# What programs are answered.


@pytest.mark.parametrize(
    ("path", "status", "sentence"),
    [
        ("/look/clipz", 404, "did you mean &#39;clips&#39;"),
        ("/look/clips/sample/99999", 404, "has no sample with this address"),
        ("/look/clips/sample/99999999999999999999", 404, "has no sample with this address"),
        ("/look/clips/video/99999/file", 404, "has no video with this address"),
        ("/look/clips?where=vcs+>", 400, "not a complete condition"),
        ("/look/clips?sort=gone", 400, "unknown name &#39;gone&#39;"),
        ("/look/clips?show=gone", 400, "unknown name &#39;gone&#39;"),
        ("/look/clips/sample/99999/similar", 404, "has no sample with this address"),
        ("/look/clips?after=[[1],2]", 400, "names no valid place to begin"),
        ("/look/clips?after=x", 400, "names no valid place to begin"),
        ("/look/clips?sort=system&after=[1,2]", 400, "names no valid place to begin"),
        ("/look/clips?after=[true,3]", 400, "names no valid place to begin"),
        (f"/look/clips?after=[{10**400},3]", 400, "names no valid place to begin"),
        (f"/look/clips?after=[{'9' * 5000},3]", 400, "names no valid place to begin"),
        (f"/look/clips?after={'[' * 3000}", 400, "names no valid place to begin"),
        (f"/look/clips?where={'(' * 3000}vcs+>+0{')' * 3000}", 400, "nested"),
        (f"/look/clips?where=vcs+>+{'9' * 5000}", 400, "vcs"),
        (f"/look/clips/sample/{'9' * 5000}", 404, "has no sample with this address"),
        (f"/look/clips/video/{'9' * 5000}", 404, "has no video with this address"),
        (f"/look/clips/rate?rater=a&aspect=b&seed={'9' * 5000}", 400, "in the address is not a whole number"),
        (f"/look/clips/rate/facts?rater=a&seed={'9' * 5000}", 400, "in the address is not a whole number"),
        ("/look/clips/histogram?column=text", 400, "all values of 'text' are unique"),
        ("/look/clips/selection?where=vcs+>+9", 400, "no sample to freeze"),
        ("/look/files/../app.py", 404, "nothing has this name"),
        ("/look/files/..%2fapp.py", 404, "nothing has this name"),
    ],
)
def test_a_mistake_is_told_in_one_sentence(shown: Shown, path: str, status: int, sentence: str) -> None:
    answer = shown.ask(path.replace(" ", "+"))
    assert (answer.status, sentence in (text := answer.read().decode())) == (status, True), text


@pytest.mark.parametrize("number", [TEXT_ONLY, UNDECODABLE, MISSING])
@pytest.mark.parametrize("what", ["file", "frames.jpg"])
def test_a_video_without_a_file_is_told_in_one_sentence(shown: Shown, number: int, what: str) -> None:
    with shown.engine.connect() as connection:
        query = "SELECT video_id FROM video WHERE key = %s"
        video = connection.exec_driver_sql(query, (f"v{number}",)).scalar_one()
    answer = shown.ask(f"/look/clips/video/{video}/{what}")
    assert answer.status == 400
    assert json.loads(answer.read())["message"]


def test_a_video_is_sent_by_ranges_and_only_as_one(shown: Shown) -> None:
    whole = (shown.media / "clip.mp4").read_bytes()
    with shown.engine.connect() as connection:
        video = connection.exec_driver_sql("SELECT min(video_id) FROM video").scalar_one()
    answer = shown.ask(f"/look/clips/video/{video}/file", Range="bytes=100-199")
    assert (answer.status, answer.read()) == (206, whole[100:200])
    assert (answer.getheader("Content-Type"), answer.getheader("X-Content-Type-Options")) == ("video/mp4", "nosniff")
    assert shown.ask(f"/look/clips/video/{video}/file", Range="bytes=99999999-").status == 416


def test_only_our_own_pages_may_ask(shown: Shown) -> None:
    path = f"/look/clips/selection?where={quote('vcs > 0.9')}"
    assert shown.ask(path, Host="evil.example").status == 421
    assert shown.ask(path, Origin="http://evil.example").status == 403
    assert shown.ask(path, "POST", {}, Origin="http://evil.example").status == 403
    assert shown.ask(path, "POST", Content_Type="text/plain").status == 415
    # There is nothing that a cookie could say, of whomever it is.
    answer = shown.ask("/look/clips", Cookie="session=of-another-user")
    assert (answer.status, answer.getheader("Set-Cookie")) == (200, None)
    policy = answer.getheader("Content-Security-Policy") or ""
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
