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
class Comparison:
    """A figure of ours against the strongest simple baseline on the same items.

    what: the figure. ours, value: both figures; None where there is none. baseline: the rule behind `value`.
    less_is_better: whether the smaller one is the better one, as of noise.
    """

    what: str
    ours: float | None
    baseline: str
    value: float | None
    less_is_better: bool = False

    def place(self) -> str:
        """Where ours stands: "below", "level with" or "above" the baseline; "without a figure" where one is missing."""
        if self.ours is None or self.value is None:
            return "without a figure"
        gap = self.ours - self.value
        return "level with" if not gap else "below" if (gap > 0) == self.less_is_better else "above"

    def figures(self, digits: int, rows: Sequence[Row]) -> str:
        """What is compared, with both figures that exist, and whether their intervals overlap."""
        ours, value = ("none" if each is None else number(each, digits) for each in (self.ours, self.value))
        return f"{self.what} ({ours}; {self.baseline} {value}{'; intervals overlap' * self.overlaps(rows)})"

    def overlaps(self, rows: Sequence[Row]) -> bool:
        """Whether the intervals of two different figures overlap, in a column of a table where both are."""
        return self.ours != self.value and any(
            one.low <= other.high and other.low <= one.high
            for one in rows
            for other in rows
            if one.column == other.column and one.row != other.row and (one.ours, other.ours) == (self.ours, self.value)
            if None not in (one.low, one.high, other.low, other.high)
        )


@dataclass(frozen=True)
class Table:
    """A table as the page shows it.

    comparisons: ours against the strongest simple baselines, which the page's first sentence is made of. summary: more
    sentences before the table. models: what made our figures, by role. digits: decimals in the page. remarks: sentences
    after the table. baseline: the row of the strongest simple baseline.
    """

    name: str
    title: str
    summary: Sequence[str]
    models: Mapping[str, str]
    rows: Sequence[Row]
    digits: int = 3
    remarks: Sequence[str] = ()
    baseline: str | None = None
    comparisons: Sequence[Comparison] = ()

    def as_dict(self) -> dict[str, Any]:
        """Plain data, which `table_of` reads back."""
        return asdict(self)


@dataclass(frozen=True)
class Made:
    """How a table was made: wall seconds without kept stages, the day, the commit, with "+" for changed files, and the
    machine's load average at the end, None where it was not noted.
    """

    seconds: float
    date: str
    commit: str
    load: float | None = None


def table_of(content: Mapping[str, Any]) -> Table:
    """A table from the plain data of `Table.as_dict`."""
    kinds: Mapping[str, Any] = {"rows": Row, "comparisons": Comparison}
    parts = {field: [kind(**each) for each in content[field]] for field, kind in kinds.items()}
    return Table(**{**content, **parts})


def standing(comparisons: Sequence[Comparison], digits: int, rows: Sequence[Row] = ()) -> str:
    """One sentence that begins with where our figures are below the strongest simple baseline. rows: with intervals.

    >>> standing([Comparison("ECS", 0.461, "length", 0.2), Comparison("VCS", 0.3, "cosine", 0.562)], 3)
    'Below the strongest simple baseline: VCS (.300; cosine .562); above it: ECS (.461; length .200).'
    """
    if not comparisons:
        return "Below or above a simple baseline: not asked here."
    parts = []
    for place, words in (
        ("below", "below the strongest simple baseline: "),
        ("level with", "level with it: "),
        ("without a figure", "without a figure: "),
        ("above", "above it: "),
    ):
        listed = [each.figures(digits, rows) for each in comparisons if each.place() == place]
        if listed or place == "below":
            parts.append(words + (", ".join(listed) or "nowhere"))
    sentence = "; ".join(parts)
    return f"{sentence[0].upper()}{sentence[1:]}."


def strongest(values: Mapping[str, float | None]) -> str:
    """The name of the greatest value. Raises ValueError without one.

    >>> strongest({"length": 0.2, "words in common": 0.5, "cosine": None})
    'words in common'
    """
    known = {name: value for name, value in values.items() if value is not None}
    return max(known, key=known.__getitem__)


def number(value: float, digits: int) -> str:
    """A number with so many decimals, without the zero before the point; whole, and from 1,000 on, without decimals.

    >>> number(0.5, 3), number(-0.25, 2), number(26.13, 1), number(-0.0001, 3), number(16025.4, 3), number(106, 3)
    ('.500', '-.25', '26.1', '.000', '16,025', '106')
    """
    if abs(value) >= 1000 or isinstance(value, int):
        return f"{value:,.0f}"
    text = f"{value:.{digits}f}"
    sign, digits_only = ("-", text[1:]) if text.startswith("-") else ("", text)
    if float(digits_only) == 0:
        sign = ""
    return sign + (digits_only[1:] if digits_only.startswith("0.") else digits_only)
