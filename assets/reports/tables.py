"""Markdown tables of scores."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from db.scores import ScoredSample

EXCERPT = 90


def sample_table(samples: Sequence[ScoredSample], metric: str) -> str:
    """Samples with their score as a markdown table."""
    rows = [[row.key, row.system, f"{row.value:.4f}", excerpt(row.text)] for row in samples]
    return markdown_table(["sample", "system", metric, "text"], rows)


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A markdown table; cells are escaped, so that a caption cannot break out of its cell.

    >>> markdown_table(["a"], [["1|2"]])
    '| a |\\n|---|\\n| 1\\\\|2 |'
    """
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(_escape(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def excerpt(text: str, width: int = EXCERPT) -> str:
    """The beginning of a text on one line."""
    line = " ".join(text.split())
    return line if len(line) <= width else line[: width - 1] + "…"


def _escape(cell: str) -> str:
    plain = " ".join(cell.split()).replace("\\", "\\\\").replace("|", "\\|")
    return plain.replace("<", "&lt;").replace(">", "&gt;")
