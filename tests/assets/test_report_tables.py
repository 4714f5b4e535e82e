"""Markdown tables against a parser of Markdown: what it shows is the text, and nothing in the text is markup."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from assets.words.tables import escape_markdown, format_markdown_table

PARSER = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
HOSTILE = [
    "![pixel](https://x.org/seen.png)",
    "[free](javascript:alert(1))",
    "<img src=x onerror=alert(1)>",
    "<script>alert(1)</script>",
    "<https://x.org>",
    "[ref]: https://x.org",
    "[^1] footnote",
    "a | b || c \\| d \\\\| e",
    "ends with a backslash \\",
    "`code` ``two`` `",
    "**bold** __bold__ *i* _i_ ~~gone~~",
    "&lt;b&gt; &amp; &#42; &copy",
    "two\nlines\r\nand\ta tab",
    "|---|---|",
    "# title",
    "- item",
    "www.x.org https://x.org a@x.org",
    "$x^2$ ==mark== {{ jinja }}",
    "",
]


def cells(markdown: str) -> list[list[Token]]:
    """The inline tokens of every cell of the one table that the text must be."""
    tokens = PARSER.parse(markdown)
    assert [tokens[0].type, tokens[-1].type] == ["table_open", "table_close"]
    return [token.children or [] for token in tokens if token.type == "inline"]


def shown(tokens: list[Token]) -> str:
    assert {token.type for token in tokens} <= {"text", "text_special"}, tokens
    return "".join(token.content for token in tokens)


def assert_shown_as_it_is(text: str) -> None:
    expected = " ".join(text.split())
    found = [shown(tokens) for tokens in cells(format_markdown_table([text, "b"], [[text, text], ["last", text]]))]
    assert found == [expected, "b", expected, expected, "last", expected]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_caption_is_shown_as_it_is(text: str) -> None:
    assert_shown_as_it_is(text)


@given(
    st.one_of(
        st.text(st.sampled_from("\\`*_{}[]()<>#+-.!|~:@&;=$^\"'/ aw1\n"), max_size=30),
        st.lists(st.sampled_from([*HOSTILE, "\\", "|", " "]), max_size=4).map("".join),
        st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
    )
)
def test_any_text_is_shown_as_it_is(text: str) -> None:
    assert_shown_as_it_is(text)


@pytest.mark.parametrize("name", ["__init__", "a_b_c", "1.", "a-b"])
def test_the_name_of_a_dataset_is_no_markup_in_its_title(name: str) -> None:
    opening, inline, closing = PARSER.parse(f"# {escape_markdown(name)}")
    assert (opening.type, closing.type) == ("heading_open", "heading_close")
    assert shown(inline.children or []) == name


def test_plain_captions_stay_readable_in_the_file() -> None:
    text = "A man's dog (brown, 3 years) runs - fast! Isn't it 50% \"done\"?"
    assert escape_markdown(text) == text
