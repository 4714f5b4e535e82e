"""Rows and tables: one figure of a paper beside ours, and what a reader has to know of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Row:
    """One cell of a table. A figure that does not exist is None.

    table: the table's name. row, column: where the figure stands. published: the paper's figure, or one computed from
    its published values of every item, as source says. ours: our figure; low, high: its 95 % interval. n: the items
    behind it. note: the one thing to know before comparing.
    """

    table: str
    row: str
    column: str
    published: float | None = None
    ours: float | None = None
    low: float | None = None
    high: float | None = None
    n: int | None = None
    note: str = ""
    source: str = ""


@dataclass(frozen=True)
class Table:
    """A table as the page shows it.

    summary: sentences before the table, the most unfavourable first. models: what made our figures, by role. digits:
    decimals in the page. remarks: sentences after the table. baseline: the row of the strongest simple baseline.
    """

    name: str
    title: str
    summary: Sequence[str]
    models: Mapping[str, str]
    rows: Sequence[Row]
    digits: int = 3
    remarks: Sequence[str] = ()
    baseline: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Plain data, which `table_of` reads back."""
        return asdict(self)


def table_of(content: Mapping[str, Any]) -> Table:
    """A table from the plain data of `Table.as_dict`."""
    return Table(**{**content, "rows": [Row(**row) for row in content["rows"]]})


def strongest(values: Mapping[str, float | None]) -> str:
    """The name of the greatest value. Raises ValueError without one.

    >>> strongest({"length": 0.2, "words in common": 0.5, "cosine": None})
    'words in common'
    """
    known = {name: value for name, value in values.items() if value is not None}
    return max(known, key=known.__getitem__)


def against(what: str, ours: float | None, baseline: str, value: float | None, digits: int = 3) -> str:
    """A sentence that says whether a metric is above the strongest simple baseline.

    >>> against("ECS", 0.461, "content words in the whole text", 0.562)
    'ECS (.461) is below the strongest simple baseline, content words in the whole text (.562).'
    """
    if ours is None or value is None:
        return f"{what} has no figure to compare with the strongest simple baseline, {baseline}."
    relation = "above" if ours > value else "below" if ours < value else "level with"
    figures = number(ours, digits), number(value, digits)
    return f"{what} ({figures[0]}) is {relation} the strongest simple baseline, {baseline} ({figures[1]})."


def number(value: float, digits: int) -> str:
    """A number with so many decimals, without the zero before the point; from 1,000 on without decimals.

    >>> number(0.5, 3), number(-0.25, 2), number(26.13, 1), number(-0.0001, 3), number(16025, 3)
    ('.500', '-.25', '26.1', '.000', '16,025')
    """
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    text = f"{value:.{digits}f}"
    sign, digits_only = ("-", text[1:]) if text.startswith("-") else ("", text)
    if float(digits_only) == 0:
        sign = ""
    return sign + (digits_only[1:] if digits_only.startswith("0.") else digits_only)
