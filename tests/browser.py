"""A headless Chromium of this machine, for tests that look at pages."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

EXECUTABLES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def executable() -> str:
    """The path of a Chromium; without one the test is skipped."""
    found = next(filter(None, map(shutil.which, EXECUTABLES)), None)
    if found is None:
        pytest.skip(f"no Chromium found: install one of {', '.join(EXECUTABLES)}")
    return found


@contextmanager
def chromium() -> Iterator[Browser]:
    """A running Chromium; without one the test is skipped."""
    path = executable()
    sync_api = pytest.importorskip("playwright.sync_api", reason="the extra `dev` is not installed")
    with sync_api.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=path, args=FLAGS)
        yield opened
        opened.close()


def barriers(page: Page) -> list[str]:
    """What axe-core finds on a page that keeps people out who use a keyboard, a screen reader or weak eyes."""
    from axe_playwright_python.base import AXE_SCRIPT

    page.evaluate(AXE_SCRIPT)
    found = page.evaluate("axe.run({resultTypes: ['violations']})")["violations"]
    grave = [each for each in found if each["impact"] in ("serious", "critical")]
    return [f"{each['id']}: {node['html'][:120]}" for each in grave for node in each["nodes"]]
