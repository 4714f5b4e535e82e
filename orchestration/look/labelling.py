"""The pages of `reelsieve rate --keypoints`, where people say whether a caption states a keypoint."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlencode

from sqlalchemy.engine import Engine
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from assets.datasets.lookup import require_dataset
from db.manifest.labelling import (
    KeypointQuestion,
    LabelRater,
    count_labels,
    delete_last_label,
    find_next_keypoint,
    store_label,
)
from orchestration.look.answering import build_change_response, catch_page_errors, render_look_page
from orchestration.look.rating import NOTHING_GIVEN, BadAnswer, check_names, load_caption_context, parse_whole_number

ANSWERS = {"yes": True, "no": False}


@dataclass(frozen=True, slots=True)
class LabelSession:
    """The state of a labelling page, as its address holds it: the person who labels, and `skipped`, the pairs (keypoint
    id, sample id) that this person skipped.
    """

    rater: LabelRater
    skipped: tuple[tuple[int, int], ...] = ()

    def format_query(self, *, skip: KeypointQuestion | None = None, with_skipped: bool = True) -> str:
        """Return the query string of an address with this state, beginning with `?`. skip: a keypoint and caption to
        add to the skipped ones; None to add none. with_skipped: whether the pairs skipped earlier are kept.
        """
        skipped = (*(self.skipped if with_skipped else ()), *([] if skip is None else [skip[:2]]))
        parameters = [("rater", self.rater.name), ("seed", str(self.rater.seed))]
        return f"?{urlencode([*parameters, *(('skip', f'{k}-{s}') for k, s in skipped)])}"


@dataclass(frozen=True, slots=True)
class LabelPages:
    """The pages where people say whether a caption covers a keypoint, as methods from a request to a response. They
    read and write the database of one installation.
    """

    engine: Engine

    def list_routes(self, dataset_path: str) -> list[Route]:
        """Return the routes of the labelling pages: the question, the answer, and taking it back. dataset_path: the
        path of a dataset's pages, such as "/look/{dataset}".
        """
        return [
            Route(f"{dataset_path}/rate/facts", catch_page_errors(self.render_fact)),
            Route(f"{dataset_path}/rate/facts", catch_page_errors(self.accept_answer), methods=["POST"]),
            Route(f"{dataset_path}/rate/facts/undo", catch_page_errors(self.undo_answer), methods=["POST"]),
        ]

    def render_fact(self, request: Request) -> Response:
        """Return the page with the next keypoint to label, with its caption and video. It has no question if none is
        left. Without a person's name in the address, return the page that asks for it. Raises BadAnswer for an address
        that is not valid.
        """
        session = self._parse_session(request, named=False)
        dataset = session.rater.dataset
        if not session.rater.name:
            return render_look_page("labeller.html", dataset=dataset.name, seed=session.rater.seed)
        with self.engine.connect() as connection:
            fact, n = (
                find_next_keypoint(connection, session.rater, session.skipped),
                count_labels(connection, session.rater),
            )
            shown = {} if fact is None else load_caption_context(connection, dataset, fact.video_id)
        return render_look_page("facts.html", dataset=dataset.name, session=session, fact=fact, n=n, **shown)

    def accept_answer(self, request: Request) -> Response:
        """Store the label that the address holds, "yes" or "no" for a keypoint and a sample. Return JSON that it is
        stored; status 409 if the pair was labelled, changed or dropped meanwhile. Raises BadAnswer for an address that
        is not valid.
        """
        session, parameters = self._parse_session(request), request.query_params
        covered, ids = (
            ANSWERS.get(parameters.get("answer", "")),
            (parameters.get("keypoint", ""), parameters.get("sample", "")),
        )
        if covered is None:
            raise BadAnswer("the answer about a fact must be yes or no: open the page again")
        key = parse_whole_number(ids[0]), parse_whole_number(ids[1])
        with self.engine.begin() as connection:
            is_stored = store_label(connection, session.rater, key, parameters.get("digest", ""), covered=covered)
        why = "your answer was not stored: the fact was labelled, changed or dropped meanwhile"
        return build_change_response(is_stored, "stored", why)

    def undo_answer(self, request: Request) -> Response:
        """Delete the last label of the person whom the address names. Return JSON that it is taken back; status 409 if
        there is none. Raises BadAnswer for an address that is not valid.
        """
        rater = self._parse_session(request).rater
        with self.engine.begin() as connection:
            is_gone = delete_last_label(connection, rater)
        return build_change_response(is_gone, "taken back", NOTHING_GIVEN)

    def _parse_session(self, request: Request, *, named: bool = True) -> LabelSession:
        """Return the state that an address holds. Raises BadAnswer."""
        dataset, parameters = require_dataset(self.engine, request.path_params["dataset"]), request.query_params
        rater = LabelRater(dataset, parameters.get("rater", ""), parse_whole_number(parameters.get("seed", "0")))
        if named or rater.name:
            check_names(rater.name, "keypoints")
        skipped = [tuple(map(parse_whole_number, text.split("-"))) for text in parameters.getlist("skip")]
        if any(len(key) != 2 for key in skipped):
            raise BadAnswer("the skipped fact in the address is not valid: open the page again")
        return LabelSession(rater, tuple((key[0], key[1]) for key in skipped))
