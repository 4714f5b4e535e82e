"""Have a chat model write questions about videos and summaries (paper 3.1 to 3.3; spec 3.1 to 3.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any, Literal

from metrics_core.models.chat.protocol import ChatModel, ChatReply, ChatRequest
from metrics_core.protocols import ModelIdentity
from metrics_core.qeva.by_chat import requests
from metrics_core.qeva.by_chat.answerers import ask_chat_model, build_empty_set, build_identity, find_reply_data
from metrics_core.qeva.by_chat.requests import CATEGORY_MEANINGS, is_blank_context
from metrics_core.qeva.chronology import ORDERS, build_chronology_questions, build_order_question, shuffle_items
from metrics_core.qeva.records import NO, YES, Dimension, Question, QuestionKind, QuestionSet, VideoAsFrames, VideoNotes
from metrics_core.qeva.replies import clean_reply_text, parse_reply, parse_yes_no


def _collapse_spaces(text: str) -> str:
    """Return a text on one line, with single spaces."""
    return " ".join(text.split())


def _list_distinct_texts(texts: Sequence[str]) -> list[str]:
    """Return the texts that have words, in order, each on one line; of texts with the same words only the first.

    >>> _list_distinct_texts(["Why?", " why ", "", "How?"])
    ['Why?', 'How?']
    """
    first = {clean_reply_text(text): _collapse_spaces(text) for text in reversed(texts)}
    return [first[key] for key in dict.fromkeys(map(clean_reply_text, texts)) if any(map(str.isalnum, key))]


def _parse_closed_question(
    dimension: Dimension, written: Mapping[str, Any], seed: int, category: str | None = None
) -> Question | None:
    """Return a question with choices as a model wrote it; None unless it has words and 2 or 4 choices that differ, one
    of which is the key. written: "question", "choices" and "answer". Choices other than yes and no are shuffled by the
    seed, as models like to put the right one first.

    >>> written = {"question": "Is it red?", "choices": ["No", "Yes"], "answer": "yes."}
    >>> _parse_closed_question("factuality", written, 0).choices
    ('yes', 'no')
    """
    text, choices = _collapse_spaces(written["question"]), _list_distinct_texts(written["choices"])
    if not any(map(str.isalnum, text)) or len(choices) != len(written["choices"]) or len(choices) not in (2, 4):
        return None
    is_yes_no = {parse_yes_no(clean_reply_text(choice)) for choice in choices} == {YES, NO}
    kind: QuestionKind = "yes_no" if is_yes_no else "choice"
    choices = [YES, NO] if is_yes_no else choices
    question = Question(dimension, kind, text, "", tuple(choices), category)
    key = parse_reply(question, written["answer"]).normalised
    if key is None:
        return None
    if not is_yes_no:
        choices = shuffle_items(choices, Random(f"{seed}\n{text}"))
    return replace(question, answer=key, choices=tuple(choices))


def _parse_order_question(written: Mapping[str, Any], seed: int) -> Question | None:
    """Return a question for the order of three events as a model wrote it, the events under new letters by the seed.
    None unless three events differ and the answer is an order of their letters. written: "choices" and "answer".
    """
    events = _list_distinct_texts(written["choices"])
    if len(events) != 3 or len(written["choices"]) != 3:
        return None
    as_written = Question("chronology", "order", "", "", ORDERS)
    key = parse_reply(as_written, written["answer"]).normalised
    if key is None:
        return None
    in_time = [events["ABC".index(letter)].rstrip(" .,;") for letter in key]
    new_key = Random("\n".join((str(seed), *in_time))).choice(ORDERS)
    return replace(build_order_question(range(3), in_time, new_key), events=())


def _parse_chronology_set(written: Mapping[str, Any], n: int, seed: int) -> QuestionSet:
    """Return the set of usable chronology questions that a model wrote in one reply: at most n, none twice; with a
    reason where none is. written: the reply's data. seed: shuffles choices and letters.
    """
    questions: dict[tuple[str, frozenset[str]], Question] = {}
    for entry in written["questions"]:
        is_order = entry["kind"] == "order"
        question = _parse_order_question(entry, seed) if is_order else _parse_closed_question("chronology", entry, seed)
        if question is not None and question.kind == entry["kind"]:
            # A question about the same events is the same question, whichever letters they have.
            about = frozenset(map(clean_reply_text, question.statements if is_order else question.choices))
            questions.setdefault((entry["kind"] if is_order else clean_reply_text(question.text), about), question)
    kept = tuple(questions.values())[:n]
    reason = None if kept else "the model wrote no usable question"
    return QuestionSet("chronology", kept, n, len(written["questions"]) - len(kept), reason=reason)


def _parse_factuality_set(written: Mapping[str, Any], categories: Sequence[str], seed: int) -> QuestionSet:
    """Return the set of usable factuality questions that a model wrote, none twice; with a reason where none is.
    written: the question of every category, or null, which is not malformed. seed: shuffles choices.
    """
    entries = [(category, written[category]) for category in categories if written.get(category) is not None]
    questions: dict[str, Question] = {}
    for category, entry in entries:
        question = _parse_closed_question("factuality", entry, seed, category)
        if question is not None:
            questions.setdefault(clean_reply_text(question.text), question)
    reason = None if questions else "the model wrote no usable question about the summary"
    n_malformed = len(entries) - len(questions)
    return QuestionSet("factuality", tuple(questions.values()), len(categories), n_malformed, reason=reason)


ChronologyForm = Literal["templated", "one_shot"]


class ChatVideoExaminer:
    """A VideoExaminer that has a chat model write the questions. n: questions for each set. chronology: "templated"
    asks for the list of events only, from which code makes the questions; "one_shot" has the model write them, as the
    paper's appendix does. seed: of requests and templates. Raises ValueError for n < 1 and for another form.
    """

    def __init__(self, chat: ChatModel, n: int = 10, chronology: ChronologyForm = "templated", seed: int = 0) -> None:
        if n < 1:
            raise ValueError(f"A set has at least one question, not {n}.")
        if chronology not in ("templated", "one_shot"):
            raise ValueError(f'Chronology questions are "templated" or "one_shot", not "{chronology}".')
        self._chat, self._n, self._form, self._seed = chat, n, chronology, seed

    @property
    def identity(self) -> ModelIdentity:
        """The identity of the chat model, with the prompts' version, `n`, `chronology` and `seed` as further
        parameters.
        """
        return build_identity(self._chat, n=self._n, chronology=self._form, seed=self._seed)

    def compose_coverage_questions(self, videos: Sequence[VideoAsFrames | VideoNotes]) -> list[QuestionSet]:
        """Return one set of open questions with reference answers for every video, in order; a failure is the set's
        status. Asks the model in two batches: for all questions, then for their reference answers.
        """
        n, seed = self._n, self._seed
        asked = [
            None if is_blank_context(video) else requests.build_coverage_request(video, n, seed) for video in videos
        ]
        replies = ask_chat_model(self._chat, asked)
        texts = [
            _list_distinct_texts(data["questions"])[:n] if (data := find_reply_data(reply)) else [] for reply in replies
        ]
        answers = iter(
            ask_chat_model(
                self._chat,
                [
                    requests.build_reference_request(video, text, seed)
                    for video, video_texts in zip(videos, texts, strict=True)
                    for text in video_texts
                ],
            )
        )
        return [
            _build_coverage_set(reply, n, [(text, next(answers)) for text in video_texts])
            for reply, video_texts in zip(replies, texts, strict=True)
        ]

    def compose_chronology_questions(self, videos: Sequence[VideoAsFrames | VideoNotes]) -> list[QuestionSet]:
        """Return one set of questions about the order of events for every video, in order; a failure is the set's
        status. Asks the model in one batch: for the events, or for the questions themselves.
        """
        asked = [None if is_blank_context(video) else self._order_request(video) for video in videos]
        return [self._chronology_set(reply) for reply in ask_chat_model(self._chat, asked)]

    def _order_request(self, video: VideoAsFrames | VideoNotes) -> ChatRequest:
        if self._form == "one_shot":
            return requests.build_chronology_request(video, self._n, self._seed)
        return requests.build_events_request(video, self._seed)

    def _chronology_set(self, reply: ChatReply | None) -> QuestionSet:
        data = find_reply_data(reply)
        if data is None:
            return build_empty_set("chronology", self._n, reply)
        if self._form == "one_shot":
            return _parse_chronology_set(data, self._n, self._seed)
        return build_chronology_questions(data["events"], self._n, self._seed)


class ChatSummaryExaminer:
    """A SummaryExaminer that has a chat model write factuality questions, at most one per category (of ten). The model
    leaves out a category in which the summary states nothing. seed: of requests, and of the order in which choices are
    shown.
    """

    def __init__(self, chat: ChatModel, seed: int = 0) -> None:
        self._chat, self._seed = chat, seed

    @property
    def identity(self) -> ModelIdentity:
        """The identity of the chat model, with the prompts' version and `seed` as further parameters."""
        return build_identity(self._chat, seed=self._seed)

    def compose_factuality_questions(self, summaries: Sequence[str]) -> list[QuestionSet]:
        """Return one set of factuality questions for every summary, in order, from one batch; a failure is the set's
        status. An empty summary has an empty set.
        """
        asked = [
            None if is_blank_context(text) else requests.build_factuality_request(text, self._seed)
            for text in summaries
        ]
        return [
            build_empty_set("factuality", len(CATEGORY_MEANINGS), reply)
            if (data := find_reply_data(reply)) is None
            else _parse_factuality_set(data, tuple(CATEGORY_MEANINGS), self._seed)
            for reply in ask_chat_model(self._chat, asked)
        ]


