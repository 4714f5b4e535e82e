"""A headless Chromium of this machine, for tests that look at pages."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Error, Page, Request

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


@contextmanager
def only_page(**options: Any) -> Iterator[Page]:
    """A page of a Chromium of its own, in a context with these options; the tests of a module use it one after the
    other, since a further context costs most of a second.
    """
    with chromium() as browser:
        yield browser.new_context(**options).new_page()


@contextmanager
def lent(page: Page, width: int, height: int) -> Iterator[tuple[list[str], list[str]]]:
    """The page for one test, in a window of this size: what it asks for, and the errors of its scripts. Afterwards it
    is empty and has forgotten all, and further pages are closed.
    """
    asked: list[str] = []
    errors: list[str] = []

    def note_request(request: Request) -> None:
        asked.append(request.url)

    def note_error(error: Error) -> None:
        errors.append(str(error))

    page.set_viewport_size({"width": width, "height": height})
    page.on("request", note_request)
    page.on("pageerror", note_error)
    try:
        yield asked, errors
    finally:
        page.remove_listener("request", note_request)
        page.remove_listener("pageerror", note_error)
        for other in page.context.pages:
            if other != page:
                other.close()
        if page.url.startswith("http"):
            page.evaluate("localStorage.clear(); sessionStorage.clear()")
        page.goto("about:blank")
        page.mouse.move(0, 0)
        page.context.clear_cookies()


def barriers(page: Page) -> list[str]:
    """What axe-core finds on a page that keeps people out who use a keyboard, a screen reader or weak eyes."""
    from axe_playwright_python.base import AXE_SCRIPT

    page.evaluate(AXE_SCRIPT)
    found = page.evaluate("axe.run({resultTypes: ['violations']})")["violations"]
    grave = [each for each in found if each["impact"] in ("serious", "critical")]
    return [f"{each['id']}: {node['html'][:120]}" for each in grave for node in each["nodes"]]
