"""The pages of `reelsieve rate`: one caption at a time, or two side by side, without systems and scores."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import urlencode

from markupsafe import Markup
from pydantic import ValidationError
from sqlalchemy.engine import Connection, Engine
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from assets.agreement.progress import Progress, compute_progress
from assets.datasets.lookup import require_dataset
from assets.ingest.hygiene import find_fault
from assets.ingest.rejects import Reject
from assets.ingest.rows import RatingRow
from assets.ingest.scales import DEFAULT_SCALE, Scale, parse_scale
from assets.promise.cache import PromiseCache
from assets.promise.sentences import explain_countdown
from assets.promise.state import PromiseState
from assets.words.marked_text import split_words
from db.manifest.attention_checks import (
    AttentionCheck,
    count_questions,
    delete_last_check,
    find_due_check,
    store_check,
)
from db.manifest.datasets import Dataset
from db.manifest.rating import (
    CHOSEN_FIELD,
    CaptionIds,
    CaptionToRate,
    Rater,
    count_answers,
    count_answers_by_rater,
    delete_last_answer,
    find_scale,
    list_next_captions,
    store_answer,
)
from db.manifest.rating_scales import find_scale_name
from db.manifest.wrong_spans import list_spans
from db.reports.judgements import LABELS_ASPECT, SPANS_ASPECT
from db.reports.samples import find_video, load_references
from orchestration.look.answering import build_change_response, catch_page_errors, render_look_page
from orchestration.look.media import explain_missing_file

# The answers of every scale with their ratings, which are from 1 to 5 for every aspect without a declared scale.
SCALES: Mapping[str, Mapping[str, float]] = {
    "1-5": {str(number): float(number) for number in range(1, 6)},
    "0-100": {str(number): 1 + number / 25 for number in range(101)},
    "yes-no": {"yes": 5.0, "no": 1.0},
}
# Which of two captions is better: A, which is shown on the left or above, or B; 1 means A.
PREFERENCES: Mapping[str, int] = {"a": 1, "tie": 0, "b": -1}
NOTHING_GIVEN = "there is no answer to take back"
# Scales with more numbers have a slider.
_MOST_BUTTONS = 10
_MOST = 2**63
# Python refuses to read longer ones than some thousand digits.
_MOST_DIGITS = 30
_DIGEST = re.compile(r"[0-9a-f]{64}")


class BadAnswer(ValueError):
    """Raised when an address of a rating or labelling page is not valid, such as one with a bad answer, rater or
    aspect; the message gives the reason and the remedy.
    """

    plain = True


class RatingSetup(NamedTuple):
    """Extras of the page for one aspect. guidelines: as HTML, shown next to the question. check_every: one in so many
    questions is an attention check, if the scale has two ends. None for none.
    """

    guidelines: Markup | None = None
    check_every: int | None = None


@dataclass(frozen=True, slots=True)
class RatingSession:
    """The state of a rating page, as its address holds it. scale: a name of SCALES, or of the aspect's declared scale,
    which is in `declared` too; None if pairs are compared.
    skipped: ids of the captions or pairs that the rater skipped. promise: the number of the promise that
    captions are asked for, or None.
    """

    rater: Rater
    scale: str | None
    skipped: tuple[CaptionIds, ...] = ()
    promise: int | None = None
    declared: Scale | None = None

    @property
    def answers(self) -> Mapping[str, float]:
        """Values by answer, where buttons or a slider of a scale without a declaration give it: ratings from 1 to 5. On
        a declared scale they are its own numbers, and {} if they are more than ten. For pairs "a" is 1, "tie" 0 and "b"
        -1; 1 means that the first caption shown is better.
        """
        if self.scale is None:
            return PREFERENCES
        if self.declared is None:
            return SCALES[self.scale]
        if self.declared.is_yes_no:
            return {"yes": 1.0, "no": 0.0}
        least, most = self.declared.least, self.declared.most
        is_short = least is not None and most is not None and least >= 0 and most < _MOST_BUTTONS
        return {str(n): float(n) for n in range(int(least or 0), int(most or 0) + 1)} if is_short else {}

    def parse_answer(self, text: str) -> float | None:
        """Return the value of an answer; None for one that cannot be given."""
        if self.answers or self.declared is None:
            return self.answers.get(text)
        try:
            value = self.declared.parse_rating(float(text), is_mean=False)
        except ValueError:
            return None
        return None if isinstance(value, Reject) else float(value)

    @property
    def ends(self) -> tuple[float | None, float | None] | None:
        """The lowest and highest number of a slider, both None for a field that takes any number; None for buttons."""
        if self.scale == "0-100" and self.declared is None:
            return 0.0, 100.0
        return None if self.answers or self.declared is None else (self.declared.least, self.declared.most)

    def has_passed(self, value: float) -> bool | None:
        """Return whether an answer to an attention check passes: a rating of the planted caption in the worst third of
        the scale, or a preference that is not for it (value below 1). None on a scale without ends.
        """
        if self.scale is None:
            return value < 1
        scale = self.declared or DEFAULT_SCALE
        if scale.least is None or scale.most is None:
            return None
        third = (scale.most - scale.least) / 3
        return value >= scale.most - third if scale.lowest_is_best else value <= scale.least + third

    @property
    def legend(self) -> str:
        """The meaning of the scale's ends, such as "1 is worst, 5 best"; "" where the answers explain themselves."""
        scale = self.declared or parse_scale(self.scale or "")
        if scale is None or scale.is_yes_no:
            return ""
        if scale.least is None or scale.most is None:
            return f"the {'lowest' if scale.lowest_is_best else 'highest'} number is best"
        worst, best = (scale.most, scale.least) if scale.lowest_is_best else (scale.least, scale.most)
        return f"{worst:g} is worst, {best:g} best"

    @property
    def question(self) -> str:
        """The question about the caption, or about the two of a pair, in words."""
        aspect = self.rater.aspect
        is_overall = aspect.casefold() == "overall"
        if self.scale is None:
            return "Which caption is better overall?" if is_overall else f"Which caption is better in {aspect}?"
        is_yes_no = self.scale.startswith("yes-no")
        if self.declared and self.declared.lowest_is_best:
            return f"Does the caption have {aspect}?" if is_yes_no else f"How much {aspect} does the caption have?"
        subject, rest = ("the caption", " overall") if is_overall else (f"the caption's {aspect}", "")
        return f"Is {subject} good{rest}?" if is_yes_no else f"How good is {subject}{rest}?"

    def format_query(self, *, skip: Sequence[CaptionToRate] = (), with_skipped: bool = True) -> str:
        """Return the query string of an address with this state, beginning with `?`. skip: a caption, or the two of a
        pair, to add to the skipped ones. with_skipped: whether those skipped earlier are kept.
        """
        rater = self.rater
        parameters = [("aspect", rater.aspect), ("rater", rater.name), ("seed", str(rater.seed))]
        parameters.append(("pairs", "1") if self.scale is None else ("scale", self.scale))
        parameters += [("spans", "1")] if rater.spans else []
        parameters += [] if self.promise is None else [("for-promise", str(self.promise))]
        skipped = list(self.skipped if with_skipped else ())
        skipped += [tuple(sorted(item.sample_id for item in skip))] if skip else []
        return f"?{urlencode([*parameters, *(('skip', '-'.join(map(str, key))) for key in skipped)])}"

    def format_answer_query(self, items: Sequence[CaptionToRate]) -> str:
        """Return the query string, beginning with `?`, to which an answer about these captions is sent. It has this
        state, and the captions' ids and text hashes. items: one caption, or the two of a pair in the order shown. The
        answer itself is not in it.
        """
        parameters = [(name, text) for item in items for name, text in _list_item_fields(item)]
        return f"{self.format_query()}&{urlencode(parameters)}"


