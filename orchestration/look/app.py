"""The pages of `reelsieve look`: samples, videos and selections of the database as HTML. An address holds the whole
state of its page.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from sqlalchemy.engine import Connection, Engine
from starlette.applications import Starlette
from starlette.convertors import Convertor, register_url_convertor
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from assets.scores.base import Explanation, Scorer
from assets.scores.explain import explain_score
from assets.search import NothingToSearch, SearchResult, search_similar_captions, search_similar_videos
from assets.selection.select import make_selection, preview_selection
from assets.selection.wording import explain_ties
from assets.sources.base import MissingEvidence
from assets.sources.frames import SampledFrames
from assets.sources.texts import TextVectors
from assets.words.marked_text import TextPiece, split_differences, split_sample_text
from assets.words.text import format_count
from db.evidence.facts import load_facts, load_first_videos
from db.manifest.datasets import Dataset, list_datasets
from db.manifest.remarks import list_views
from db.reports.histograms import UNIQUE_COLUMNS, Histogram, count_values, has_number_values
from db.reports.pages import (
    MOST_COUNTED,
    Neighbours,
    count_samples,
    find_neighbours,
    list_video_samples,
    load_page,
    load_rows,
)
from db.reports.sample_query import QueryContext, list_suggested_columns, list_telling_columns, prepare_query
from db.reports.sample_query_sql import build_sql
from db.reports.samples import find_video, load_judgements, load_references, load_score_history
from db.schema.facts import VIDEO_FACTS
from db.scores.sample_scores import SIMPLE_SCORES, TELLING_FACTS
from db.selection.columns import TAG_PREFIX
from db.selection.conditions import FilterError
from db.selection.recipes import Recipe, SelectionError
from metrics_core.models.errors import ModelUnusable
from orchestration.look.answering import HeaderMiddleware, PageNotFound, catch_page_errors, render_look_page
from orchestration.look.media import VideoFileResponse, explain_missing_file, render_frame_sheet
from orchestration.look.rating import (
    accept_answer,
    change_mark,
    render_progress,
    render_question,
    render_raters,
    undo_answer,
)
from orchestration.look.remarks import (
    MOST_CHARACTERS,
    add_remarks,
    add_view,
    delete_chosen_remarks,
    delete_saved_view,
    render_remarks,
)
from orchestration.look.sample_map import render_map, send_points, tag_area, undo_tag
from orchestration.look.state import LookState, RatingSetup, get_state, require_asked_dataset
from orchestration.look.view import (
    PageView,
    build_histogram_bars,
    build_sentence_links,
    format_equality,
    format_place,
    open_view,
    quote_column,
)


class RowIdConvertor(Convertor[int]):
    """Starlette's convertor for the id of a database row in a path. An id of more than 30 digits becomes 2^63, which no
    row has.
    """

    regex = "[0-9]+"

    def convert(self, value: str) -> int:
        """Return the decimal digits of a path as an int; 2^63 if there are more than 30 of them."""
        return int(value) if len(value) <= 30 else 2**63

    def to_string(self, value: int) -> str:
        """Return the number in decimal digits."""
        return str(value)


register_url_convertor("row", RowIdConvertor())
FILES = Path(__file__).parent / "files"
PER_PAGE = 24
# Rows of an explanation on a page.
MOST_ROWS = 100
MOST_VALUES = 8
MOST_SIMILAR = 8
VIDEO_CARD_FACTS = tuple(name for name in TELLING_FACTS if name in VIDEO_FACTS)
# Lines that an explanation begins with, and rows that are shown before somebody asks for them.
FEW = {"lines": 3, "rows": 16}
# The address of a file has the hash of its content.
FOR_A_DAY = {"Cache-Control": "private, max-age=86400"}


def make_look_app(
    engine: Engine,
    make_scorers: Callable[[], Mapping[str, Scorer]],
    *,
    has_lineage: bool,
    setups: Mapping[str, RatingSetup] | None = None,
) -> Starlette:
    """Return the ASGI application that serves all pages below /look: samples, videos and selections, rating, labels,
    tags and the map. / is redirected to /look, errors become responses of one sentence, and every answer has security
    headers. The arguments are those of `LookState`.
    """
    routes = [Route(path, catch_page_errors(answer), methods=[method]) for (method, path), answer in _PAGES.items()]
    files = Mount("/look/files", StaticFiles(directory=FILES))
    routes.append(Route("/", lambda _: RedirectResponse("/look")))
    app = Starlette(routes=[files, *routes], middleware=[Middleware(HeaderMiddleware)])
    app.state.look = LookState(engine, make_scorers, has_lineage, setups or {})
    return app


def render_datasets(request: Request) -> Response:
    """Return the page that lists the datasets of the database with their numbers of samples."""
    with get_state(request).engine.connect() as connection:
        datasets = [
            (dataset.name, count_samples(prepare_query(connection, PageView().build_sample_query(dataset))))
            for dataset in list_datasets(connection)
        ]
    return render_look_page("datasets.html", datasets=datasets)


def render_grid(request: Request) -> Response:
    """Return the page with a grid of at most 24 sample cards, and a link to the next ones; of a dataset without
    samples, cards of its first 24 videos. The address gives conditions, order and shown columns. A condition or
    place that cannot be used gives status 400, with the reason next to its field and no cards.
    """
    with open_view(request) as (view, prepared):
        values: dict[str, Any] = {
            "dataset": prepared.query.dataset.name,
            "view": view,
            "metrics": prepared.metrics,
            "videos": [],
            "columns": list(dict.fromkeys([*list_telling_columns(prepared), *view.show])),
        }
        suggested = list_suggested_columns(prepared)
        values["names"] = [quote_column(name) for name in suggested]
        values["views"] = list_views(prepared.connection, prepared.query.dataset)
        values["tags"] = [name.removeprefix(TAG_PREFIX) for name in suggested if name.startswith(TAG_PREFIX)]
        try:
            rows, end = load_page(prepared, view.parse_place(), PER_PAGE)
            n = count_samples(prepared)
            if not (rows or view.condition or view.after):
                name = prepared.query.dataset.name
                values["videos"] = load_first_videos(prepared.connection, name, VIDEO_CARD_FACTS, PER_PAGE)
        except (FilterError, SelectionError) as error:
            # The brief sentence lists no names, since the field completes them.
            short = getattr(error, "brief", str(error))
            return render_look_page(
                "grid.html", 400, **values, **_list_common_values(request), error=short, rows=[], n=0, next=None
            )
    following = view.format_query(after=format_place(end)) if end else None
    return render_look_page(
        "grid.html", **values, **_list_common_values(request), error=None, rows=rows, n=n, next=following
    )


def _list_common_values(request: Request) -> dict[str, Any]:
    return {
        "most": MOST_COUNTED,
        "uncounted": UNIQUE_COLUMNS,
        "has_lineage": get_state(request).has_lineage,
        "characters": MOST_CHARACTERS,
        "video_facts": VIDEO_CARD_FACTS,
    }


def render_histogram(request: Request) -> Response:
    """Return a part of a page about the column that the address names: a histogram of its numbers, or the counts of
    its 24 most frequent other values. All counts are of samples that meet the conditions on other columns, and kept
    ones meet all conditions. Raises FilterError for an unknown column, and for one whose values are unique.
    """
    column = request.query_params.get("column", "")
    with open_view(request) as (view, prepared):
        distribution = count_values(prepared, column)
    clear = (
        view.format_query(only=view.list_other_conditions(column))
        if view.list_other_conditions(column) != view.only
        else None
    )
    values: dict[str, Any] = {
        "dataset": prepared.query.dataset.name,
        "view": view,
        "column": column,
        "clear": clear,
    }
    if isinstance(distribution, Histogram):
        return render_look_page(
            "histogram.html",
            **values,
            histogram=distribution,
            bars=build_histogram_bars(distribution),
            quoted=quote_column(column),
        )
    return render_look_page(
        "values.html",
        **values,
        values=distribution[:MOST_VALUES],
        n_more=len(distribution) - MOST_VALUES,
        equals=format_equality,
    )


def render_sample(request: Request) -> Response:
    """Return the page of one sample: video, references, ratings, facts, earlier scores, and every present score
    with its explanation, those with a value first. It links to the samples before and after it in the view, and
    marks the differences from the text that the address names. Explaining may load models. Raises PageNotFound.
    """
    dataset, sample_id = require_asked_dataset(request), request.path_params["sample_id"]
    with open_view(request) as (view, prepared):
        row = _require_row(prepared, sample_id)
        video = _require_video(prepared.connection, dataset, row["video_id"])
        values: dict[str, Any] = {"references": load_references(prepared.connection, row["video_id"])}
        values |= {
            "history": load_score_history(prepared.connection, sample_id),
            "ratings": load_judgements(prepared.connection, sample_id),
        }
        facts = load_facts(prepared.connection, [sample_id])[sample_id]
        values["facts"] = {name: facts[name] for name in dict.fromkeys((*TELLING_FACTS, *facts)) if name in facts}
        values |= _list_walk_values(view, find_neighbours(prepared, sample_id))
        same_video = load_rows(prepared, list_video_samples(prepared, row["video_id"]))
    texts = _list_comparable_texts(row, values["references"], same_video)
    scores = [
        _explain_score(get_state(request), dataset, metric, row)
        for metric in prepared.metrics
        if metric in prepared.scorers
    ]
    pieces = split_sample_text(row, [score["explanation"].marks for score in scores])
    other: Sequence[TextPiece] = ()
    if view.compared in texts:
        pieces, other = split_differences(row["text"], texts[view.compared][1])
    scores.sort(key=lambda score: score["explained"] is None or score["explained"].value is None)
    unscored = [score for score in scores if score["explained"] and score["explained"].status is None]
    return render_look_page(
        "sample.html",
        **(values | _list_common_values(request) | _list_video_values(video)),
        dataset=dataset.name,
        shard=dataset.compute_shard(row["video"]),
        view=view,
        row=row,
        scores=[score for score in scores if score not in unscored],
        unscored=[score["metric"] for score in unscored],
        texts=texts,
        pieces=pieces,
        other=other,
        made_here=get_state(request).scorers.keys(),
        simple=SIMPLE_SCORES,
        most_rows=MOST_ROWS,
        few=FEW,
    )


def render_similar(request: Request) -> Response:
    """Return a part of a page with the captions and the videos of the dataset that are most similar to a sample's,
    by stored vectors; those of its own video are left out. Where there is no vector, a sentence gives the reason.
    Raises PageNotFound.
    """
    sources = [source for scorer in get_state(request).scorers.values() for source in scorer.sources]
    texts = next((source.model for source in sources if isinstance(source, TextVectors)), None)
    frames = next((source.model for source in sources if isinstance(source, SampledFrames)), None)
    with open_view(request) as (view, prepared):
        row = _require_row(prepared, request.path_params["sample_id"])
    dataset, video_id = prepared.query.dataset, row["video_id"]
    captions = videos = None
    if texts and row["kind"] == "caption":
        captions = _search_or_explain(
            lambda: search_similar_captions(
                get_state(request).engine, texts, dataset, video_id, row["text"], MOST_SIMILAR
            )
        )
    if frames and row["content_sha256"] is not None:
        videos = _search_or_explain(
            lambda: search_similar_videos(get_state(request).engine, frames, dataset, video_id, MOST_SIMILAR)
        )
    return render_look_page("similar.html", dataset=dataset.name, view=view, captions=captions, videos=videos)


def _explain_score(state: LookState, dataset: Dataset, metric: str, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a score of a sample with its explanation and links for the template; without a score where it cannot
    be explained here.
    """
    try:
        # One at a time: each takes several connections, and scorers are made for one thread.
        with state.explain_lock:
            explained = explain_score(
                state.engine, metric, state.scorers.get(metric), dataset, row["sample"], row["kind"]
            )
    except (ModelUnusable, MissingEvidence) as error:
        return {
            "metric": metric,
            "explained": None,
            "explanation": Explanation([f"this score cannot be explained here: {error}"]),
            "links": [],
        }
    if explained is None:
        raise PageNotFound(f"sample {row['sample']!r} was dropped meanwhile: go back")
    sentence_links = build_sentence_links(explained.explanation.rows)
    return {"metric": metric, "explained": explained, "explanation": explained.explanation, "links": sentence_links}


