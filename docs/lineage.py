"""Draws docs/lineage.png: the first page of a running `reelsieve ui`, through headless Chromium.

Run it beside `reelsieve ui`, after `reelsieve demo`, with the address that it prints:
.venv/bin/python docs/lineage.py 'http://127.0.0.1:3000/?token=...'
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from playwright.sync_api import expect, sync_playwright

PICTURE = Path(__file__).with_name("lineage.png")
EXECUTABLES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-component-update", "--disable-sync"]
PATIENCE_MS = 60_000


def draw(address: str) -> None:
    """Write the picture."""
    executable = next(filter(None, map(shutil.which, EXECUTABLES)), None)
    if executable is None:
        sys.exit(f"no Chromium found: install one of {', '.join(EXECUTABLES)}")
    with sync_playwright() as playwright, playwright.chromium.launch(executable_path=executable, args=FLAGS) as browser:
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.goto(address)
        # Every group says how many of its assets are there.
        page.locator("svg .group").first.wait_for()
        expect(page.get_by_text("fetching statuses")).to_have_count(0, timeout=PATIENCE_MS)
        page.screenshot(path=PICTURE)


if __name__ == "__main__":
    draw(sys.argv[1])
