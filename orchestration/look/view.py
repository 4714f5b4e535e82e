"""The state of a look page, as its address holds it, so that an address can be kept and sent."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from sqlalchemy.engine import Connection
from starlette.datastructures import QueryParams
from starlette.requests import Request

from assets.ingest.hygiene import is_storable
from assets.sample_map import MapArea
from assets.words.text import format_number
from db.manifest.datasets import Dataset
from db.reports.histograms import Histogram
from db.reports.pages import NO_PLACE, PageEnd
from db.reports.sample_query import QueryContext, SampleQuery, list_telling_columns, prepare_query
from db.scores.sample_scores import FACT_COLUMNS, SIMPLE_SCORES
from db.selection.columns import RATING_PREFIX
from db.selection.conditions import FilterError
from db.selection.filters import list_column_names
from db.selection.recipes import SelectionError
from orchestration.look.state import get_state, require_asked_dataset

# Columns that cards show first of a dataset that no metric has scored.
_MOST_UNSCORED = 4
_NO_AREA = "the page's address names no valid area of a map (area=): choose it on the map again"


@dataclass(frozen=True, slots=True)
class PageView:
    """The state of a look page, as its address holds it; "" is the default of a text. where: a condition of the filter
    language. only: further ones, set on histograms. sort: a column, "" for the order of ingest. show: the columns of
    cards and histograms. after: the place after which the page begins, as `format_place` writes it.

    compared: the text that a sample's is compared with, "reference:NUMBER" or "system:NAME". area: of a map, as JSON
    text of a `MapArea`. is_from_video: whether a sample was opened from its video's page, to which Escape then leads
    back.
    """

    where: str = ""
    only: tuple[str, ...] = ()
    sort: str = ""
    descending: bool = True
    show: tuple[str, ...] = ()
    after: str = ""
    compared: str = ""
    is_from_video: bool = False
    area: str = ""

    @classmethod
    def parse(cls, parameters: QueryParams, columns: Sequence[str], sort: str) -> PageView:
        """Return the view that the parameters of an address describe. Without `show` it shows the given columns.
        Without `sort` it orders by the given one, and without `order` from high to low. Conditions are not checked.
        """
        show = parameters.getlist("show") if "show" in parameters else columns
        return cls(
            where=parameters.get("where", "").strip(),
            only=tuple(filter(None, parameters.getlist("only"))),
            sort=parameters.get("sort", sort),
            descending=parameters.get("order") != "asc",
            show=tuple(dict.fromkeys(filter(None, show))),
            after=parameters.get("after", ""),
            compared=parameters.get("compared", ""),
            is_from_video=parameters.get("from") == "video",
            area=parameters.get("area", ""),
        )

    def format_query(self, **changes: Any) -> str:
        """Return the query string of this view, beginning with `?`, after changes of fields by name. It begins at the
        first page and is not from a video's page, unless `after` and `is_from_video` are among the changes.
        """
        changed = replace(self, **{"after": "", "is_from_video": False, **changes})
        # One empty name means that no column is shown; without any name those that are shown first are.
        pairs = [("where", changed.where)] if changed.where else []
        pairs += [("only", text) for text in changed.only]
        pairs += [("sort", changed.sort), ("order", "desc" if changed.descending else "asc")]
        pairs += [("show", name) for name in changed.show or ("",)]
        pairs += [(name, text) for name in ("area", "after", "compared") if (text := getattr(changed, name))]
        pairs += [("from", "video")] * changed.is_from_video
        return f"?{urlencode(pairs)}"

    def list_other_conditions(self, column: str) -> tuple[str, ...]:
        """Return the conditions set on histograms (`only`), except those that name this column and no other."""
        return tuple(text for text in self.only if list_column_names(text) != {column.lower()})

    def format_query_without(self, condition: str) -> str:
        """Return the query string of this view without one condition that was set on a histogram; `condition` is its
        exact text.
        """
        return self.format_query(only=tuple(text for text in self.only if text != condition))

    def format_query_with_condition(self, column: str, condition: str) -> str:
        """Return the query string of this view with one more condition, set on the histogram of the column. It replaces
        earlier conditions on that column only.
        """
        return self.format_query(only=(*self.list_other_conditions(column), condition))

    def build_sample_query(self, dataset: Dataset, sample_ids: Sequence[int] | None = None) -> SampleQuery:
        """Return the query of this view for the database: dataset, all conditions, order and shown columns. Conditions
        are not checked. sample_ids: the samples in the view's area; None without an area.
        """
        conditions = tuple(filter(None, (self.where, *self.only)))
        return SampleQuery(dataset, conditions, self.sort or None, self.descending, self.show, sample_ids)

    def parse_place(self) -> PageEnd | None:
        """Return the place after which the page begins, a value of the ordering column and a sample id; None for the
        first page. Raises FilterError if `after` is no such place.
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

    def require_no_area(self) -> None:
        """Raise SelectionError if the view has an area of a map, which no condition can describe."""
        if self.area:
            raise SelectionError("an area of the map cannot be a condition: tag its samples there, and use the tag")

    @property
    def condition(self) -> str:
        """All conditions (`where` and `only`) joined with "and", in the language of filters; "" without any."""
        parts = list(filter(None, (self.where, *self.only)))
        return parts[0] if len(parts) == 1 else " and ".join(f"({part})" for part in parts)


