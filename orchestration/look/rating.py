"""The pages of `reelsieve rate`: one caption at a time, two side by side, or a keypoint to label, without systems and
scores; and the requests by which raters mark wrong words.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from pydantic import ValidationError
from sqlalchemy.engine import Connection
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response

from assets.agreement.progress import Progress, compute_progress
from assets.ingest.hygiene import find_fault, format_value
from assets.ingest.rejects import Reject
from assets.ingest.rows import RatingRow
from assets.ingest.scales import DEFAULT_SCALE, Scale, parse_scale
from assets.promise.sentences import explain_countdown
from assets.promise.state import PromiseState
from assets.words.marked_text import split_words
from db.manifest.answers import (
    CHOSEN_FIELD,
    Key,
    Question,
    Rater,
    count_answers,
    count_answers_by_rater,
    count_questions,
    delete_last_answer,
    delete_mark,
    find_due_check,
    find_next_question,
    find_scale,
    list_marks,
    require_seen,
    store_answer,
    store_mark,
)
from db.manifest.datasets import Dataset
from db.manifest.rating_scales import find_scale_name
from db.reports.judgements import LABELS_ASPECT, SPANS_ASPECT
from db.reports.samples import find_video, load_references
from orchestration.look.answering import BadAnswer, build_change_response, parse_whole_number, render_look_page
from orchestration.look.media import explain_missing_file
from orchestration.look.state import LookState, RatingSetup, get_state, require_asked_dataset
from orchestration.web.access import MEDIA_KEY, SIGN_MEDIA

# The answers of every scale with their ratings, which are from 1 to 5 for every aspect without a declared scale.
SCALES: Mapping[str, Mapping[str, float]] = {
    "1-5": {str(number): float(number) for number in range(1, 6)},
    "0-100": {str(number): 1 + number / 25 for number in range(101)},
    "yes-no": {"yes": 5.0, "no": 1.0},
}
# Which of two captions is better: A, which is shown on the left or above, or B; 1 means A.
_PREFERENCES: Mapping[str, int] = {"a": 1, "tie": 0, "b": -1}
_LABELS: Mapping[str, int] = {"yes": 1, "no": 0}
# Scales with more numbers have a slider.
_MOST_BUTTONS = 10
_DIGEST = re.compile(r"[0-9a-f]{64}")
# At the end of the address that takes a mark back.
_REMOVE = "&remove=1"


@dataclass(frozen=True, slots=True)
class RatingSession:
    """The state of a rating page, as its address holds it. scale: a name of SCALES, or of the aspect's declared scale,
    which is in `declared` too; None for pairs and keypoints. skipped: what the rater skipped. promise: the number of
    the promise that captions are asked for, or None.
    """

    rater: Rater
    scale: str | None
    skipped: tuple[Key, ...] = ()
    promise: int | None = None
    declared: Scale | None = None

    @property
    def answers(self) -> Mapping[str, float]:
        """Values by answer, for the buttons, or the slider of a scale that is not declared: ratings from 1 to 5. On a
        declared scale they are its own numbers, {} where there are no buttons. For pairs 1 means that the first caption
        shown is better, and for keypoints that the caption states it.
        """
        if self.scale is None:
            return _LABELS if self.rater.kind == "label" else _PREFERENCES
        if self.declared is None:
            return SCALES[self.scale]
        if self.declared.is_yes_no:
            return {"yes": 1.0, "no": 0.0}
        least, most = self.declared.least, self.declared.most
        is_short = least is not None and most is not None and least >= 0 and most < _MOST_BUTTONS
        return {str(n): float(n) for n in range(int(least or 0), int(most or 0) + 1)} if is_short else {}

    def parse_answer(self, text: str) -> float | None:
        """Return the value of an answer; None for one that the scale does not have."""
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
        """The question about the caption, about the two of a pair, or about a keypoint, in words."""
        if self.rater.kind == "label":
            return "Does the caption state this fact?"
        aspect = self.rater.aspect
        is_overall = aspect.casefold() == "overall"
        if self.scale is None:
            return "Which caption is better overall?" if is_overall else f"Which caption is better in {aspect}?"
        is_yes_no = self.scale.startswith("yes-no")
        if self.declared and self.declared.lowest_is_best:
            return f"Does the caption have {aspect}?" if is_yes_no else f"How much {aspect} does the caption have?"
        subject, rest = ("the caption", " overall") if is_overall else (f"the caption's {aspect}", "")
        return f"Is {subject} good{rest}?" if is_yes_no else f"How good is {subject}{rest}?"

    @property
    def page(self) -> str:
        """The path of the page below that of its dataset."""
        return "rate/facts" if self.rater.kind == "label" else "rate"

    def format_query(self, *, skip: Question | None = None, with_skipped: bool = True) -> str:
        """Return the query string of an address with this state, beginning with `?`. skip: a question to add to the
        skipped ones. with_skipped: whether those skipped earlier are kept.
        """
        rater = self.rater
        parameters = [("rater", rater.name), ("seed", str(rater.seed))]
        if rater.kind != "label":
            parameters.append(("aspect", rater.aspect))
            parameters.append(("pairs", "1") if self.scale is None else ("scale", self.scale))
        parameters += [("spans", "1")] if rater.spans else []
        parameters += [] if self.promise is None else [("for-promise", str(self.promise))]
        skipped = [*(self.skipped if with_skipped else ()), *([] if skip is None else [skip.key])]
        return f"?{urlencode([*parameters, *(('skip', '-'.join(map(str, key))) for key in skipped)])}"

    def format_answer_query(self, question: Question) -> str:
        """Return the query string, beginning with `?`, to which the answer to a question is sent: this state, the ids
        of what is shown and the hash of its texts. The answer itself is not in it.
        """
        parameters = [("sample", str(sample_id)) for sample_id in question.sample_ids]
        parameters += [("keypoint", str(question.keypoint[0]))] if question.keypoint else []
        return f"{self.format_query()}&{urlencode([*parameters, ('seen', question.seen)])}"


def render_question(request: Request) -> Response:
    """Return the page with what the rater is asked next; it asks nothing at the end. Without a rater's name or an
    aspect in the address, return the page that asks for them. Raises BadAnswer for an address that is not valid, and
    SelectionError for a promise that cannot be asked for.
    """
    state, dataset, parameters = get_state(request), require_asked_dataset(request), request.query_params
    is_label = _is_label_page(request)
    if not parameters.get("rater") or not (is_label or parameters.get("aspect")):
        return render_look_page(
            "rater.html", dataset=dataset.name, parameters=parameters, scales=SCALES, is_label=is_label
        )
    with state.engine.connect() as connection:
        session = _parse_session(connection, dataset, request)
    setup = state.setups.get(session.rater.aspect, RatingSetup())
    promised = _load_promise(state, session)
    drawn = promised.list_next_ids() if promised else None
    with state.engine.connect() as connection:
        question = find_next_question(connection, session.rater, session.skipped, drawn)
        n, total = count_answers(connection, session.rater)
        # The number of rated captions does not grow with a check, and would give it away.
        n_questions = count_questions(connection, session.rater) if setup.check_every else None
        question = question and (_find_check(connection, state, session) or question)
        shown = _load_context(connection, dataset, question) if question else {}
        if question and session.rater.spans:
            marks = list_marks(connection, session.rater, question)
            shown["words"] = split_words(question.captions[0].text, marks)
    shown |= {"guidelines": setup.guidelines, "n": n, "total": total, "n_questions": n_questions}
    shown["countdown"] = explain_countdown(promised) if promised else None
    # Of the pages a rater's link opens this one only, and the videos that it shows.
    sign_media = request.scope.get(SIGN_MEDIA)
    shown["is_link"] = sign_media is not None
    if sign_media and question:
        key = sign_media(f"/look/{dataset.name}/video/{shown['video']['video_id']}")
        shown["media_query"] = f"&{MEDIA_KEY}={key}"
    return render_look_page("rate.html", dataset=dataset.name, session=session, question=question, **shown)


def accept_answer(request: Request) -> Response:
    """Store the answer that the address holds. Return JSON that it is stored; status 409 if it was given already.
    Raises BadAnswer for an address that is not valid, and TextChanged.
    """
    state, dataset, parameters = get_state(request), require_asked_dataset(request), request.query_params
    with state.engine.begin() as connection:
        session = _parse_session(connection, dataset, request)
        rater, value = session.rater, session.parse_answer(parameters.get("answer", ""))
        if value is None:
            raise BadAnswer("the page does not offer this answer: open the page again")
        question = _require_seen(connection, state, session, parameters)
        extra: dict[str, Any] = {"answer": parameters["answer"], "seed": rater.seed}
        if rater.kind == "preference":
            extra["a"], value = question.sample_ids[0], question.turn(value)
        extra |= {} if session.scale is None else {"scale": session.scale}
        extra |= {"spans": True} if rater.spans else {}
        if session.promise is not None and question.planted_id is None:
            extra[CHOSEN_FIELD] = {"question": f"promise {session.promise}"}
        passed = session.has_passed(value) if rater.kind != "label" else None
        is_stored = store_answer(connection, rater, question, value, extra, session.skipped, has_passed=passed)
    why = "your answer was not stored: it was given already, in another window or by another rater"
    return build_change_response(is_stored, "stored", why)


def undo_answer(request: Request) -> Response:
    """Delete the last answer of the rater whom the address names, about its aspect or keypoints. Return JSON that it is
    taken back; status 409 if there is none. Raises BadAnswer for an address that is not valid.
    """
    dataset = require_asked_dataset(request)
    with get_state(request).engine.begin() as connection:
        is_gone = delete_last_answer(connection, _parse_session(connection, dataset, request).rater)
    return build_change_response(is_gone, "taken back", "there is no answer to take back")


def change_mark(request: Request) -> Response:
    """Mark the words that the address names, or with `remove` take their mark back. Return JSON with what was done, and
    in "undo" the address that undoes it; status 409 if it is done already, or a part of the words is marked. Raises
    BadAnswer for an address that is not valid, and TextChanged.
    """
    state, dataset, parameters = get_state(request), require_asked_dataset(request), request.query_params
    span = parse_whole_number(parameters.get("from", "")), parse_whole_number(parameters.get("to", ""))
    is_removed = "remove" in parameters
    with state.engine.begin() as connection:
        session = _parse_session(connection, dataset, request)
        if session.rater.kind != "rating":
            raise BadAnswer("words are marked in one caption: open the page again")
        question = _require_seen(connection, state, session, parameters)
        text = question.captions[0].text
        words = text[slice(*span)]
        if not words.strip() or span[1] > len(text):
            raise BadAnswer("the address names no words of the caption: open the page again")
        change = delete_mark if is_removed else store_mark
        is_done = change(connection, session.rater, question, span)
    done, why = f"{format_value(words)} is marked as wrong", "a word is marked already: take its mark back first"
    if is_removed:
        done, why = f"{format_value(words)} is not marked any more", f"{format_value(words)} is not marked"
    query = request.url.query.removesuffix(_REMOVE) + ("" if is_removed else _REMOVE)
    undo = f"/look/{quote(dataset.name, safe='')}/rate/spans?{query}"
    return build_change_response(is_done, done, why, undo)


def render_progress(request: Request) -> Response:
    """Return a part of a page for a rater and an aspect: how closely the metrics agree with people so far, and how many
    more ratings are needed. Raises BadAnswer for an address that is not valid.
    """
    dataset = require_asked_dataset(request)
    # One state of the database, in one transaction.
    with get_state(request).engine.connect().execution_options(isolation_level="REPEATABLE READ") as connection:
        rater = _parse_session(connection, dataset, request).rater
        pairs = rater.kind == "preference"
        progress: Progress = compute_progress(connection, dataset, rater.aspect, rater.name, pairs=pairs)
    return render_look_page("progress.html", progress=progress, aspect=rater.aspect)


def render_raters(request: Request) -> Response:
    """Return a part of a page with the number of rated captions or compared pairs of every rater of the aspect that the
    address names; with attention checks the number of all answers. Raises BadAnswer for an address that is not valid.
    """
    state, dataset = get_state(request), require_asked_dataset(request)
    with state.engine.connect() as connection:
        rater = _parse_session(connection, dataset, request).rater
        raters = count_answers_by_rater(connection, rater)
        total: int | None = count_answers(connection, rater)[1]
        if state.setups.get(rater.aspect, RatingSetup()).check_every:
            # The number of rated captions does not grow with a check, and would give it away.
            raters = [(name, max(n, count_questions(connection, rater._replace(name=name)))) for name, n in raters]
            total = None
    return render_look_page("raters.html", raters=raters, total=total, pairs=rater.kind == "preference")


def _is_label_page(request: Request) -> bool:
    return request.url.path.split("/")[4:5] == ["facts"]


def _parse_session(connection: Connection, dataset: Dataset, request: Request) -> RatingSession:
    """Return the state that an address holds. Raises BadAnswer, also if this aspect was rated on another scale."""
    parameters = request.query_params
    name, seed = parameters.get("rater", ""), parse_whole_number(parameters.get("seed", "0"))
    if _is_label_page(request):
        _check_names(name, "keypoints")
        return RatingSession(Rater(dataset, name, "", seed, "label"), None, _parse_skipped(parameters, 2))
    pairs, spans = parameters.get("pairs") == "1", parameters.get("spans") == "1"
    rater = Rater(dataset, name, parameters.get("aspect", ""), seed, "preference" if pairs else "rating", spans)
    _check_names(rater.name, rater.aspect)
    skipped = _parse_skipped(parameters, 1 + pairs)
    if pairs and rater.spans:
        raise BadAnswer("wrong words are marked in one caption at a time: leave pairs or spans out of the address")
    promise = parse_whole_number(parameters["for-promise"]) if "for-promise" in parameters else None
    if promise is not None and pairs:
        raise BadAnswer("captions for a promise have an order of their own: leave pairs out of the address")
    if pairs:
        return RatingSession(rater, None, skipped)
    scale, declared = choose_scale(connection, dataset, rater.aspect, parameters.get("scale"))
    return RatingSession(rater, scale, skipped, promise, parse_scale(declared) if declared else None)


def choose_scale(connection: Connection, dataset: Dataset, aspect: str, asked: str | None) -> tuple[str, str | None]:
    """Return the name of the scale on which an aspect is rated, and of the one that is declared for it, or None: the
    asked scale, else the declared one or that of earlier ratings, else 1-5. Raises BadAnswer for another scale than the
    aspect has.
    """
    declared, rated = find_scale_name(connection, dataset, aspect), find_scale(connection, dataset, aspect)
    # A manifest may have an own field of this name, with any content.
    known = declared or (rated if rated in SCALES else None)
    scale = asked or known or next(iter(SCALES))
    if known is not None and known != scale:
        other = ", or name another aspect" if scale in SCALES else ""
        raise BadAnswer(f"{aspect} has the scale {known} here, not {scale[:40]!r}: use {known}{other}")
    if known is None and scale not in SCALES:
        raise BadAnswer(f"there is no scale {scale[:40]!r}: choose one of {', '.join(SCALES)}")
    return scale, declared


def _parse_skipped(parameters: QueryParams, n: int) -> tuple[Key, ...]:
    """Return what an address skips, as questions of n ids each. Raises BadAnswer."""
    skipped = tuple(tuple(map(parse_whole_number, text.split("-"))) for text in parameters.getlist("skip"))
    if any(len(key) != n for key in skipped):
        raise BadAnswer("what the address skips is not valid: open the page again")
    return skipped


def _require_seen(
    connection: Connection, state: LookState, session: RatingSession, parameters: QueryParams
) -> Question:
    """Return the question that an address answers, as `require_seen` does. Raises BadAnswer too."""
    sample_ids = [parse_whole_number(text) for text in parameters.getlist("sample")]
    kind, seen = session.rater.kind, parameters.get("seen", "")
    if len(sample_ids) != 1 + (kind == "preference") or not _DIGEST.fullmatch(seen):
        raise BadAnswer("the address does not say what is answered: open the page again")
    keypoint_id = parse_whole_number(parameters.get("keypoint", "")) if kind == "label" else None
    check = _find_check(connection, state, session)
    return require_seen(connection, session.rater, seen, sample_ids, keypoint_id, check)


def _find_check(connection: Connection, state: LookState, session: RatingSession) -> Question | None:
    """Find the attention check that is due; None where another question is, where no answer to one can be judged, or
    where the page shows neither a video nor references, by which people know a wrong caption.
    """
    every = state.setups.get(session.rater.aspect, RatingSetup()).check_every
    if every is None or session.rater.kind == "label" or session.has_passed(0) is None:
        return None
    check = find_due_check(connection, session.rater, every, session.skipped)
    if check is None:
        return None
    shown = _load_context(connection, session.rater.dataset, check)
    return None if shown["no_file"] and not shown["references"] else check


def _load_promise(state: LookState, session: RatingSession) -> PromiseState | None:
    """Return the state of the promise that a session asks for; None for none. Raises SelectionError, and BadAnswer for
    an aspect that is not the promise's.
    """
    if session.promise is None:
        return None
    promised = state.promises.load(session.rater.dataset, session.promise)
    if promised.terms.aspect != session.rater.aspect:
        name = f"promise {session.promise}"
        if (aspect := promised.terms.aspect) is None:
            raise BadAnswer(f"{name} is answered by the judge, not by raters: leave for-promise out of the address")
        raise BadAnswer(f"{name} counts ratings of {aspect}, not of {session.rater.aspect}: rate {aspect}")
    return promised


def _load_context(connection: Connection, dataset: Dataset, question: Question) -> dict[str, Any]:
    """Return a template's values about the video of a question. "video": its columns. "no_file": the reason why it has
    no file to show, or None. "references": their texts if there is no file, else [].
    """
    video_id = question.captions[0].video_id
    video = find_video(connection, dataset.dataset_id, video_id)
    assert video is not None, "a foreign key says that every sample has one"
    reason = explain_missing_file(video)
    references = [text for _, text in load_references(connection, video_id)] if reason else []
    return {"video": video, "no_file": reason, "references": references}


def _check_names(rater: str, aspect: str) -> None:
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
