"""Links of the documentation lead to a page, and to a heading where they name one; pages that code names exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import PROJECT

PAGES = [*PROJECT.glob("*.md"), *(PROJECT / "docs").rglob("*.md")]
ROOMS = ("assets", "db", "demo", "metrics_core", "orchestration", "reelsieve")


def read_prose(page: Path) -> str:
    """The text of a page without its blocks of code."""
    return re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def list_anchors(page: Path) -> set[str]:
    """The names by which GitHub links to the headings of a page, without those of repeated headings."""
    headings = re.findall(r"^#+ (.+)$", read_prose(page), flags=re.MULTILINE)
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower() for heading in headings]
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(PROJECT).as_posix())
def test_every_link_leads_somewhere(page: Path) -> None:
    broken = []
    for link in re.findall(r"\]\((?!https?:)([^)\s]+)\)", read_prose(page)):
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        if not target.exists() or (anchor and anchor not in list_anchors(target)):
            broken.append(link)
    assert broken == []


def test_every_page_that_code_names_exists() -> None:
    named = {
        name
        for room in ROOMS
        for path in (PROJECT / room).rglob("*.py")
        for name in re.findall(r"\bdocs/[\w/-]+\.md\b", path.read_text(encoding="utf-8"))
    }
    assert "docs/first-dataset.md" in named
    assert [name for name in named if not (PROJECT / name).exists()] == []
