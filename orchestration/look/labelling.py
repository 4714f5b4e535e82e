"""The pages of `reelsieve rate --keypoints`: does the caption state this fact?"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlencode

from sqlalchemy.engine import Engine
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from assets.datasets import dataset_of_key
from db.manifest.labelling import Fact, Labeller, n_labelled, next_fact, store_label, take_back_label
from orchestration.look.answering import changed, page, told
from orchestration.look.rating import NOTHING_GIVEN, BadAnswer, beside, check_names, whole_number

ANSWERS = {"yes": True, "no": False}


@dataclass(frozen=True, slots=True)
class Session:
    """What the address of a page says. skipped: ids of keypoint and caption that are left for later."""

    rater: Labeller
    skipped: tuple[tuple[int, int], ...] = ()

    def query(self, *, skip: Fact | None = None, with_skipped: bool = True) -> str:
        """The part of the address behind the path; skip: what else to skip."""
        skipped = (*(self.skipped if with_skipped else ()), *([] if skip is None else [skip[:2]]))
        said = [("rater", self.rater.name), ("seed", str(self.rater.seed))]
        return f"?{urlencode([*said, *(('skip', f'{k}-{s}') for k, s in skipped)])}"


@dataclass(frozen=True, slots=True)
class LabelPages:
    """The pages where people label keypoints."""

    engine: Engine

    def routes(self, own: str) -> list[Route]:
        """Where they stand, below the path of a dataset's pages."""
        return [
            Route(f"{own}/rate/facts", told(self.fact)),
            Route(f"{own}/rate/facts", told(self.answer), methods=["POST"]),
            Route(f"{own}/rate/facts/undo", told(self.undo), methods=["POST"]),
        ]

    def fact(self, request: Request) -> Response:
        """The next keypoint; without a rater, the question who labels."""
        session = self._session(request, named=False)
        dataset = session.rater.dataset
        if not session.rater.name:
            return page("labeller.html", dataset=dataset.name, seed=session.rater.seed)
        with self.engine.connect() as connection:
            fact, n = next_fact(connection, session.rater, session.skipped), n_labelled(connection, session.rater)
            shown = {} if fact is None else beside(connection, dataset, fact.video_id)
        return page("facts.html", dataset=dataset.name, session=session, fact=fact, n=n, **shown)

    def answer(self, request: Request) -> Response:
        """Store a label."""
        session, said = self._session(request), request.query_params
        covered, ids = ANSWERS.get(said.get("answer", "")), (said.get("keypoint", ""), said.get("sample", ""))
        if covered is None:
            raise BadAnswer("this is no answer to the question about a fact: open the page again")
        key = whole_number(ids[0]), whole_number(ids[1])
        with self.engine.begin() as connection:
            is_stored = store_label(connection, session.rater, key, said.get("digest", ""), covered=covered)
        why = "somebody labelled this meanwhile, or it was changed or dropped: that answer was not stored"
        return changed(is_stored, "stored", why)

    def undo(self, request: Request) -> Response:
        """Take the rater's last label back."""
        rater = self._session(request).rater
        with self.engine.begin() as connection:
            is_gone = take_back_label(connection, rater)
        return changed(is_gone, "taken back", NOTHING_GIVEN)

    def _session(self, request: Request, *, named: bool = True) -> Session:
        """The session of an address. Raises BadAnswer."""
        dataset, said = dataset_of_key(self.engine, request.path_params["dataset"]), request.query_params
        rater = Labeller(dataset, said.get("rater", ""), whole_number(said.get("seed", "0")))
        if named or rater.name:
            check_names(rater.name, "keypoints")
        skipped = [tuple(map(whole_number, text.split("-"))) for text in said.getlist("skip")]
        if any(len(key) != 2 for key in skipped):
            raise BadAnswer("what the address skips is no fact of a caption: open the page again")
        return Session(rater, tuple((key[0], key[1]) for key in skipped))
