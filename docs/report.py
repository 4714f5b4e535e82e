"""Draws docs/report.png: a part of the report of the demo, through headless Chromium.

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
WIDTH, HEIGHT = 1180, 1400


def draw(path: Path) -> None:
    """Write the picture: whether each metric can be trusted, and the plots of the first aspect."""
    executable = next(filter(None, map(shutil.which, EXECUTABLES)), None)
    if executable is None:
        sys.exit(f"no Chromium found: install one of {', '.join(EXECUTABLES)}")
    with sync_playwright() as playwright, playwright.chromium.launch(executable_path=executable, args=FLAGS) as browser:
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        page.goto(path.resolve().as_uri())
        page.add_style_tag(content="nav { display: none; }")
        box = page.locator("#trust").bounding_box()
        assert box is not None
        page.screenshot(
            path=PICTURE, clip={"x": 0, "y": box["y"] + 8, "width": WIDTH, "height": HEIGHT}, full_page=True
        )


if __name__ == "__main__":
    draw(Path(sys.argv[1]) if len(sys.argv) > 1 else PAGE)