def render_video(request: Request) -> Response:
    """Return the page of one video with all its samples and references. Raises PageNotFound."""
    dataset, video_id = require_asked_dataset(request), request.path_params["video_id"]
    with open_view(request) as (view, prepared):
        video = _require_video(prepared.connection, dataset, video_id)
        rows = load_rows(prepared, list_video_samples(prepared, video_id))
        references = load_references(prepared.connection, video_id)
    values: dict[str, Any] = {
        "dataset": dataset.name,
        "view": view,
        "metrics": prepared.metrics,
        "references": references,
        "rows": rows,
    }
    return render_look_page("video.html", **(values | _list_common_values(request) | _list_video_values(video)))


def _require_video(connection: Connection, dataset: Dataset, video_id: int) -> dict[str, Any]:
    """Return the columns of a video of a dataset. Raises PageNotFound."""
    video = find_video(connection, dataset.dataset_id, video_id) if video_id < 2**63 else None
    if video is None:
        raise PageNotFound(f"dataset {dataset.name} has no video with this address: it was dropped, or never existed")
    return video


def send_video_file(request: Request) -> Response:
    """Return a response that sends the file of a video, or the range of bytes that the request asks for. Browsers
    may keep it for a day. Raises PageNotFound, and NoPicture if the video has no file to show.
    """
    video = _require_asked_video(request)
    return VideoFileResponse(video, FOR_A_DAY, request.headers)  # type: ignore[return-value]  # an ASGI application


