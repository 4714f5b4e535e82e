"""Markdown tables of scores."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from db.scores import ScoredSample

EXCERPT = 90
# What CommonMark, GitHub's tables, addresses and strikethrough, and the usual extensions (mathematics, marks,
# footnotes) read as markup inside a line, the point of "www." included.
_MARKUP = re.compile(r"[\\`*_~\[\]<>&|:@#$^={}]|(?<=www)\.", re.IGNORECASE)
# Where a backslash is not enough: a table is cut into cells, and HTML looked for, before it is read.
_ENTITIES = {"|": "&#124;", "<": "&lt;", ">": "&gt;", "&": "&amp;"}


def sample_table(samples: Sequence[ScoredSample], metric: str) -> str:
    """Samples with their score as a markdown table."""
    rows = [[row.key, row.system, f"{row.value:.4f}", excerpt(row.text)] for row in samples]
    return markdown_table(["sample", "system", metric, "text"], rows)


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A markdown table whose header and cells say what they are given: nothing in a caption is markup.

    >>> print(markdown_table(["a"], [["1|2 *3*"]]))
    | a |
    |---|
    | 1&#124;2 \\*3\\* |
    """
    lines = [_row(header), "|" + "---|" * len(header), *(_row(cells) for cells in rows)]
    return "\n".join(lines)


def escaped(text: str) -> str:
    """The text on one line, as markdown that is shown as this text."""
    line = " ".join(text.split())
    return _MARKUP.sub(lambda found: _ENTITIES.get(found[0], f"\\{found[0]}"), line)


def excerpt(text: str, width: int = EXCERPT) -> str:
    """The beginning of a text on one line."""
    line = " ".join(text.split())
    return line if len(line) <= width else line[: width - 1] + "…"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(map(escaped, cells)) + " |"
