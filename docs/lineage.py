"""Draws docs/lineage.png: the lineage page of a running `reelsieve ui`, every group open, through headless Chromium.

Run it beside `reelsieve ui`, after `reelsieve demo`:  .venv/bin/python docs/lineage.py [http://127.0.0.1:3000]
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

PICTURE = Path(__file__).with_name("lineage.png")
EXECUTABLES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-component-update", "--disable-sync"]
# The page's own preferences: top to bottom is the more compact layout, and the navigation shows icons only.
PREFERENCES = """
localStorage.setItem("asset-graph-direction", '"vertical"');
localStorage.setItem("dagster-nav-collapsed", "true");
"""


def draw(address: str) -> None:
    """Write the picture."""
    executable = next(filter(None, map(shutil.which, EXECUTABLES)), None)
    if executable is None:
        sys.exit(f"no Chromium found: install one of {', '.join(EXECUTABLES)}")
    with sync_playwright() as playwright, playwright.chromium.launch(executable_path=executable, args=FLAGS) as browser:
        page = browser.new_page(viewport={"width": 1900, "height": 860})
        page.add_init_script(PREFERENCES)
        page.goto(f"{address}/asset-groups")
        _shown(page, "ingest")
        page.keyboard.press("Alt+KeyE")
        _shown(page, "vcs_score")
        # The page remembers which groups are open; only when it loads does it fit the graph to the window.
        page.reload()
        _shown(page, "vcs_score")
        page.wait_for_load_state("networkidle")
        page.get_by_role("img", name="panel_show_right").click()
        page.set_viewport_size({"width": 1680, "height": 720})
        page.wait_for_timeout(2000)
        page.screenshot(path=PICTURE)


def _shown(page: Page, name: str) -> None:
    """Wait until the graph shows a group or an asset of this name."""
    page.locator("svg").get_by_text(name, exact=True).first.wait_for()


if __name__ == "__main__":
    draw(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:3000")
