"""Requests that store and delete tags and notes on samples, and saved views; every change can be undone. A tag or note
that comes back keeps its author, and has the present time.
"""

from __future__ import annotations

import unicodedata
from urllib.parse import quote, urlencode

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response

from assets.ingest.hygiene import find_fault, format_value, is_blank_text
from assets.words.text import format_count
from db.manifest.datasets import Dataset
from db.manifest.remarks import (
    Remark,
    RemarkKind,
    delete_remarks,
    delete_view,
    load_remarks,
    save_view,
    store_remarks,
)
from orchestration.look.answering import BadAnswer, build_change_response, parse_whole_number, render_look_page
from orchestration.look.state import get_state, require_asked_dataset
from orchestration.look.view import PageView

# An index of Postgres holds a text of so many characters, whatever its letters are.
MOST_CHARACTERS = {"tag": 60, "note": 600, "name": 200, "view": 60}


def render_remarks(request: Request) -> Response:
    """Return a part of a page with the tags and notes of the sample that the address names, and buttons that remove
    them. Raises BadAnswer for an address that is not valid.
    """
    dataset = require_asked_dataset(request)
    sample_id = parse_whole_number(request.query_params.get("sample", ""))
    with get_state(request).engine.connect() as connection:
        remarks = load_remarks(connection, dataset, sample_id)
    return render_look_page("remarks.html", dataset=dataset.name, remarks=remarks)


def add_remarks(request: Request) -> Response:
    """Store the tag or note that the address holds on its samples. Return JSON with how many samples got it; status
    409 if none did. Raises BadAnswer for an address that is not valid.
    """
    dataset = require_asked_dataset(request)
    remarks = _parse_remarks(request.query_params)
    with get_state(request).engine.begin() as connection:
        stored = store_remarks(connection, dataset, remarks)
    kind, text = remarks[0].kind, remarks[0].text
    others = "" if len(stored) == len(remarks) else "; the others had it already or were dropped"
    done = f"{format_count(len(stored), 'sample')} got the {kind} {format_value(text)}{others}"
    undo: list[tuple[str, str]] = [
        ("kind", kind),
        ("text", text),
        *(("sample", str(sample_id)) for sample_id in stored),
    ]
    why = f"no sample got the {kind} {format_value(text)}: all chosen ones have it already, or were dropped"
    return build_change_response(bool(stored), done, why, format_change_address(dataset, "remarks/remove", undo))


def delete_chosen_remarks(request: Request) -> Response:
    """Delete the tag or note that the address holds from its samples. Return JSON with how many samples had it;
    status 409 if none did. Raises BadAnswer for an address that is not valid.
    """
    dataset, parameters = require_asked_dataset(request), request.query_params
    kind, text, sample_ids = _parse_text(parameters)
    with get_state(request).engine.begin() as connection:
        removed = delete_remarks(connection, dataset, kind, text, sample_ids)
    undo: list[tuple[str, str]] = [("kind", kind), ("text", text)]
    for old in removed:
        undo += [("sample", str(old.sample_id)), ("by", old.made_by)]
    done = f"{format_count(len(removed), 'sample')} lost the {kind} {format_value(text)}"
    why = f"no chosen sample has the {kind} {format_value(text)}"
    return build_change_response(bool(removed), done, why, format_change_address(dataset, "remarks", undo))


def add_view(request: Request) -> Response:
    """Save the view that the address describes under its `name`. Return JSON that it is saved; status 409 if the
    name is taken. Raises BadAnswer for a name that cannot be stored, and SelectionError for a view with an area of
    a map.
    """
    dataset, parameters = require_asked_dataset(request), request.query_params
    name, view = require_text("view", parameters.get("name", "")), PageView.parse(parameters, (), "")
    view.require_no_area()
    with get_state(request).engine.begin() as connection:
        is_saved = save_view(connection, dataset, name, view.format_query(compared=""))
    why = f"there is a view {name!r} already: choose another name, or remove that one first"
    undo = format_change_address(dataset, "views/remove", [("name", name)])
    return build_change_response(is_saved, f"view {name!r} is saved", why, undo)


def delete_saved_view(request: Request) -> Response:
    """Delete the saved view that the address names. Return JSON that it is removed; status 409 if there is none.
    Raises BadAnswer for a name that cannot be stored.
    """
    dataset = require_asked_dataset(request)
    name = require_text("view", request.query_params.get("name", ""))
    with get_state(request).engine.begin() as connection:
        query = delete_view(connection, dataset, name)
    undo = f"{format_change_address(dataset, 'views', [('name', name)])}&{(query or '?')[1:]}"
    return build_change_response(query is not None, f"view {name!r} is removed", f"there is no view {name!r}", undo)


def format_change_address(dataset: Dataset, path: str, values: list[tuple[str, str]]) -> str:
    """Return the address of a page of a dataset with these values as its query. path: below the dataset's pages."""
    return f"/look/{quote(dataset.name, safe='')}/{path}?{urlencode(values)}"


def _parse_remarks(parameters: QueryParams) -> list[Remark]:
    """Return the tag or note that an address holds, once per sample. `by` is one name, or one per sample. Raises
    BadAnswer.
    """
    kind, text, sample_ids = _parse_text(parameters)
    makers = parameters.getlist("by")
    makers = makers * len(sample_ids) if len(makers) == 1 else makers
    if len(makers) != len(sample_ids):
        raise BadAnswer("the address has more or fewer names than samples: open the page again")
    return [
        Remark(sample_id, kind, text, require_text("name", by))
        for sample_id, by in zip(sample_ids, makers, strict=True)
    ]


def _parse_text(parameters: QueryParams) -> tuple[RemarkKind, str, list[int]]:
    """Return the kind, the text and the sample ids that an address holds. Raises BadAnswer."""
    sample_ids = [parse_whole_number(text) for text in parameters.getlist("sample")]
    if not sample_ids:
        raise BadAnswer("no sample is chosen: choose one first")
    if parameters.get("kind") == "tag":
        return "tag", require_text("tag", parameters.get("text", "").lower()), sample_ids
    if parameters.get("kind") == "note":
        return "note", require_text("note", parameters.get("text", "")), sample_ids
    raise BadAnswer("the address names neither a tag nor a note: open the page again")


def require_text(field: str, value: str) -> str:
    """Return the text of a tag, note, name or view in Unicode's composed form, without white space around it. Raises
    BadAnswer for one that is blank, too long, or has control characters.
    """
    text, most = unicodedata.normalize("NFC", value.strip()), MOST_CHARACTERS[field]
    if is_blank_text(text):
        raise BadAnswer(f"the {field} is empty: write one")
    if len(text) > most:
        raise BadAnswer(f"the {field} has {len(text):,} characters: write at most {most}")
    if refused := find_fault({field: text}):
        raise BadAnswer(refused.reason)
    return text