@contextmanager
def open_view(request: Request) -> Iterator[tuple[PageView, QueryContext]]:
    """Yield the view that the address of a request describes, and the context of its SQL statements, in one
    transaction. Raises UnknownDataset, and FilterError for an invalid area.
    """
    # Looked up before: a request that held a connection and waited for a second one could wait for ever.
    dataset, area, state = require_asked_dataset(request), request.query_params.get("area"), get_state(request)
    sample_ids = state.maps.list_area(dataset, _parse_area(area)) if area else None
    with state.engine.connect() as connection, connection.begin():
        yield _load_view(connection, request.query_params, dataset, sample_ids)


def _load_view(
    connection: Connection, parameters: QueryParams, dataset: Dataset, sample_ids: Sequence[int] | None
) -> tuple[PageView, QueryContext]:
    bare = prepare_query(connection, PageView().build_sample_query(dataset))
    shown = [metric for metric in bare.metrics if metric not in SIMPLE_SCORES]
    scored = [metric for metric in shown if metric in bare.scorers and bare.scorers[metric].n_defined]
    columns = scored
    if not scored and "show" not in parameters:
        # Where nothing is scored, ratings, simple scores and facts are what the dataset has.
        told = {*SIMPLE_SCORES, *FACT_COLUMNS}
        telling = list_telling_columns(bare)
        columns = [name for name in telling if name in told or name.startswith(RATING_PREFIX)][:_MOST_UNSCORED]
    view = PageView.parse(parameters, columns, next(iter(scored), ""))
    query = view.build_sample_query(dataset, sample_ids)
    return view, QueryContext(connection, query, bare.metrics, bare.scorers)


def _parse_area(text: str) -> MapArea:
    """Return the area of a map that an address holds as JSON text. Raises FilterError if it is none."""
    try:
        vectors, stamp, *limits = json.loads(text)
        left, right, bottom, top = map(float, limits)
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise FilterError(_NO_AREA) from error
    if not (isinstance(vectors, str) and isinstance(stamp, str) and is_storable(vectors)):
        raise FilterError(_NO_AREA)
    return MapArea(vectors, stamp, left, right, bottom, top)


def format_place(place: PageEnd) -> str:
    """Return the place after a row as JSON text for an address: [value of the ordering column, sample id]."""
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
    """One bar of a histogram that is drawn 240 units wide and 60 high. x, width: where it is. all, kept: heights for
    all samples and for the kept ones, which meet all conditions. low, high: the bin's limits as text. tooltip: limits
    and numbers in words.
    """

    x: float
    width: float
    all: float
    kept: float
    low: str
    high: str
    tooltip: str


def build_histogram_bars(histogram: Histogram) -> list[HistogramBar]:
    """Return the bars of a histogram from left to right, one per bin; [] without bins. The largest bin is 60 units
    high, and heights are rounded up, so that a bar with any sample is at least 1 unit high.
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
    """A line from a sentence of the caption to the sentence of the reference that it matches. caption, reference:
    numbers of the sentences from 1. is_broken: whether the explanation notes a break of order there. tooltip: both
    numbers, the similarity and that note.
    """

    caption: int
    reference: int
    is_broken: bool
    tooltip: str


def build_sentence_links(rows: Sequence[Any]) -> list[SentenceLink]:
    """Return the links between sentences of a caption and of its reference that the rows of a VCS explanation list, in
    their order. [] for explanations of other metrics, and without rows.
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
