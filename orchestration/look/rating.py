"""The pages of `reelsieve rate`: one caption at a time, blind to its system and scores."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from pydantic import ValidationError
from sqlalchemy.engine import Connection, Engine
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from assets.datasets import dataset_of_key
from assets.ingest.hygiene import check
from assets.ingest.rows import RatingRow
from db.manifest.datasets import Dataset
from db.manifest.rating import Item, Rater, n_rated, next_item, scale_of, store_rating, take_back
from db.reports.samples import references_of, video_of
from orchestration.look.answering import page, told
from orchestration.look.media import no_file

# By name, the answers and their value from 1 to 5, which ratings everywhere have: 5 is best.
SCALES: Mapping[str, Mapping[str, float]] = {
    "1-5": {str(number): float(number) for number in range(1, 6)},
    "0-100": {str(number): 1 + number / 25 for number in range(101)},
    "yes-no": {"yes": 5.0, "no": 1.0},
}
_MOST = 2**63
_DIGEST = re.compile(r"[0-9a-f]{64}")


class BadAnswer(ValueError):
    """What cannot be taken for a rating; the message says why and what to do."""

    plain = True


@dataclass(frozen=True, slots=True)
class Session:
    """What the address of a rating page says. skipped: captions that are left for later, by id."""

    rater: Rater
    scale: str
    skipped: tuple[int, ...] = ()

    def query(self, *, skip: int | None = None, with_skipped: bool = True) -> str:
        """The part of the address behind the path; skip: a further caption to skip."""
        rater = self.rater
        said = [("aspect", rater.aspect), ("rater", rater.name), ("scale", self.scale), ("seed", str(rater.seed))]
        skipped = (*self.skipped, *([] if skip is None else [skip])) if with_skipped else ()
        return f"?{urlencode([*said, *(('skip', str(i)) for i in skipped)])}"


@dataclass(frozen=True, slots=True)
class RatePages:
    """The pages where people rate."""

    engine: Engine

    def routes(self, own: str) -> list[Route]:
        """Where they stand, below the path of a dataset's pages."""
        return [
            Route(f"{own}/rate", told(self.item)),
            Route(f"{own}/rate", told(self.answer), methods=["POST"]),
            Route(f"{own}/rate/undo", told(self.undo), methods=["POST"]),
        ]

    def item(self, request: Request) -> Response:
        """The next caption; without a rater or an aspect, the question who rates what."""
        dataset, said = dataset_of_key(self.engine, request.path_params["dataset"]), request.query_params
        if not said.get("rater") or not said.get("aspect"):
            return page("rater.html", dataset=dataset.name, said=said, scales=SCALES)
        with self.engine.connect() as connection:
            session = _session(connection, dataset, said)
            item = next_item(connection, session.rater, session.skipped)
            n, total = n_rated(connection, session.rater)
            shown = {} if item is None else _shown(connection, session.rater, item)
        choices = list(SCALES[session.scale])
        return page(
            "rate.html", dataset=dataset.name, session=session, item=item, n=n, total=total, choices=choices, **shown
        )

    def answer(self, request: Request) -> Response:
        """Store an answer."""
        dataset, said = dataset_of_key(self.engine, request.path_params["dataset"]), request.query_params
        with self.engine.begin() as connection:
            session = _session(connection, dataset, said)
            value, digest = SCALES[session.scale].get(said.get("answer", "")), said.get("text", "")
            if value is None or not _DIGEST.fullmatch(digest):
                raise BadAnswer(f"this is no answer on the scale {session.scale}: open the page again")
            extra = {"scale": session.scale, "answer": said["answer"], "seed": session.rater.seed}
            sample_id = _number(said.get("sample", ""))
            is_stored = store_rating(connection, session.rater, sample_id, bytes.fromhex(digest), value, extra)
        if is_stored:
            return JSONResponse({"told": "stored"})
        why = "the caption was rated in another window, changed or dropped meanwhile: that answer was not stored"
        return JSONResponse({"told": why}, 409)

    def undo(self, request: Request) -> Response:
        """Take the rater's last answer back."""
        dataset = dataset_of_key(self.engine, request.path_params["dataset"])
        with self.engine.begin() as connection:
            is_gone = take_back(connection, _session(connection, dataset, request.query_params).rater)
        return JSONResponse(
            {"told": "taken back" if is_gone else "there is no answer to take back"}, 200 if is_gone else 409
        )


def _session(connection: Connection, dataset: Dataset, said: QueryParams) -> Session:
    """The session of an address. Raises BadAnswer, also where this aspect was rated on another scale."""
    rater = Rater(dataset, said.get("rater", ""), said.get("aspect", ""), _number(said.get("seed", "0")))
    _check_names(rater)
    known = scale_of(connection, dataset, rater.aspect)
    scale = said.get("scale") or known or next(iter(SCALES))
    if scale not in SCALES:
        raise BadAnswer(f"there is no scale {scale[:40]!r}: choose one of {', '.join(SCALES)}")
    if known is not None and known != scale:
        raise BadAnswer(f"{rater.aspect} is rated on the scale {known} here: use that scale, or name another aspect")
    return Session(rater, scale, tuple(_number(text) for text in said.getlist("skip")))


def _shown(connection: Connection, rater: Rater, item: Item) -> dict[str, Any]:
    """What a rater sees beside the caption: the video, or where it has no file its references."""
    video = video_of(connection, rater.dataset.dataset_id, item.video_id)
    assert video is not None, "a foreign key says that every sample has one"
    reason = no_file(video)
    references = [text for _, text in references_of(connection, item.video_id)] if reason else []
    return {"video": video, "no_file": reason, "references": references}


def _check_names(rater: Rater) -> None:
    """Raise BadAnswer for a rater or an aspect that no manifest could name."""
    names = {"rater": rater.name, "aspect": rater.aspect}
    if refused := check(names):
        raise BadAnswer(refused.reason)
    try:
        RatingRow(caption_id="any", value=1, **names)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        raise BadAnswer(f"the {problem['loc'][0]} {problem['msg']}") from error


def _number(text: str) -> int:
    if not text.isdecimal() or not text.isascii() or int(text) >= _MOST:
        raise BadAnswer(f"{text[:40]!r} is no whole number of the address: open the page again")
    return int(text)
