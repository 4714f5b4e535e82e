"""Draws docs/report.png: the answers of the demo's report and a sample card, through headless Chromium.

Run it after `reelsieve demo`:  .venv/bin/python docs/report.py [.reelsieve/reports/demo/index.html]
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

PICTURE = Path(__file__).with_name("report.png")
PAGE = Path(".reelsieve") / "reports" / "demo" / "index.html"
EXECUTABLES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-component-update", "--disable-sync"]
WIDTH = 1200
# Of the page there stay the answers and the first of the worst samples, opened.
CARD = "#samples-worst + .cards > .sample"
HIDDEN = f"""nav, footer, #trust, #systems, #scores, #pairs, #data, #method, #samples > :not(#samples-worst + .cards),
#answers > .soft, .trust .soft, .sample, article > details {{ display: none; }}
{CARD}:first-child {{ display: block; }}
main, #answers {{ padding-bottom: 0; }} #samples {{ border: 0; padding: 0 0 24px; }}"""


def draw(path: Path) -> None:
    """Write the picture: whether each metric can be trusted, and one of the samples to look at."""
    executable = next(filter(None, map(shutil.which, EXECUTABLES)), None)
    if executable is None:
        sys.exit(f"no Chromium found: install one of {', '.join(EXECUTABLES)}")
    with sync_playwright() as playwright, playwright.chromium.launch(executable_path=executable, args=FLAGS) as browser:
        page = browser.new_page(viewport={"width": WIDTH, "height": 400})
        page.goto(path.resolve().as_uri())
        page.locator(CARD).first.locator("summary").first.click()
        page.add_style_tag(content=HIDDEN)
        page.screenshot(path=PICTURE, full_page=True)


if __name__ == "__main__":
    draw(Path(sys.argv[1]) if len(sys.argv) > 1 else PAGE)
