"""The report's page in a browser, opened from disk: it works without a network, on a phone, and obeys no caption."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from assets.scores.base import Explanation
from assets.sources.facts import measure_texts
from db import schema
from db.evidence.facts import VideoFacts, store_video_facts
from tests.assets.manifests import write_clip
from tests.assets.reporting import MadeReport, rate, report_on
from tests.assets.test_report import HOSTILE, SYSTEMS, value_of
from tests.assets.test_report_facts import described
from tests.browser import barriers, chromium
from tests.db.builders import add_reference, add_sample, add_video, make_dataset, set_scores

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, ViewportSize

pytestmark = pytest.mark.browser

DESKTOP, PHONE = {"width": 1440, "height": 900}, {"width": 400, "height": 844}
# Elements wider than the window, but for those inside what scrolls by itself.
TOO_WIDE = """[...document.querySelectorAll("body *")].filter(each =>
    each.getBoundingClientRect().right > window.innerWidth + 1 && !each.closest(".table, nav, svg")
).map(each => each.outerHTML.slice(0, 80))"""

# Letters of figures outside of their picture, and such on others; a letter's box is a little higher than the letter.
CUT_TEXT = """[...document.querySelectorAll("svg text")].filter(each => {
    const text = each.getBoundingClientRect(), all = each.closest("svg").getBoundingClientRect();
    const isBeside = text.left < all.left - 1 || text.right > all.right + 1;
    return isBeside || text.bottom > all.bottom + 3 || text.top < all.top - 3;
}).map(each => each.textContent)"""
TEXT_ON_TEXT = """[...document.querySelectorAll("svg")].flatMap(svg => {
    const texts = [...svg.querySelectorAll("text")].map(each => [each.textContent, each.getBoundingClientRect()]);
    return texts.flatMap(([name, a], i) => texts.slice(i + 1).filter(([_, b]) =>
        Math.min(a.right, b.right) > Math.max(a.left, b.left) + 1
        && Math.min(a.bottom, b.bottom) > Math.max(a.top, b.top) + 4
    ).map(([other]) => [svg.getAttribute("aria-label"), name, other]));
})"""

# What is wider than its place and scrolls by itself, of what is on the page.
CUT_OFF = """[...document.querySelectorAll(".table, nav ol, figure, summary, .answer")].filter(each =>
    each.checkVisibility() && each.scrollWidth > each.clientWidth + 1
).map(each => each.getAttribute("aria-label") || each.className || each.textContent.slice(0, 60))"""
# The links that, clicked one after the other, do not bring their target to the top of the window within some frames.
LEADS_ELSEWHERE = """async links => {
    const frame = () => new Promise(requestAnimationFrame);
    const isThere = id => {
        const y = document.getElementById(id).getBoundingClientRect().top;
        const isEnd = innerHeight + scrollY >= document.documentElement.scrollHeight - 2;
        return location.hash.slice(1) === id && (isEnd ? y < innerHeight : y >= -2 && y < 120);
    };
    const wrong = [];
    for (const link of links) {
        const id = link.getAttribute("href").slice(1);
        link.click();
        for (let left = 120; left && !isThere(id); left--) await frame();
        if (!isThere(id)) wrong.push(id);
    }
    return wrong;
}"""
OPEN_ALL = "document.querySelectorAll('details').forEach(each => { each.open = true; })"


@pytest.fixture(scope="module")
def made(module_engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> MadeReport:
    """A report with pictures, long names, and captions that try to be markup."""
    folder = tmp_path_factory.mktemp("report")
    clip = write_clip(folder / "clip.avi").resolve()
    state, dataset = clip.stat(), make_dataset(module_engine, "shown", 2)
    media = {"uri": str(clip), "size_bytes": state.st_size, "mtime_ns": state.st_mtime_ns, "n_frames": 12, "width": 32}
    ids, content = [], sha256(clip.read_bytes()).digest()
    for video in range(8):
        video_id = add_video(module_engine, dataset, f"v{video}", content=clip.read_bytes())
        add_reference(module_engine, dataset, video_id, f"v{video}_r", HOSTILE)
        with module_engine.begin() as connection:
            this = schema.video.c.video_id == video_id
            connection.execute(sa.update(schema.video).where(this).values({**media, "height": 32}))
        signs = content + bytes(255 - byte for byte in content)
        facts = {"motion": video / 7, "static_share": 1.0, "sharpness": 10.0**video, "signature": signs}
        store_video_facts(module_engine, "rule", None, [VideoFacts(video_id, content, facts)])
        for system in SYSTEMS:
            key, long = f"v{video}_{system}_{'x' * 60}", f"{system}_{'of_a_very_long_name' * 4}"
            ids.append(add_sample(module_engine, dataset, video_id, key, f"{HOSTILE} {key}", system=long))
    for shard in range(2):
        measure_texts(module_engine, dataset, shard, lambda _: None)
    for metric, sign in (("vcs", 1), ("evqa", -1)):
        set_scores(module_engine, {i: sign * value_of(place) for place, i in enumerate(ids)}, metric)
    rate(module_engine, {i: (round(5 * value_of(place)), 3 + place % 2) for place, i in enumerate(ids)}, "</script>")
    told = Explanation([HOSTILE], [{"fact": HOSTILE, "sentence": f"word {'y' * 200}", "p": 0.5, "label": None}])
    return report_on(module_engine, dataset, folder / "out", ("vcs", "evqa"), vcs=told)


@pytest.fixture(scope="module")
def browser(made: MadeReport) -> Iterator[Browser]:
    """One browser for this module."""
    with chromium() as opened:
        yield opened


@pytest.fixture(params=[DESKTOP, PHONE], ids=["desktop", "phone"])
def page(request: pytest.FixtureRequest, browser: Browser, made: MadeReport) -> Generator[Page, None, None]:
    """The page from disk; it may say nothing to the console, ask for nothing and open nothing."""
    said: list[str] = []
    context = browser.new_context(viewport=request.param)
    page = context.new_page()
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
    asked: list[str] = []
    page.on("request", lambda sent: asked.append(sent.url))
    page.goto(made.path.as_uri())
    yield page
    context.close()
    assert said == []
    assert [url for url in asked if not url.startswith("data:")] == [made.path.as_uri()]


def test_every_link_leads_to_its_section(page: Page) -> None:
    # On a phone a table has no head, and its links with it.
    links = page.locator("a[href^='#']:visible")
    assert links.count() > 8
    assert links.evaluate_all(LEADS_ELSEWHERE) == []


def test_opening_everything_shows_it_and_nothing_overflows(page: Page) -> None:
    assert page.evaluate(TOO_WIDE) == []
    summaries = page.locator("summary")
    hidden = page.get_by_text("y" * 200).first
    assert not hidden.is_visible()
    for number in range(summaries.count()):
        summaries.nth(number).click()
    assert page.locator("details:not([open])").count() == 0
    assert hidden.is_visible()
    assert page.evaluate(TOO_WIDE) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_pictures_and_figures_are_drawn(page: Page) -> None:
    sizes = page.evaluate("[...document.images].map(image => [image.naturalWidth, image.naturalHeight])")
    assert sizes
    assert {tuple(size) for size in sizes} == {(96, 96)}
    figures = page.evaluate(
        "[...document.querySelectorAll('svg')].map(s => [s.clientWidth, s.getAttribute('aria-label')])"
    )
    assert len(figures) == 3
    assert all(width > 100 and label for width, label in figures)


def test_no_text_of_a_figure_is_cut_or_covers_another(page: Page) -> None:
    assert page.evaluate("document.querySelectorAll('svg text').length") > 20
    assert page.evaluate(CUT_TEXT) == []
    assert page.evaluate(TEXT_ON_TEXT) == []


def test_no_table_is_cut_before_and_after_folding_out(page: Page) -> None:
    assert page.locator(".table:visible").count() > 4
    assert page.evaluate(CUT_OFF) == []
    page.evaluate(OPEN_ALL)
    # Of sentences and of coefficients there may be more columns than a phone has room for.
    may_scroll = ("Why this", "All coefficients", "Thresholds of")
    assert [each for each in page.evaluate(CUT_OFF) if not each.startswith(may_scroll)] == []
    assert page.locator(".card .table:visible").count() > 3


def test_the_first_screen_answers(browser: Browser, made: MadeReport) -> None:
    """Which metric, which system, what next: on a small laptop without scrolling, the contents above them."""
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.goto(made.path.as_uri())
    seen = page.evaluate(
        """[...document.querySelectorAll("nav a, .answer, .trust tbody tr:first-child")].map(each =>
            [each.getBoundingClientRect().bottom, each.innerText])"""
    )
    page.close()
    assert [text.partition("\n")[0] for _, text in seen[-4:-1]] == [
        "Which metric to trust for captions?", "Which system is best?", "What to do next?"
    ]  # fmt: skip
    assert all(bottom < 800 for bottom, _ in seen)
    # 8 videos are too few for any claim.
    assert "8 videos, 10 needed" in seen[-4][1]
    assert "2 more videos" in seen[-2][1]


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_a_page_of_facts_alone_fits_and_has_bars(
    browser: Browser, module_engine: Engine, tmp_path: Path, size: ViewportSize
) -> None:
    made = report_on(module_engine, described(module_engine, f"bare{size['width']}"), tmp_path, ("vcs", "ecs"))
    page = browser.new_page(viewport=size)
    page.goto(made.path.as_uri())
    assert page.locator(".answer h2").all_inner_texts() == [
        "Which metric to trust for captions?", "What is unusual?", "What to do next?"
    ]  # fmt: skip
    highest = "bins => Math.max(...[...bins.children].map(bar => bar.clientHeight))"
    heights = page.evaluate(f"[...document.querySelectorAll('.bins')].map({highest})")
    assert len(heights) > 6
    assert all(height > 40 for height in heights)
    page.evaluate(OPEN_ALL)
    assert (page.evaluate(TOO_WIDE), page.evaluate(CUT_OFF)) == ([], [])
    page.close()


def test_captions_are_text(page: Page) -> None:
    assert page.locator("script, iframe, object, embed, form, img[src='x']").count() == 0
    page.evaluate(OPEN_ALL)
    shown = page.locator("blockquote").first.inner_text()
    assert shown.startswith("<script>alert(1)</script> <img src=x onerror=alert(2)> {{ 7 * 7 }} &amp; \\u202eturned")


def test_every_part_has_a_name(page: Page) -> None:
    levels = page.evaluate("[...document.querySelectorAll('h1, h2, h3, h4')].map(each => +each.tagName[1])")
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert page.evaluate("[...document.querySelectorAll('section')].every(s => s.getAttribute('aria-labelledby'))")
    assert page.evaluate("[...document.images].every(image => image.alt)")
    assert page.evaluate("document.documentElement.lang") == "en"
    page.evaluate(OPEN_ALL)
    assert barriers(page) == []


def test_it_prints_without_the_navigation(page: Page, tmp_path: Path) -> None:
    page.emulate_media(media="print")
    assert not page.locator("nav").is_visible()
    printed = page.pdf(path=tmp_path / "report.pdf", format="A4")
    assert printed[:5] == b"%PDF-"
