"""The state of a look page, as its address holds it, so that an address can be kept and sent."""

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
    """The state of a look page: conditions, order, shown columns, and the row after which the page begins.

    where: a condition of the filter language. only: further conditions, set on histograms. sort: a column, "" for the
    order of ingest. show: the columns of cards and histograms. after: the place after which the page begins.
    """

    where: str = ""
    only: tuple[str, ...] = ()
    sort: str = ""
    descending: bool = True
    show: tuple[str, ...] = ()
    after: str = ""

    @classmethod
    def parse(cls, parameters: QueryParams, metrics: Sequence[str]) -> PageView:
        """Return the view that the parameters of an address describe. Without columns it shows the metrics; without an
        order, the first metric's best come first.
        """
        show = parameters.getlist("show") if "show" in parameters else metrics
        return cls(
            where=parameters.get("where", "").strip(),
            only=tuple(filter(None, parameters.getlist("only"))),
            sort=parameters.get("sort", next(iter(metrics), "")),
            descending=parameters.get("order") != "asc",
            show=tuple(dict.fromkeys(filter(None, show))),
            after=parameters.get("after", ""),
        )

    def format_query(self, **changes: Any) -> str:
        """Return the query string of this view after changes, `?` included. A changed view begins at its first page."""
        changed = replace(self, **{"after": "", **changes})
        # One empty name means that no column is shown; without any name all metrics are.
        pairs = [("where", changed.where)] if changed.where else []
        pairs += [("only", text) for text in changed.only]
        pairs += [("sort", changed.sort), ("order", "desc" if changed.descending else "asc")]
        pairs += [("show", name) for name in changed.show or ("",)]
        pairs += [("after", changed.after)] if changed.after else []
        return f"?{urlencode(pairs)}"

    def list_other_conditions(self, column: str) -> tuple[str, ...]:
        """Return the conditions that were set by a click on a histogram, except those on this column."""
        return tuple(text for text in self.only if list_column_names(text) != {column.lower()})

    def format_query_without(self, condition: str) -> str:
        """Return the query string of this view without one condition that was set on a histogram."""
        return self.format_query(only=tuple(text for text in self.only if text != condition))

    def format_query_with_condition(self, column: str, condition: str) -> str:
        """Return the query string of this view with this condition on the column, in place of an earlier one from its
        histogram.
        """
        return self.format_query(only=(*self.list_other_conditions(column), condition))

    def build_sample_query(self, dataset: Dataset) -> SampleQuery:
        """Return the query of this view for the database: dataset, all conditions, order and shown columns."""
        conditions = tuple(filter(None, (self.where, *self.only)))
        return SampleQuery(dataset, conditions, self.sort or None, self.descending, self.show)

    def parse_place(self) -> PageEnd | None:
        """Return the value and sample id after which the page begins; None for the first page. Raises FilterError for a
        text that is no such place.
        """
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
        """All conditions joined with "and", in the language of filters; an empty text without any."""
        parts = list(filter(None, (self.where, *self.only)))
        return parts[0] if len(parts) == 1 else " and ".join(f"({part})" for part in parts)


def format_place(place: PageEnd) -> str:
    """Return a place between two rows as JSON for an address: value and sample id."""
    return json.dumps([place.value, place.sample_id])


def quote_column(column: str) -> str:
    """Return the column's name as the language of filters writes it: in double quotes unless it is a plain identifier.

    >>> quote_column("vcs"), quote_column("extra_my year")
    ('vcs', '"extra_my year"')
    """
    return column if column.isidentifier() and column.isascii() else '"{}"'.format(column.replace('"', '""'))


def format_equality(column: str, value: str | bool | None) -> str:
    """Return a condition in the language of filters: the column equals this text or truth value, or is null for None.

    >>> format_equality("system", "o'brien"), format_equality("language", None)
    ("system = 'o''brien'", 'language is null')
    """
    if value is None:
        return f"{quote_column(column)} is null"
    written = str(value).lower() if isinstance(value, bool) else "'{}'".format(value.replace("'", "''"))
    return f"{quote_column(column)} = {written}"


@dataclass(frozen=True, slots=True)
class HistogramBar:
    """One bar of a histogram drawn in 240 by 60 units: its place, the heights of all and of kept samples, its limits as
    text, and its tooltip.
    """

    x: float
    width: float
    all: float
    kept: float
    low: str
    high: str
    tooltip: str


def build_histogram_bars(histogram: Histogram) -> list[HistogramBar]:
    """Return the bars of a histogram from left to right; a bar with any sample is at least 1 unit high. No counts give
    an empty list.
    """
    width, most = 240 / max(1, len(histogram.counts)), max(histogram.counts, default=1)
    bars = []
    for place, (n, kept) in enumerate(zip(histogram.counts, histogram.kept, strict=True)):
        low, high = (f"{(histogram.first + place + i) * histogram.step:.10g}" for i in (0, 1))
        tooltip = f"{low} to {high}: {n:,} samples" + (f", {kept:,} of them kept" if kept != n else "")
        height_all, height_kept = (math.ceil(60 * count / most) for count in (n, kept))
        bars.append(
            HistogramBar(round(place * width, 2), round(width - 1, 2), height_all, height_kept, low, high, tooltip)
        )
    return bars


@dataclass(frozen=True, slots=True)
class SentenceLink:
    """A line from a sentence of the caption to the sentence of the reference that it matches, and whether the order
    breaks there. Sentences count from 1.
    """

    caption: int
    reference: int
    is_broken: bool
    tooltip: str


def build_sentence_links(rows: Sequence[Any]) -> list[SentenceLink]:
    """Return the links between the sentences of two texts that the rows of a VCS explanation list; an empty list for
    other explanations.
    """
    if not rows or "meets in the reference" not in rows[0]:
        return []
    links = []
    for row in rows:
        in_caption, in_reference = (int(row[name].partition(" ")[0]) for name in ("caption", "meets in the reference"))
        broken = f", {row['order']}" if row["order"] else ""
        tooltip = f"{in_caption} meets {in_reference}, similarity {format_number(row['similarity'])}{broken}"
        links.append(SentenceLink(in_caption, in_reference, bool(broken), tooltip))
    return links
