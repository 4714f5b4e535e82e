"""The page with the map of a dataset, the points that it draws, and tags on all samples of an area."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from assets.ingest.hygiene import format_value
from assets.sample_map import SampleMap, list_map_vectors
from assets.words.text import format_compact, format_count, format_percent
from db.manifest.remarks import Remark, delete_added_tags, load_stored_time, store_remarks
from db.reports.histograms import UNIQUE_COLUMNS, has_number_values, load_column_values
from db.reports.sample_query import list_telling_columns
from db.selection.columns import TAG_PREFIX
from orchestration.look.answering import BadAnswer, build_change_response, render_look_page
from orchestration.look.remarks import MOST_CHARACTERS, format_change_address, require_text
from orchestration.look.state import get_state, require_asked_dataset
from orchestration.look.view import open_view, quote_column

# More colours are hard to distinguish.
_MOST_CLASSES = 7


def render_map(request: Request) -> Response:
    """Return the page of the map, which asks for its points afterwards. The address names the vectors, by default
    the first of `list_map_vectors`, and the column that colours points, by default the first that the view shows.
    """
    scorers = get_state(request).scorers
    with open_view(request) as (view, prepared):
        choices = list(list_map_vectors(prepared.connection, prepared.query.dataset, scorers))
        columns = dict.fromkeys(["system", *list_telling_columns(prepared), *view.show])
    return render_look_page(
        "map.html",
        dataset=prepared.query.dataset.name,
        view=view,
        choices=choices,
        vectors=request.query_params.get("vectors") or next(iter(choices), ""),
        columns=[name for name in columns if name not in UNIQUE_COLUMNS],
        colour=request.query_params.get("colour") or next(iter(view.show), "system"),
        characters=MOST_CHARACTERS,
    )


def send_points(request: Request) -> Response:
    """Return the points of a map as JSON: ids of samples, coordinates x and y, and for a sample that meets the
    conditions of the view the number of its class in the legend, else null. Raises MapUnknown, NothingToProject,
    and FilterError for an unknown column.
    """
    dataset = require_asked_dataset(request)
    made = get_state(request).maps.load(dataset, request.query_params.get("vectors", ""))
    column = request.query_params.get("colour", "")
    with open_view(request) as (_, prepared):
        is_number = has_number_values(prepared, column)
        rows = load_column_values(prepared, column, made.sample_ids.tolist())
    values = {sample_id: value for sample_id, value, is_kept in rows if is_kept}
    classes, legend = build_classes([*values.values()], is_number)
    class_by_id = dict(zip(values, classes, strict=True))
    # A sample that was dropped meanwhile has no row.
    present = np.isin(made.sample_ids, [row[0] for row in rows])
    ids, coordinates = made.sample_ids[present].tolist(), made.coordinates[present]
    return JSONResponse(
        {
            "stamp": made.stamp,
            "note": _describe_map(made),
            "ids": ids,
            "x": coordinates[:, 0].tolist(),
            "y": coordinates[:, 1].tolist(),
            "classes": [class_by_id.get(sample_id) for sample_id in ids],
            "legend": legend,
            "isOrdered": is_number,
        }
    )


def tag_area(request: Request) -> Response:
    """Store the tag that the address holds on all samples of its area that meet the conditions of its view. Return
    JSON with how many samples got it; status 409 if none did. Raises BadAnswer for an address that is not valid.
    """
    parameters = request.query_params
    text = require_text("tag", parameters.get("text", "").lower())
    by = require_text("name", parameters.get("by", ""))
    with open_view(request) as (_, prepared):
        dataset, chosen = prepared.query.dataset, prepared.query.sample_ids
        if chosen is None:
            raise BadAnswer("no area is chosen: draw one on the map first")
        kept = [sample_id for sample_id, _, is_kept in load_column_values(prepared, "system", chosen) if is_kept]
        tags = [Remark(sample_id, "tag", text, by) for sample_id in kept]
        stored = len(store_remarks(prepared.connection, dataset, tags))
        made_at = load_stored_time(prepared.connection)
    others = "" if stored == len(kept) else "; the others had it already"
    keep = f"the condition {quote_column(TAG_PREFIX + text)} keeps them"
    done = f"{format_count(stored, 'sample')} got the tag {format_value(text)}: {keep}{others}"
    why = f"no sample got the tag {format_value(text)}: the area has no sample without it"
    undo = format_change_address(dataset, "map/untag", [("text", text), ("by", by), ("at", str(made_at))])
    return build_change_response(bool(stored), done, why, undo)


def undo_tag(request: Request) -> Response:
    """Delete the tag that a person stored on an area at the time that the address names. Return JSON with how many
    samples had it; status 409 if none did. Raises BadAnswer for an address that is not valid.
    """
    parameters = request.query_params
    dataset = require_asked_dataset(request)
    text, by = require_text("tag", parameters.get("text", "")), require_text("name", parameters.get("by", ""))
    made_at = _parse_time(parameters.get("at", ""))
    with get_state(request).engine.begin() as connection:
        n = delete_added_tags(connection, dataset, text, by, made_at)
    done = f"{format_count(n, 'sample')} lost the tag {format_value(text)}"
    return build_change_response(bool(n), done, f"no sample has the tag {format_value(text)} of then any more")


def build_classes(values: Sequence[Any], is_number: bool) -> tuple[list[int], list[dict[str, Any]]]:
    """Return (the class (n,) of every value, the legend). A legend has {"label", "n"} for every class, where n counts
    its values. Numbers get up to 7 classes of neighbouring values, from low to high; other values the 7 most
    frequent ones, and a class for all others. None has the last class, "no value".

    >>> build_classes(["a", "b", "b", None], is_number=False)
    ([1, 0, 0, 2], [{'label': 'b', 'n': 2}, {'label': 'a', 'n': 1}, {'label': 'no value', 'n': 1}])
    """
    counts = Counter(value for value in values if value is not None)
    class_by_value: dict[Any, int] = {}
    labels: list[str] = []
    if is_number:
        distinct = sorted(counts)
        groups = [group for group in np.array_split(np.arange(len(distinct)), _MOST_CLASSES) if len(group)]
        for number, group in enumerate(groups):
            class_by_value |= {distinct[place]: number for place in group}
            low, high = (format_compact(distinct[place]) for place in (group[0], group[-1]))
            labels.append(low if low == high else f"{low} to {high}")
    else:
        ranked = sorted(counts, key=lambda value: (-counts[value], str(value)))
        class_by_value = {value: min(number, _MOST_CLASSES) for number, value in enumerate(ranked)}
        labels = [format_compact(value) for value in ranked[:_MOST_CLASSES]]
        labels += ["other values"] if len(ranked) > _MOST_CLASSES else []
    class_by_value[None] = len(labels)
    labels += ["no value"] if len(values) > counts.total() else []
    classes = [class_by_value[value] for value in values]
    sizes = Counter(classes)
    return classes, [{"label": label, "n": sizes[number]} for number, label in enumerate(labels)]


def _describe_map(made: SampleMap) -> str:
    """Return sentences about what a map shows, and what it does not."""
    n_drawn = len(made.sample_ids) + made.n_placeless
    some = f", drawn at random from {made.n_all:,}" if made.n_all > n_drawn else ""
    shares = " and ".join(format_percent(share) for share in made.shares)
    note = (
        f"{format_count(len(made.sample_ids), 'sample')}{some}, placed by vectors of {made.vectors}. The two "
        f"directions are their first principal components (PCA), with {shares} of the variance: points far apart "
        "differ, and points close together may differ in what is not shown."
    )
    lost = format_count(made.n_placeless, "sample")
    have = "has" if made.n_placeless == 1 else "have"
    return f"{note} {lost} with a zero vector {have} no point." if made.n_placeless else note


def _parse_time(text: str) -> datetime:
    """Return the time with a zone that an address holds. Raises BadAnswer."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        time = datetime.min
    # Python has no name for every time that Postgres can store.
    if time.tzinfo is None or not 2000 <= time.year < 3000:
        raise BadAnswer(f"{text[:40]!r} in the address is not a time with its zone: open the page again")
    return time