@dataclass(frozen=True, slots=True)
class RatePages:
    """The pages where people rate captions or compare two, as methods from a request to a response. They read and write
    the database of one installation. promises: a cache of the sets of promises. setups: guidelines and
    attention checks, by aspect.
    """

    engine: Engine
    promises: PromiseCache
    setups: Mapping[str, RatingSetup]

    def list_routes(self, dataset_path: str) -> list[Route]:
        """Return the routes of the rating pages: the caption, the answer, taking it back, progress, and the raters.
        dataset_path: the path of a dataset's pages, such as "/look/{dataset}".
        """
        return [
            Route(f"{dataset_path}/rate", catch_page_errors(self.render_item)),
            Route(f"{dataset_path}/rate", catch_page_errors(self.accept_answer), methods=["POST"]),
            Route(f"{dataset_path}/rate/undo", catch_page_errors(self.undo_answer), methods=["POST"]),
            Route(f"{dataset_path}/rate/progress", catch_page_errors(self.render_progress)),
            Route(f"{dataset_path}/rate/raters", catch_page_errors(self.render_raters)),
        ]

    def render_item(self, request: Request) -> Response:
        """Return the page with the next caption, or the next two for pairs, to rate. It has none if none is left.
        Without a rater's name or an aspect in the address, return the page that asks for them. Raises BadAnswer for an
        address that is not valid, and SelectionError for a promise that cannot be asked for.
        """
        dataset, parameters = require_dataset(self.engine, request.path_params["dataset"]), request.query_params
        if not parameters.get("rater") or not parameters.get("aspect"):
            return render_look_page("rater.html", dataset=dataset.name, parameters=parameters, scales=SCALES)
        with self.engine.connect() as connection:
            session = parse_session(connection, dataset, parameters)
        setup = self.setups.get(session.rater.aspect, RatingSetup())
        promised = self._load_promise(session)
        drawn = promised.list_next_ids() if promised else None
        with self.engine.connect() as connection:
            items = list_next_captions(connection, session.rater, session.skipped, drawn)
            n, total = count_answers(connection, session.rater)
            # The number of rated captions does not grow with a check, and would give it away.
            n_questions = count_questions(connection, session.rater) if setup.check_every else None
            if items and (check := self.find_check(connection, session)):
                items = list(check.items)
            shown = load_caption_context(connection, dataset, items[0].video_id) if items else {}
            if items and session.rater.spans:
                shown["words"] = split_words(items[0].text, list_spans(connection, session.rater, items[0]))
        shown |= {"guidelines": setup.guidelines, "n": n, "total": total, "n_questions": n_questions}
        shown["countdown"] = explain_countdown(promised) if promised else None
        return render_look_page("rate.html", dataset=dataset.name, session=session, items=items, **shown)

    def render_progress(self, request: Request) -> Response:
        """Return a part of a page for a rater and an aspect: how closely the metrics agree with people so far, and how
        many more ratings are needed. Raises BadAnswer for an address that is not valid.
        """
        dataset, parameters = require_dataset(self.engine, request.path_params["dataset"]), request.query_params
        # One state of the database, in one transaction.
        with self.engine.connect().execution_options(isolation_level="REPEATABLE READ") as connection:
            rater = parse_session(connection, dataset, parameters).rater
            progress: Progress = compute_progress(connection, dataset, rater.aspect, rater.name, pairs=rater.pairs)
        return render_look_page("progress.html", progress=progress, aspect=rater.aspect)

    def render_raters(self, request: Request) -> Response:
        """Return a part of a page with the number of rated captions or compared pairs of every rater of the aspect that
        the address names; with attention checks the number of all answers. Raises BadAnswer for an address that is not
        valid.
        """
        dataset = require_dataset(self.engine, request.path_params["dataset"])
        with self.engine.connect() as connection:
            rater = parse_session(connection, dataset, request.query_params).rater
            raters = count_answers_by_rater(connection, rater)
            total: int | None = count_answers(connection, rater)[1]
            if self.setups.get(rater.aspect, RatingSetup()).check_every:
                # The number of rated captions does not grow with a check, and would give it away.
                raters = [(name, max(n, count_questions(connection, rater._replace(name=name)))) for name, n in raters]
                total = None
        return render_look_page("raters.html", raters=raters, total=total, pairs=rater.pairs)

    def accept_answer(self, request: Request) -> Response:
        """Store the rating or preference that the address holds, or the answer to an attention check. Return JSON that
        it is stored; status 409 if the caption was answered in another window, changed or dropped meanwhile. Raises
        BadAnswer for an address that is not valid.
        """
        dataset, parameters = require_dataset(self.engine, request.path_params["dataset"]), request.query_params
        with self.engine.connect() as connection:
            session = parse_session(connection, dataset, parameters)
        with self.engine.begin() as connection:
            value, captions = session.parse_answer(parameters.get("answer", "")), parse_answered_captions(parameters)
            if value is None or len(captions) != 1 + session.rater.pairs:
                raise BadAnswer(f"the answer about {session.rater.aspect} is not valid: open the page again")
            extra: dict[str, Any] = {"answer": parameters["answer"], "seed": session.rater.seed}
            extra |= {"a": captions[0][0]} if session.scale is None else {"scale": session.scale}
            extra |= {"spans": True} if session.rater.spans else {}
            check = self.find_check(connection, session)
            if check and captions == [(item.sample_id, item.text_sha256) for item in check.items]:
                # Of two captions, 1 means that the first one shown is better.
                value = -value if check.place else value
                has_passed = bool(session.has_passed(value))
                return _build_answer_response(
                    store_check(connection, session.rater, check, value, extra, has_passed=has_passed)
                )
            if session.scale is None:
                value = value if captions[0] < captions[1] else -value
            if session.promise is not None:
                extra[CHOSEN_FIELD] = {"question": f"promise {session.promise}"}
            is_stored = store_answer(connection, session.rater, captions, value, extra, session.skipped)
        return _build_answer_response(is_stored)

    def find_check(self, connection: Connection, session: RatingSession) -> AttentionCheck | None:
        """Find the attention check that is due; None where another question is, where no answer to one can be judged,
        or where the page shows neither a video nor references, by which people know a wrong caption.
        """
        every = self.setups.get(session.rater.aspect, RatingSetup()).check_every
        if every is None or session.has_passed(0) is None:
            return None
        check = find_due_check(connection, session.rater, every, session.skipped)
        if check is None:
            return None
        shown = load_caption_context(connection, session.rater.dataset, check.items[0].video_id)
        return None if shown["no_file"] and not shown["references"] else check

    def _load_promise(self, session: RatingSession) -> PromiseState | None:
        """Return the state of the promise that a session asks for; None for none. Raises SelectionError, and BadAnswer
        for an aspect that is not the promise's.
        """
        if session.promise is None:
            return None
        state = self.promises.load(session.rater.dataset, session.promise)
        if state.terms.aspect != session.rater.aspect:
            counted = "scores of the judge" if state.terms.aspect is None else f"ratings of {state.terms.aspect}"
            raise BadAnswer(
                f"promise {session.promise} counts {counted}, not of {session.rater.aspect}: rate that aspect"
            )
        return state

    def undo_answer(self, request: Request) -> Response:
        """Delete the rater's last answer about the aspect that the address names: a preference for pairs, else a
        rating, or the answer to an attention check. Return JSON that it is taken back; status 409 if there is none.
        Raises BadAnswer for an address that is not valid.
        """
        dataset = require_dataset(self.engine, request.path_params["dataset"])
        with self.engine.begin() as connection:
            rater = parse_session(connection, dataset, request.query_params).rater
            is_gone = delete_last_check(connection, rater) or delete_last_answer(connection, rater)
        return build_change_response(is_gone, "taken back", NOTHING_GIVEN)


