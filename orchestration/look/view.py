"""What somebody looks at, as the address of a page says it: so that an address can be kept and sent."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from starlette.datastructures import QueryParams

from assets.ingest.hygiene import is_storable
from assets.reports.text import format_number
from db.manifest.datasets import Dataset
from db.reports.histograms import Histogram
from db.reports.pages import NO_PLACE, PageEnd
from db.reports.sample_query import SampleQuery
from db.selection.conditions import FilterError
from db.selection.filters import list_column_names


@dataclass(frozen=True, slots=True)
class PageView:
    """The state of a page.

    where: a condition of the filter language. only: further ones, each by a brush on one column. sort: a column, ""
    for the order of ingest. show: the columns that cards and histograms have. after: where the page begins.
    """

    where: str = ""
    only: tuple[str, ...] = ()
    sort: str = ""
    descending: bool = True
    show: tuple[str, ...] = ()
    after: str = ""

    @classmethod
    def parse(cls, said: QueryParams, metrics: Sequence[str]) -> PageView:
        """The view of an address. Without columns it shows the metrics; without an order, the best by the first."""
        show = said.getlist("show") if "show" in said else metrics
        return cls(
            where=said.get("where", "").strip(),
            only=tuple(filter(None, said.getlist("only"))),
            sort=said.get("sort", next(iter(metrics), "")),
            descending=said.get("order") != "asc",
            show=tuple(dict.fromkeys(filter(None, show))),
            after=said.get("after", ""),
        )

    def format_query(self, **changes: Any) -> str:
        """The part of the address behind the path, after changes; a change of what is seen begins at the first page."""
        said = replace(self, **{"after": "", **changes})
        # One empty name says that no column is shown, where nothing would stand for all metrics.
        pairs = [("where", said.where)] if said.where else []
        pairs += [("only", text) for text in said.only]
        pairs += [("sort", said.sort), ("order", "desc" if said.descending else "asc")]
        pairs += [("show", name) for name in said.show or ("",)]
        pairs += [("after", said.after)] if said.after else []
        return f"?{urlencode(pairs)}"

    def list_other_conditions(self, column: str) -> tuple[str, ...]:
        """The conditions of brushes on other columns."""
        return tuple(text for text in self.only if list_column_names(text) != {column.lower()})

    def format_query_without(self, condition: str) -> str:
        """The query without this brush."""
        return self.format_query(only=tuple(text for text in self.only if text != condition))

    def format_query_with_condition(self, column: str, condition: str) -> str:
        """The query with this condition on the column in place of what was brushed there."""
        return self.format_query(only=(*self.list_other_conditions(column), condition))

    def build_sight(self, dataset: Dataset) -> SampleQuery:
        """What the database is asked."""
        conditions = tuple(filter(None, (self.where, *self.only)))
        return SampleQuery(dataset, conditions, self.sort or None, self.descending, self.show)

    def parse_place(self) -> PageEnd | None:
        """Where the page begins. Raises FilterError where the address says nothing that can be such a place."""
        if not self.after:
            return None
        try:
            value, sample_id = json.loads(self.after)
        except (ValueError, TypeError, RecursionError) as error:
            raise FilterError(NO_PLACE) from error
        is_plain = (
            value is None or isinstance(value, bool | int | float) or (isinstance(value, str) and is_storable(value))
        )
        if not is_plain or type(sample_id) is not int or not 0 <= sample_id < 2**63:
            raise FilterError(NO_PLACE)
        return PageEnd(value, sample_id)

    @property
    def condition(self) -> str:
        """All conditions as one."""
        parts = list(filter(None, (self.where, *self.only)))
        return parts[0] if len(parts) == 1 else " and ".join(f"({part})" for part in parts)


def format_place(place: PageEnd) -> str:
    """A place as an address has it."""
    return json.dumps([place.value, place.sample_id])


def quote_column(column: str) -> str:
    """The name of a column as a condition has it.

    >>> quote_column("vcs"), quote_column("extra_my year")
    ('vcs', '"extra_my year"')
    """
    return column if column.isidentifier() and column.isascii() else '"{}"'.format(column.replace('"', '""'))


def format_equality(column: str, value: str | bool | None) -> str:
    """The condition that a column has this value.

    >>> format_equality("system", "o'brien"), equals("has_sound", True), equals("language", None)
    ("system = 'o''brien'", 'has_sound = true', 'language is null')
    """
    if value is None:
        return f"{quote_column(column)} is null"
    written = str(value).lower() if isinstance(value, bool) else "'{}'".format(value.replace("'", "''"))
    return f"{quote_column(column)} = {written}"


@dataclass(frozen=True, slots=True)
class HistogramBar:
    """A bar of a histogram in a drawing of 240 times 60: its place, and the heights of all and of what is kept."""

    x: float
    width: float
    all: float
    kept: float
    low: str
    high: str
    tooltip: str


def build_histogram_bars(found: Histogram) -> list[HistogramBar]:
    """The bars of a histogram. The least of them can be seen."""
    width, most = 240 / max(1, len(found.counts)), max(found.counts, default=1)
    drawn = []
    for place, (n, kept) in enumerate(zip(found.counts, found.kept, strict=True)):
        low, high = (f"{(found.first + place + i) * found.step:.10g}" for i in (0, 1))
        told = f"{low} to {high}: {n:,} samples" + (f", {kept:,} of them kept" if kept != n else "")
        of_all, of_kept = (math.ceil(60 * count / most) for count in (n, kept))
        drawn.append(HistogramBar(round(place * width, 2), round(width - 1, 2), of_all, of_kept, low, high, told))
    return drawn


@dataclass(frozen=True, slots=True)
class SentenceLink:
    """A line from a sentence of the caption to the one of the reference that it meets; whether the order breaks there.

    Both are counted from 1.
    """

    caption: int
    reference: int
    is_broken: bool
    tooltip: str


def build_sentence_links(rows: Sequence[Any]) -> list[SentenceLink]:
    """The lines of an explanation whose rows join two texts, as that of VCS; none of others."""
    if not rows or "meets in the reference" not in rows[0]:
        return []
    found = []
    for row in rows:
        of_caption, met = (int(row[name].partition(" ")[0]) for name in ("caption", "meets in the reference"))
        broken = f", {row['order']}" if row["order"] else ""
        told = f"{of_caption} meets {met}, similarity {format_number(row['similarity'])}{broken}"
        found.append(SentenceLink(of_caption, met, bool(broken), told))
    return found