def _build_coverage_set(
    reply: ChatReply | None, n: int, answered: Sequence[tuple[str, ChatReply | None]]
) -> QuestionSet:
    """Build the set of open questions about one video. reply: the model's reply with at most n questions. answered:
    every question with the reply that has its reference answer. If a reference answer failed, the set is a failed one
    without questions.

    A question that the model cannot answer, refuses to answer or answers unreadably is malformed. Where a reference
    answer failed for another reason, such as a lost connection, the set has failed, so that it can be tried again.
    """
    data = find_reply_data(reply)
    if data is None:
        return build_empty_set("coverage", n, reply)
    failures = [answer for _, answer in answered if answer is not None and answer.status in ("error", "stopped")]
    if failures:
        return build_empty_set("coverage", n, failures[0])
    questions = [
        Question("coverage", "open", text, key, statements=(key,))
        for text, answer in answered
        if (key := _parse_reference_answer(answer)) is not None
    ]
    reason = None if questions else "the model wrote no question that it could answer"
    return QuestionSet("coverage", tuple(questions), n, len(data["questions"]) - len(questions), reason=reason)


def _parse_reference_answer(reply: ChatReply | None) -> str | None:
    """Return the reference answer in a reply; None where there is no reply, or it fails, is empty or abstains."""
    data = find_reply_data(reply)
    return None if data is None else parse_reply(Question("coverage", "open", "", ""), data["answer"]).normalised