def parse_session(connection: Connection, dataset: Dataset, parameters: QueryParams) -> RatingSession:
    """Return the state that an address holds. Raises BadAnswer, also if this aspect was rated on another scale."""
    pairs = parameters.get("pairs") == "1"
    rater = Rater(
        dataset,
        parameters.get("rater", ""),
        parameters.get("aspect", ""),
        parse_whole_number(parameters.get("seed", "0")),
        pairs,
        parameters.get("spans") == "1",
    )
    check_names(rater.name, rater.aspect)
    skipped = tuple(tuple(map(parse_whole_number, text.split("-"))) for text in parameters.getlist("skip"))
    if any(len(key) != 1 + pairs for key in skipped):
        raise BadAnswer("the skipped caption or pair in the address is not valid: open the page again")
    if pairs and rater.spans:
        raise BadAnswer("wrong words are marked in one caption at a time: leave pairs or spans out of the address")
    promise = parse_whole_number(parameters["for-promise"]) if "for-promise" in parameters else None
    if promise is not None and pairs:
        raise BadAnswer("captions for a promise have an order of their own: leave pairs out of the address")
    if pairs:
        return RatingSession(rater, None, skipped)
    declared = find_scale_name(connection, dataset, rater.aspect)
    rated = find_scale(connection, dataset, rater.aspect)
    # A manifest may have an own field of this name, with any content.
    known = declared or (rated if rated in SCALES else None)
    scale = parameters.get("scale") or known or next(iter(SCALES))
    if scale not in SCALES and scale != known:
        raise BadAnswer(f"there is no scale {scale[:40]!r}: choose one of {', '.join(SCALES)}")
    if known is not None and known != scale:
        raise BadAnswer(f"{rater.aspect} is rated on the scale {known} here: use that scale, or name another aspect")
    own_scale = parse_scale(declared) if declared else None
    return RatingSession(rater, scale, skipped, promise, own_scale)


