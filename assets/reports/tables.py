"""Markdown tables of scores."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from db.scores.store import ScoredSample

EXCERPT_LENGTH = 90
# The characters that markdown reads as markup inside a line: CommonMark, GitHub's tables, addresses and strikethrough,
# and the usual extensions (mathematics, marks, footnotes). The point of "www." is one.
_MARKUP = re.compile(r"[\\`*_~\[\]<>&|:@#$^={}]|(?<=www)\.", re.IGNORECASE)
# A backslash does not help here: tables are cut into cells, and HTML is recognised, before backslashes are read.
_ENTITIES = {"|": "&#124;", "<": "&lt;", ">": "&gt;", "&": "&amp;"}


def format_sample_table(samples: Sequence[ScoredSample], metric: str) -> str:
    """Show samples with their scores as a markdown table."""
    rows = [[row.key, row.system, f"{row.value:.4f}", shorten_text(row.text)] for row in samples]
    return format_markdown_table(["sample", "system", metric, "text"], rows)


def format_markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Make a markdown table. Header and cells are shown as they are: nothing in a caption acts as markup.

    >>> print(format_markdown_table(["a"], [["1|2 *3*"]]))
    | a |
    |---|
    | 1&#124;2 \\*3\\* |
    """
    lines = [_format_row(header), "|" + "---|" * len(header), *(_format_row(cells) for cells in rows)]
    return "\n".join(lines)


def escape_markdown(text: str) -> str:
    """Put the text on one line and escape it, so that markdown shows the text itself."""
    line = " ".join(text.split())
    return _MARKUP.sub(lambda match: _ENTITIES.get(match[0], f"\\{match[0]}"), line)


def shorten_text(text: str, width: int = EXCERPT_LENGTH) -> str:
    """Return the beginning of a text, on one line and at most `width` characters long."""
    line = " ".join(text.split())
    return line if len(line) <= width else line[: width - 1] + "…"


def _format_row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(map(escape_markdown, cells)) + " |"
