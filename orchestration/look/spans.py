"""Requests by which raters mark wrong words of the caption that a rating page shows, and take marks back."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from sqlalchemy.engine import Connection
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from assets.datasets.lookup import require_dataset
from assets.ingest.hygiene import format_value
from db.manifest.rating import CaptionToRate, find_caption
from db.manifest.wrong_spans import delete_span, store_span
from orchestration.look.answering import build_change_response, catch_page_errors
from orchestration.look.rating import (
    BadAnswer,
    RatePages,
    RatingSession,
    parse_answered_captions,
    parse_session,
    parse_whole_number,
)

# At the end of the address that takes a mark back.
_REMOVE = "&remove=1"


@dataclass(frozen=True, slots=True)
class SpanPages:
    """The request that marks wrong words or takes a mark back, as a method from a request to a response. rating: the
    pages that show the captions.
    """

    rating: RatePages

    def list_routes(self, dataset_path: str) -> list[Route]:
        """Return the route of the request. dataset_path: the path of a dataset's pages, such as "/look/{dataset}"."""
        return [Route(f"{dataset_path}/rate/spans", catch_page_errors(self.change_mark), methods=["POST"])]

    def change_mark(self, request: Request) -> Response:
        """Mark the words that the address names, or with `remove` take their mark back. Return JSON with what was done,
        and in "undo" the address that undoes it; status 409 if it is done already, a part of the words is marked, or
        the caption was changed or dropped. Raises BadAnswer for an address that is not valid.
        """
        dataset, parameters = require_dataset(self.rating.engine, request.path_params["dataset"]), request.query_params
        span = parse_whole_number(parameters.get("from", "")), parse_whole_number(parameters.get("to", ""))
        captions, is_removed = parse_answered_captions(parameters), "remove" in parameters
        with self.rating.engine.begin() as connection:
            session = parse_session(connection, dataset, parameters)
            if len(captions) != 1 or session.rater.pairs:
                raise BadAnswer("words are marked in one caption: open the page again")
            caption, is_planted = self._find_shown_caption(connection, session, *captions[0])
            if caption is None:
                return build_change_response(False, "", "the caption was changed or dropped: open the page again")
            words = caption.text[slice(*span)]
            if not words.strip() or span[1] > len(caption.text):
                raise BadAnswer("the address names no words of the caption: open the page again")
            if is_removed:
                is_done = delete_span(connection, session.rater, caption, span)
                done, why = f"{format_value(words)} is not marked any more", f"{format_value(words)} is not marked"
            else:
                is_done = store_span(connection, session.rater, caption, span, is_planted=is_planted)
                done, why = (
                    f"{format_value(words)} is marked as wrong",
                    "a word is marked already: take its mark back first",
                )
        if not is_done:
            return build_change_response(False, "", why)
        query = request.url.query.removesuffix(_REMOVE) + ("" if is_removed else _REMOVE)
        return JSONResponse({"message": done, "undo": f"/look/{quote(dataset.name, safe='')}/rate/spans?{query}"})

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
