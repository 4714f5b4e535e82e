"""Markdown tables in which text of a dataset cannot act as markup."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

EXCERPT_LENGTH = 90
# The characters that markdown reads as markup inside a line: CommonMark, GitHub's tables, addresses and strikethrough,
# and the usual extensions (mathematics, marks, footnotes). The dot of "www." is one, too.
_MARKUP = re.compile(r"[\\`*_~\[\]<>&|:@#$^={}]|(?<=www)\.", re.IGNORECASE)
# A backslash does not help here: tables are cut into cells, and HTML is recognised, before backslashes are read.
_ENTITIES = {"|": "&#124;", "<": "&lt;", ">": "&gt;", "&": "&amp;"}


def format_markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a markdown table as text. Header and cells are escaped, so that markup in them is shown and not applied.

    >>> print(format_markdown_table(["a"], [["1|2 *3*"]]))
    | a |
    |---|
    | 1&#124;2 \\*3\\* |
    """
    lines = [_format_row(header), "|" + "---|" * len(header), *(_format_row(cells) for cells in rows)]
    return "\n".join(lines)


def escape_markdown(text: str) -> str:
    """Return a text on one line, escaped so that markdown shows it as it is. Runs of white space become one space."""
    line = " ".join(text.split())
    return _MARKUP.sub(lambda match: _ENTITIES.get(match[0], f"\\{match[0]}"), line)


def shorten_text(text: str, width: int = EXCERPT_LENGTH) -> str:
    """Return a text on one line, cut to at most `width` characters; the last one is an ellipsis if something is
    missing. Runs of white space become one space.
    """
    line = " ".join(text.split())
    return line if len(line) <= width else line[: width - 1] + "…"


def _format_row(cells: Sequence[str]) -> str:
    """Return cells as one row of a markdown table."""
    return "| " + " | ".join(map(escape_markdown, cells)) + " |"
