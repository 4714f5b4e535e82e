"""Tags, notes and saved views in a browser, wide and narrow, by mouse and by keys, and what programs are answered."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

import pytest
import sqlalchemy as sa

from db.schema import remark, sample, saved_view
from tests.browser import barriers
from tests.orchestration.looking import (
    HOSTILE,
    TOO_WIDE,
    UNNAMED,
    Shown,
    frozen_keys,
    in_both_windows,
    page,
    shown,
    tab,
)

if TYPE_CHECKING:
    from playwright.sync_api import Page

__all__ = ["page", "shown", "tab"]  # fixtures

pytestmark = pytest.mark.browser


@pytest.fixture(autouse=True)
def nothing_written(shown: Shown) -> Iterator[None]:
    """What a test wrote is gone before the next one."""
    yield
    with shown.engine.begin() as connection:
        connection.execute(sa.delete(remark))
        connection.execute(sa.delete(saved_view))


def stored(shown: Shown) -> list[tuple[str, str, str]]:
    """Key of the sample, text and author of each tag and note."""
    query = sa.select(sample.c.key, remark.c.text, remark.c.made_by).join(sample).order_by(sample.c.key, remark.c.text)
    with shown.engine.connect() as connection:
        return [(row[0], row[1], row[2]) for row in connection.execute(query)]


def change(shown: Shown, path: str, **values: object) -> tuple[int, dict[str, str]]:
    answer = shown.ask(f"/look/clips/{path}?{urlencode(values, doseq=True)}", "POST", {})
    return answer.status, json.loads(answer.read())


def keys(page: Page) -> list[str]:
    return page.locator(".card .open").all_inner_texts()


def message(page: Page, text: str) -> None:
    page.locator("#message").get_by_text(text).wait_for()


@in_both_windows
def test_cards_are_chosen_by_mouse_and_tagged_untagged_and_frozen(page: Page, shown: Shown) -> None:
    page.goto("/look/clips")
    shown_keys = keys(page)
    boxes = page.locator(".choose")
    assert not page.locator("#bar").is_visible()
    boxes.nth(0).click()
    boxes.nth(3).click(modifiers=["Shift"])
    boxes.nth(1).click()
    page.get_by_text("3 chosen").wait_for()
    chosen = sorted([shown_keys[0], *shown_keys[2:4]])
    assert page.evaluate(TOO_WIDE) == page.evaluate(UNNAMED) == barriers(page) == []
    page.get_by_label("Tag", exact=True).fill("To Check")
    page.get_by_label("Your name").fill("ann")
    page.get_by_role("button", name="Tag", exact=True).click()
    message(page, "3 samples got the tag 'to check'")
    assert stored(shown) == [(key, "to check", "ann") for key in chosen]
    page.locator(".card .tag").nth(2).wait_for()
    assert page.locator(".card .tag").count() == page.locator(".choose:checked").count() == 3
    page.get_by_role("button", name="Undo").click()
    message(page, "3 samples lost the tag 'to check'")
    assert stored(shown) == []
    page.get_by_role("button", name="Tag", exact=True).click()
    message(page, "3 samples got the tag")
    page.get_by_role("button", name="Freeze", exact=True).click()
    page.get_by_role("button", name="Freeze 3 samples").click()
    message(page, "reelsieve export")
    assert sorted(frozen_keys(shown.engine, int(page.locator("#message").inner_text().split()[1]))) == chosen

    page.goto('/look/clips?where="tag_to+check"')
    assert sorted(keys(page)) == chosen
    assert page.get_by_label("Your name").input_value() == "ann"
    before = stored(shown)
    for box in boxes.all():
        box.click()
    page.get_by_label("Tag", exact=True).fill("to check")
    page.get_by_role("button", name="Untag").click()
    # The tag is unknown now, and so the view has no page: the old one stays, with the way back.
    message(page, "3 samples lost the tag")
    assert stored(shown) == []
    page.get_by_role("button", name="Undo").click()
    message(page, "3 samples got the tag")
    assert stored(shown) == before


def test_keys_do_the_same(page: Page, shown: Shown) -> None:
    page.goto("/look/clips")
    shown_keys = keys(page)
    for key in ("j", "x", "j", "j", "Shift+X"):
        page.keyboard.press(key)
    page.get_by_text("3 chosen").wait_for()
    place = page.evaluate("scrollY")
    page.keyboard.press("t")
    assert page.evaluate("[scrollY, document.activeElement.name]") == [place, "text"]
    page.keyboard.type("good")
    page.keyboard.press("Tab")
    page.keyboard.type("bob")
    page.keyboard.press("Enter")
    message(page, "3 samples got the tag 'good'")
    assert stored(shown) == [(key, "good", "bob") for key in sorted(shown_keys[:3])]
    page.locator(".card .tag").nth(2).wait_for()
    page.keyboard.press("Escape")
    page.keyboard.press("u")
    message(page, "3 samples lost the tag 'good'")
    page.locator(".card .tag").first.wait_for(state="detached")
    assert stored(shown) == []
    page.keyboard.press("j")
    page.keyboard.press("x")
    page.get_by_text("2 chosen").wait_for()
    page.keyboard.press("Escape")
    assert page.locator(".choose:checked").count() == 0
    assert not page.locator("#bar").is_visible()


def test_a_note_is_written_on_the_page_of_a_sample_and_removed(page: Page, shown: Shown) -> None:
    page.goto(f"/look/clips/sample/{shown.ids[0]}")
    page.get_by_text("This sample has no tag and no note.").wait_for()
    page.get_by_label("Text", exact=True).fill(HOSTILE)
    page.get_by_label("Your name").fill("ann")
    page.get_by_role("button", name="Add").click()
    message(page, "1 sample got the note")
    page.locator(".note").get_by_text(HOSTILE).wait_for()
    assert [row[1:] for row in stored(shown)] == [(HOSTILE, "ann")]
    assert page.evaluate(TOO_WIDE) == page.evaluate(UNNAMED) == barriers(page) == []
    before = stored(shown)
    page.get_by_role("button", name="Remove note").click()
    message(page, "1 sample lost the note")
    assert stored(shown) == []
    page.locator("#undo:focus").wait_for()
    page.keyboard.press("Enter")
    message(page, "1 sample got the note")
    assert stored(shown) == before


def test_a_view_is_saved_opened_and_removed(page: Page, shown: Shown) -> None:
    page.goto("/look/clips?where=vcs+>+0.5&sort=evqa&order=asc")
    expected = keys(page)
    page.get_by_text("Save this view").click()
    page.get_by_label("Name of the view").fill("best <b>")
    page.get_by_role("button", name="Save").click()
    message(page, "view 'best <b>' is saved")
    assert barriers(page) == []
    page.goto("/look/clips")
    page.get_by_role("link", name="best <b>").click()
    page.get_by_label("Where").and_(page.locator("[value='vcs > 0.5']")).wait_for()
    assert keys(page) == expected
    page.get_by_role("button", name="Remove the view best <b>").click()
    message(page, "view 'best <b>' is removed")
    assert page.get_by_role("link", name="best <b>").count() == 0
    page.get_by_role("button", name="Undo").click()
    page.get_by_role("link", name="best <b>").wait_for()


# What programs are answered.


def test_a_second_tag_or_view_of_one_name_changes_nothing(shown: Shown) -> None:
    first, second = shown.ids[:2]
    assert change(shown, "remarks", kind="tag", text="Good", by="ann", sample=first)[0] == 200
    status, answer = change(shown, "remarks", kind="tag", text="good", by="bob", sample=[first, second])
    assert (status, answer["message"]) == (
        200,
        "1 sample got the tag 'good'; the others had it already or were dropped",
    )
    assert sorted(row[2] for row in stored(shown)) == ["ann", "bob"]
    status, answer = change(shown, "remarks", kind="tag", text="good", by="bob", sample=[first, second])
    assert (status, answer["message"]) == (
        409,
        "no sample got the tag 'good': all chosen ones have it already, or were dropped",
    )
    assert change(shown, "remarks/remove", kind="tag", text="bad", sample=first)[0] == 409
    assert change(shown, "views", name="v", where="vcs > 0")[0] == 200
    status, answer = change(shown, "views", name="v", where="vcs > 1")
    assert (status, answer["message"]) == (
        409,
        "there is a view 'v' already: choose another name, or remove that one first",
    )
    assert change(shown, "views/remove", name="w") == (409, {"message": "there is no view 'w'"})


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"sample": []}, "no sample is chosen"),
        ({"sample": "x"}, "'x' in the address is not a whole number"),
        ({"kind": "mood"}, "neither a tag nor a note"),
        ({"text": " \u200b "}, "the tag is empty: write one"),
        ({"text": "x" * 61}, "the tag has 61 characters: write at most 60"),
        ({"kind": "note", "text": "x" * 601}, "the note has 601 characters: write at most 600"),
        ({"text": "bell \x07"}, "field 'tag' contains the control character U+0007: remove it"),
        ({"text": "\0"}, "the tag is empty: write one"),
        ({"by": ""}, "the name is empty: write one"),
        ({"by": ["a", "b", "c"]}, "more or fewer names than samples"),
    ],
)
def test_a_mistake_is_explained_in_one_sentence(shown: Shown, values: dict[str, object], sentence: str) -> None:
    good = {"kind": "tag", "text": "good", "by": "ann", "sample": shown.ids[0]}
    status, answer = change(shown, "remarks", **{**good, **values})
    assert (status, sentence in answer["message"]) == (400, True), answer
    assert stored(shown) == []


def test_the_longest_texts_are_stored(shown: Shown) -> None:
    """Postgres limits the bytes of a key."""
    note = "\U0001f600" * 600
    assert change(shown, "remarks", kind="note", text=note, by="\U0001f600" * 200, sample=shown.ids[0])[0] == 200
    assert [row[1] for row in stored(shown)] == [note]


def test_only_our_own_pages_may_write(shown: Shown) -> None:
    path = f"/look/clips/remarks?kind=tag&text=good&by=ann&sample={shown.ids[0]}"
    assert shown.ask(path, "POST").status == 415
    assert shown.ask(path, "POST", {}, Origin="http://evil.example").status == 403
    assert shown.ask(path.replace("clips", quote("no such")), "POST", {}).status == 404
    assert stored(shown) == []
