"""Draws docs/report.png, the first screen of the demo's report, through headless Chromium.

Run it after `make demo`:  .venv/bin/python -m docs.report [.reelsieve/reports/demo/index.html]
"""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image
from PIL.PngImagePlugin import PngInfo

from tests.browser import chromium

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PICTURE = Path(__file__).with_name("report.png")
PAGE = Path(".reelsieve") / "reports" / "demo" / "index.html"
WIDTH, HEIGHT = 1280, 800
# The name in the picture's metadata of what it shows.
SHOWN = "shown"
# Every text of the answers with its colour, but for the time of the page.
TEXTS = """() => {
    const root = document.querySelector("#answers"), texts = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    const lines = [];
    while (texts.nextNode()) {
        const text = texts.currentNode.textContent.replace(/\\s+/g, " ").replace(/ Made .* UTC\\./, "").trim();
        if (text) lines.push(`${getComputedStyle(texts.currentNode.parentElement).color} ${text}`);
    }
    return lines.join("\\n");
}"""


def draw(browser: Browser, path: Path) -> tuple[bytes, str]:
    """Return the first screen of a report as a PNG picture, and the texts of its answers, each with its colour."""
    page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
    page.goto(path.resolve().as_uri())
    drawn = page.screenshot(), page.evaluate(TEXTS)
    page.close()
    return drawn


def read_shown_texts(path: Path = PICTURE) -> tuple[tuple[int, int], str]:
    """Return the size of the picture, and the texts that the page had when it was drawn, from its metadata."""
    with Image.open(path) as picture:
        return picture.size, picture.info[SHOWN]


def write_picture(path: Path) -> None:
    """Write the picture of a page, with its texts as metadata."""
    with chromium() as browser:
        picture, texts = draw(browser, path)
    metadata = PngInfo()
    metadata.add_itxt(SHOWN, texts)
    Image.open(io.BytesIO(picture)).save(PICTURE, pnginfo=metadata, optimize=True)


if __name__ == "__main__":
    write_picture(Path(sys.argv[1]) if len(sys.argv) > 1 else PAGE)
