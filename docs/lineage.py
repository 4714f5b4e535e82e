"""Draws docs/lineage.png: the lineage page of a running `reelsieve ui`, all groups open, through headless Chromium.

Run it after `reelsieve demo`, beside `reelsieve ui`:  .venv/bin/python docs/lineage.py [http://127.0.0.1:3000]
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

PICTURE = Path(__file__).with_name("lineage.png")
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]


def draw(address: str) -> None:
    """Write the picture; the page's size fits the graph at full scale."""
    executable = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if executable is None:
        sys.exit("no Chromium found: install one of " + ", ".join(CHROMIUM))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=FLAGS)
        page = browser.new_page(viewport={"width": 2600, "height": 2000})
        page.goto(f"{address}/asset-groups")
        page.get_by_text("Hide navigation").click()
        page.locator("svg").get_by_text("ingest", exact=True).first.wait_for()
        page.keyboard.press("Alt+KeyE")
        page.locator("svg").get_by_text("vcs_score", exact=True).first.wait_for()
        page.wait_for_timeout(3000)
        page.screenshot(path=PICTURE)
        browser.close()


if __name__ == "__main__":
    draw(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:3000")