def send_frame_sheet(request: Request) -> Response:
    """Return a response with a JPEG of up to four frames of a video. Browsers may keep it for a day. Raises
    PageNotFound, and NoPicture if the video has no file to show.
    """
    return Response(render_frame_sheet(_require_asked_video(request)), media_type="image/jpeg", headers=FOR_A_DAY)


def _require_asked_video(request: Request) -> dict[str, Any]:
    """Return the columns of the video that an address names; no connection is held while its file is read."""
    dataset = require_asked_dataset(request)
    with get_state(request).engine.connect() as connection:
        return _require_video(connection, dataset, request.path_params["video_id"])


# The samples of a view as a selection and as SQL.


def render_selection(request: Request) -> Response:
    """Return the page that previews a selection of all samples of the view: its recipe, its size, and the command
    that makes it. Nothing is frozen. Raises SelectionError for a view without samples or with an area of a map,
    and FilterError.
    """
    dataset, recipe, view = _build_recipe(request)
    seen = preview_selection(get_state(request).engine, dataset, recipe, _no_encoder, lambda _: None)
    command = ["reelsieve", "select", "--dataset", dataset.name, "--by", *recipe.by, "--keep", "1"]
    command += ["--where", recipe.where] if recipe.where else []
    command += ["--kind", recipe.kind] if recipe.kind else []
    summary = seen.summary
    ties = [*explain_ties(summary.n, summary.n_tied, summary.n_tied_left)]
    values: dict[str, Any] = {"dataset": dataset.name, "view": view, "seen": seen, "ties": ties}
    values["command"] = shlex.join(command)
    return render_look_page(
        "selection.html", **values, recipe=yaml.safe_dump(recipe.spec(), allow_unicode=True, sort_keys=False)
    )