def _build_answer_response(is_stored: bool) -> Response:
    """Return the JSON response to an answer."""
    why = "your answer was not stored: the caption was answered in another window, changed or dropped meanwhile"
    return build_change_response(is_stored, "stored", why)


def _list_item_fields(item: CaptionToRate) -> list[tuple[str, str]]:
    return [("sample", str(item.sample_id)), ("text", item.text_sha256.hex())]


def parse_answered_captions(parameters: QueryParams) -> list[tuple[int, bytes]]:
    """Return (sample id, hash of its text) for every caption that an answer is about. Raises BadAnswer."""
    ids, digests = [parse_whole_number(text) for text in parameters.getlist("sample")], parameters.getlist("text")
    if len(ids) != len(digests) or not all(map(_DIGEST.fullmatch, digests)):
        raise BadAnswer("the answer names no caption: open the page again")
    return list(zip(ids, map(bytes.fromhex, digests), strict=True))


def load_caption_context(connection: Connection, dataset: Dataset, video_id: int) -> dict[str, Any]:
    """Return a template's values about the video of a caption. "video": its columns. "no_file": the reason why it has
    no file to show, or None. "references": their texts if there is no file, else []. video_id: a video of the dataset.
    """
    video = find_video(connection, dataset.dataset_id, video_id)
    assert video is not None, "a foreign key says that every sample has one"
    reason = explain_missing_file(video)
    references = [text for _, text in load_references(connection, video_id)] if reason else []
    return {"video": video, "no_file": reason, "references": references}


def check_names(rater: str, aspect: str) -> None:
    """Raise BadAnswer for the name of a rater or an aspect that a manifest would not allow, such as an empty one, and
    for an aspect that agreement computes from labels or wrong words.
    """
    if aspect in (LABELS_ASPECT, SPANS_ASPECT):
        raise BadAnswer(f"{aspect} is computed from labels or marks, and not rated: name another aspect")
    names = {"rater": rater, "aspect": aspect}
    if refused := find_fault(names):
        raise BadAnswer(refused.reason)
    try:
        RatingRow(caption_id="any", value=1, **names)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        raise BadAnswer(f"the {problem['loc'][0]} {problem['msg']}") from error


def parse_whole_number(text: str) -> int:
    """Return the decimal digits of an address as a whole number from 0 to below 2^63. Raises BadAnswer for any other
    text, and for more than 30 digits.
    """
    if not text.isdecimal() or not text.isascii() or len(text) > _MOST_DIGITS or int(text) >= _MOST:
        raise BadAnswer(f"{text[:40]!r} in the address is not a whole number: open the page again")
    return int(text)
