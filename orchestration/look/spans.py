"""Requests by which raters mark wrong words of the caption that a rating page shows, and take marks back."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from sqlalchemy.engine import Connection
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from assets.datasets import require_dataset
from assets.ingest.hygiene import format_value
from db.manifest.rating import CaptionToRate, find_caption
from db.manifest.wrong_spans import Span, delete_span, store_span
from orchestration.look.answering import build_change_response, catch_page_errors
from orchestration.look.rating import (
    BadAnswer,
    RatePages,
    RatingSession,
    parse_answered_captions,
    parse_session,
    parse_whole_number,
)


@dataclass(frozen=True, slots=True)
class SpanPages:
    """The requests that mark wrong words and take marks back, as methods from a request to a response. The answer to a
    change has in "undo" the address that undoes it. rating: the pages that show the captions.
    """

    rating: RatePages

    def list_routes(self, dataset_path: str) -> list[Route]:
        """Return the routes that mark words and take marks back. dataset_path: the path of a dataset's pages, such as
        "/look/{dataset}".
        """
        path = f"{dataset_path}/rate/spans"
        return [
            Route(path, catch_page_errors(self.mark_words), methods=["POST"]),
            Route(f"{path}/remove", catch_page_errors(self.remove_mark), methods=["POST"]),
        ]

    def mark_words(self, request: Request) -> Response:
        """Mark the words that the address names. Return JSON that they are marked; status 409 if some are marked
        already, or the caption was changed or dropped. Raises BadAnswer for an address that is not valid.
        """
        return self._change(request, is_removed=False)

    def remove_mark(self, request: Request) -> Response:
        """Take back the mark that the address names. Return JSON that it is taken back; status 409 if there is none.
        Raises BadAnswer for an address that is not valid.
        """
        return self._change(request, is_removed=True)

    def _change(self, request: Request, *, is_removed: bool) -> Response:
        dataset, parameters = require_dataset(self.rating.engine, request.path_params["dataset"]), request.query_params
        start, end = (parse_whole_number(parameters.get(name, "")) for name in ("from", "to"))
        captions = parse_answered_captions(parameters)
        with self.rating.engine.begin() as connection:
            session = parse_session(connection, dataset, parameters)
            if len(captions) != 1 or session.rater.pairs:
                raise BadAnswer("words are marked in one caption: open the page again")
            caption, is_planted = self._find_shown_caption(connection, session, *captions[0])
            if caption is None:
                return build_change_response(False, "", "the caption was changed or dropped: open the page again")
            if not caption.text[start:end].strip() or end > len(caption.text):
                raise BadAnswer("the address names no words of the caption: open the page again")
            span: Span = (start, end)
            is_done = (
                delete_span(connection, session.rater, caption, span)
                if is_removed
                else store_span(connection, session.rater, caption, span, is_planted=is_planted)
            )
        words = format_value(caption.text[start:end])
        if not is_done:
            why = f"{words} is not marked" if is_removed else "a word is marked already: take its mark back first"
            return build_change_response(False, "", why)
        done = f"{words} is {'not marked any more' if is_removed else 'marked as wrong'}"
        undo = f"/look/{quote(dataset.name, safe='')}/rate/spans{'' if is_removed else '/remove'}?{request.url.query}"
        return JSONResponse({"message": done, "undo": undo})

    def _find_shown_caption(
        self, connection: Connection, session: RatingSession, sample_id: int, digest: bytes
    ) -> tuple[CaptionToRate | None, bool]:
        """Find the caption with this text that the page shows, and whether it is planted; (None, False) if the page
        shows it no more.
        """
        caption = find_caption(connection, session.rater, sample_id)
        if caption and caption.text_sha256 == digest:
            return caption, False
        check = self.rating.find_check(connection, session)
        planted = check.items[0] if check else None
        is_shown = planted is not None and (planted.sample_id, planted.text_sha256) == (sample_id, digest)
        return (planted, True) if is_shown else (None, False)