def freeze_selection(request: Request) -> Response:
    """Freeze a selection of all samples of the view in the database. Return JSON with a sentence that has its
    number, its size, and whether it was made before. Raises SelectionError for a view without samples or with an
    area of a map, and FilterError.
    """
    dataset, recipe, _ = _build_recipe(request)
    made = make_selection(get_state(request).engine, dataset, recipe, _no_encoder, lambda _: None)
    known = "" if made.is_new else ", made before and unchanged"
    export = f"reelsieve export {made.selection_id} --to FILE.parquet exports it"
    size = format_count(made.n, "sample")
    return JSONResponse({"message": f"selection {made.selection_id} has {size}{known}: {export}"})


def _build_recipe(request: Request) -> tuple[Dataset, Recipe, PageView]:
    """Return the dataset, a recipe that takes all samples of the view, and the view; the order of a numeric column
    ranks, else the length of the text.
    """
    with open_view(request) as (view, prepared):
        view.require_no_area()
        rows, _ = load_page(prepared, None, 1)
        by = view.sort if view.sort and has_number_values(prepared, view.sort) else "n_characters"
        kinds = count_values(prepared, "kind")
    if not rows:
        raise SelectionError("the view has no sample to freeze: loosen its conditions")
    assert isinstance(kinds, list)
    fields: dict[str, Any] = {"by": {by: 1.0}, "keep": 1.0, "where": view.condition or None}
    return prepared.query.dataset, Recipe(**fields, kind="all" if len(kinds) > 1 else None), view


def render_sql(request: Request) -> Response:
    """Return the page with an SQL statement that selects the samples of the view in their order, and the command
    that runs it. Raises SelectionError for a view with an area of a map.
    """
    with open_view(request) as (view, prepared):
        view.require_no_area()
        statement = build_sql(prepared)
    command = shlex.join(["reelsieve", "sql", statement])
    return render_look_page(
        "sql.html", dataset=prepared.query.dataset.name, view=view, statement=statement, command=command
    )


