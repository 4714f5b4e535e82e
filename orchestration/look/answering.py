"""How a page is answered: with security headers, and with one sentence if the page cannot be made."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import psycopg
from sqlalchemy.exc import OperationalError
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from assets.datasets.changes import DatasetChanged, report_dataset_changes
from assets.datasets.lookup import UnknownDataset
from assets.reports.page import make_template_environment
from db.manifest.answers import TextChanged
from db.reports.sample_query import TIMEOUT_S
from db.server.user_errors import explain_user_error
from orchestration.cli.fault_log import write_fault_log

CANCELLED = "57014"
_MOST = 2**63
# Python refuses to read longer ones than some thousand digits.
_MOST_DIGITS = 30
HEADERS = {
    # Only our own files as scripts and styles, no frame around a page, and no address of ours sent to other sites.
    "Content-Security-Policy": (
        "default-src 'none'; img-src 'self'; media-src 'self'; style-src 'self'; script-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
}


class PageNotFound(ValueError):
    """Raised when an address names a sample or a video that the dataset does not have."""

    plain = True


class BadAnswer(ValueError):
    """Raised when an address of a page where people answer or write is not valid; the message gives the reason and the
    remedy.
    """

    plain = True


class HeaderMiddleware:
    """ASGI middleware that adds security headers to every answer of an inner application. Answers that have no
    Cache-Control header also get "no-store", so that browsers do not keep them.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on to the inner application, and add the headers to its answer."""

        async def send_headed(message: Message) -> None:
            if message["type"] == "http.response.start":
                known = {name.lower() for name, _ in message["headers"]}
                more = HEADERS if b"cache-control" in known else {**HEADERS, "Cache-Control": "no-store"}
                message["headers"] = [*message["headers"], *((k.encode(), v.encode()) for k, v in more.items())]
            await send(message)

        await self._app(scope, receive, send_headed)


TEMPLATES = make_template_environment(Path(__file__).parent / "templates")


def render_look_page(name: str, status: int = 200, **values: Any) -> Response:
    """Return the HTML response made from a template of the look pages. name: file name of the template. status: the
    HTTP status. values: the variables of the template.
    """
    return HTMLResponse(TEMPLATES.get_template(name).render(**values), status)


def catch_page_errors(answer: Callable[[Request], Response]) -> Callable[[Request], Response]:
    """Return the page function wrapped so that it never raises: an error gives a response of one sentence and a status
    of 400, 404, 409, 500 or 503. The sentence is JSON for POST requests and for parts of pages, else an HTML page. A
    fault of the program is also written to a log file.
    """

    @wraps(answer)
    def answer_or_explain(request: Request) -> Response:
        try:
            with report_dataset_changes():
                return answer(request)
        except Exception as error:
            status, sentence = _explain_failure(error)
            known = None if isinstance(error, UnknownDataset | DatasetChanged) else request.path_params.get("dataset")
        if request.method == "POST" or request.url.path.endswith(
            (".jpg", "/file", "/histogram", "/progress", "/similar", "/raters", "/remarks", "/points")
        ):
            return JSONResponse({"message": sentence}, status)
        return render_look_page("error.html", status, message=sentence, dataset=known)

    return answer_or_explain


def _explain_failure(error: Exception) -> tuple[int, str]:
    """Return the HTTP status and the sentence for an error. A fault of the program is written to a log file."""
    if isinstance(error, OperationalError) and getattr(error.orig, "sqlstate", None) == CANCELLED:
        return 400, f"the database took longer than {TIMEOUT_S} s for this view: add a condition on a metric"
    sentence = explain_user_error(error)
    if sentence is None:
        return 500, write_fault_log(error)
    if isinstance(error, OperationalError | psycopg.OperationalError | OSError):
        return 503, sentence  # trouble of the machine, such as a full disk
    if isinstance(error, TextChanged):
        return 409, sentence
    return (404 if isinstance(error, PageNotFound | UnknownDataset | DatasetChanged) else 400), sentence


def build_change_response(is_done: bool, done: str, why: str, undo: str | None = None) -> JSONResponse:
    """Return the JSON response to a request that changes the database: {"message": done} if the change was made, with
    the address `undo` that undoes it, if any; else {"message": why} with status 409. done, why: sentences for people.
    """
    if not is_done:
        return JSONResponse({"message": why}, 409)
    return JSONResponse({"message": done} | ({} if undo is None else {"undo": undo}))


def parse_whole_number(text: str) -> int:
    """Return the decimal digits of an address as a whole number from 0 to below 2^63. Raises BadAnswer for any other
    text, and for more than 30 digits.
    """
    if not text.isdecimal() or not text.isascii() or len(text) > _MOST_DIGITS or int(text) >= _MOST:
        raise BadAnswer(f"{text[:40]!r} in the address is not a whole number: open the page again")
    return int(text)