def _require_row(prepared: QueryContext, sample_id: int) -> dict[str, Any]:
    """Return a sample of the view's dataset as `load_rows` does. Raises PageNotFound."""
    rows = load_rows(prepared, [sample_id] if sample_id < 2**63 else [])
    if not rows:
        name = prepared.query.dataset.name
        raise PageNotFound(f"dataset {name} has no sample with this address: it was dropped, or never existed")
    return rows[0]


def _search_or_explain(search: Callable[[], SearchResult]) -> SearchResult | str:
    """Return the result of a search, or the reason why nothing can be searched."""
    try:
        return search()
    except NothingToSearch as error:
        return str(error)


def _list_walk_values(view: PageView, neighbours: Neighbours) -> dict[str, Any]:
    """Return a template's values about the samples before and after a sample: the id and the query string of either, or
    None. The query string names the page of cards that begins with that sample.
    """
    first, before, own, after = neighbours
    return {
        "before": before and (before.sample_id, view.format_query(after=format_place(first) if first else "")),
        "following": after and (after.sample_id, view.format_query(after=format_place(own))),
    }


def _list_comparable_texts(
    row: Mapping[str, Any], references: Sequence[tuple[str, str]], same_video: Sequence[Mapping[str, Any]]
) -> dict[str, tuple[str, str]]:
    """Return (label, text) of the texts that a caption can be compared with, by their name in an address
    ("reference:NUMBER" from 1, "system:NAME"): the references, labelled by key, and the first caption by every other
    system. {} for a question-answer pair.
    """
    if row["kind"] == "qa":
        return {}
    texts = {f"reference:{number}": reference for number, reference in enumerate(references, 1)}
    for other in same_video:
        if other["kind"] == row["kind"] and other["system"] != row["system"]:
            texts.setdefault(f"system:{other['system']}", (other["system"], other["text"]))
    return texts


def _list_video_values(video: Mapping[str, Any]) -> dict[str, Any]:
    """Return a template's values about a video: its columns, and the reason if it has no file to show."""
    return {"video": video, "no_file": explain_missing_file(video)}


def _no_encoder() -> Any:
    raise AssertionError("this recipe compares no texts")


_OF = "/look/{dataset}"
_SAMPLE, _VIDEO = f"{_OF}/sample/{{sample_id:row}}", f"{_OF}/video/{{video_id:row}}"
_PAGES: Mapping[tuple[str, str], Callable[[Request], Response]] = {
    ("GET", "/look"): render_datasets,
    ("GET", _OF): render_grid,
    ("GET", f"{_OF}/histogram"): render_histogram,
    ("GET", _SAMPLE): render_sample,
    ("GET", f"{_SAMPLE}/similar"): render_similar,
    ("GET", _VIDEO): render_video,
    ("GET", f"{_VIDEO}/file"): send_video_file,
    ("GET", f"{_VIDEO}/frames.jpg"): send_frame_sheet,
    ("GET", f"{_OF}/selection"): render_selection,
    ("POST", f"{_OF}/selection"): freeze_selection,
    ("GET", f"{_OF}/sql"): render_sql,
    ("GET", f"{_OF}/rate"): render_question,
    ("POST", f"{_OF}/rate"): accept_answer,
    ("POST", f"{_OF}/rate/undo"): undo_answer,
    ("POST", f"{_OF}/rate/spans"): change_mark,
    ("GET", f"{_OF}/rate/progress"): render_progress,
    ("GET", f"{_OF}/rate/raters"): render_raters,
    ("GET", f"{_OF}/rate/facts"): render_question,
    ("POST", f"{_OF}/rate/facts"): accept_answer,
    ("POST", f"{_OF}/rate/facts/undo"): undo_answer,
    ("GET", f"{_OF}/remarks"): render_remarks,
    ("POST", f"{_OF}/remarks"): add_remarks,
    ("POST", f"{_OF}/remarks/remove"): delete_chosen_remarks,
    ("POST", f"{_OF}/views"): add_view,
    ("POST", f"{_OF}/views/remove"): delete_saved_view,
    ("GET", f"{_OF}/map"): render_map,
    ("GET", f"{_OF}/map/points"): send_points,
    ("POST", f"{_OF}/map/tag"): tag_area,
    ("POST", f"{_OF}/map/untag"): undo_tag,
}
"""The function of every page, by method and path."""
