"""QEVA's steps by a chat model that answers by rules: what is sent, what becomes of replies, and a whole score."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrics_core.models.chat.protocol import ChatReply, ChatRequest, ImagePart, TextPart
from metrics_core.qeva import (
    PROMPT_VERSION,
    ChatAnswerer,
    ChatMatcher,
    ChatSummaryExaminer,
    ChatVideoExaminer,
    QevaScore,
    build_chronology_questions,
    compute_dimension_score,
    filter_questions,
    judge_outcomes,
)
from metrics_core.qeva.by_chat.requests import CATEGORY_MEANINGS
from metrics_core.qeva.chronology import ORDERS, build_order_question, reletter_events
from metrics_core.qeva.records import AnswerJudgement, ContextQuestion, Question, Reply, VideoAsFrames, VideoNotes
from tests.metrics_core.qeva_fakes import RuleChat, question_of, seen_in, video_of

EVENTS = ("a man opens a door", "a dog runs out", "rain begins", "the man calls", "a girl laughs", "the dog sleeps")
VIDEO = video_of(*EVENTS)
NOTES = VideoNotes(EVENTS, ("the door is red",), "references")
FAILURES = [
    (ChatReply("refused", reason="I had rather not"), "refused"),
    (ChatReply("malformed", reason="no JSON"), "error"),
    (ChatReply("error", reason="the server is gone"), "error"),
    (ChatReply("stopped", reason="the spending stop was reached"), "error"),
]


def writer(request: ChatRequest) -> Mapping[str, Any] | ChatReply:
    """Three questions on each video, answered with the first frame; events as they are seen."""
    if request.purpose == "coverage questions":
        return {"questions": ["Why does it rain?", "What  does the man do?", "why does it rain", "Who laughs?"]}
    if request.purpose == "reference answers":
        return {"answer": "cannot tell" if "Who laughs" in question_of(request) else "Because of the clouds."}
    return {"events": [event for event in EVENTS if event in seen_in(request)]}


def test_coverage_asks_all_questions_of_all_videos_before_all_reference_answers() -> None:
    chat = RuleChat(writer)
    sets = ChatVideoExaminer(chat).compose_coverage_questions([VIDEO, video_of(), NOTES])
    assert [len(one.questions) for one in sets] == [2, 0, 2]
    question = sets[0].questions[0]
    assert (question.kind, question.text, question.answer) == ("open", "Why does it rain?", "Because of the clouds.")
    assert question.statements == ("Because of the clouds.",)
    assert sets[0].questions[1].text == "What does the man do?"
    assert (sets[0].n_requested, sets[0].n_malformed, sets[0].status) == (10, 2, "ok")
    assert (sets[1].status, sets[1].reason) == (
        "ok",
        "the video or text has nothing to ask about, no frame, note or word",
    )
    assert [len(batch) for batch in chat.batches] == [2, 6]
    assert all("red" in seen_in(request) for request in chat.batches[1][3:])


def test_frames_come_first_each_after_its_number_and_time() -> None:
    chat = RuleChat(writer)
    ChatVideoExaminer(chat, seed=7).compose_coverage_questions([VIDEO])
    request = chat.batches[0][0]
    assert request.parts[1:5] == (
        TextPart("Frame 1 of 6, at 0.0 s:"),
        ImagePart(EVENTS[0].encode(), {"sampling": "one for each event"}),
        TextPart("Frame 2 of 6, at 2.5 s:"),
        ImagePart(EVENTS[1].encode(), {"sampling": "one for each event"}),
    )
    assert "10 open questions" in question_of(request)
    assert (request.prompt_version, request.seed, request.temperature) == (PROMPT_VERSION, 7, 0.0)
    assert chat.batches[1][0].parts[:-1] == request.parts[:-1]
    assert chat.batches[1][0].seed == 7


@pytest.mark.parametrize("purpose", ["coverage questions", "events"])
@pytest.mark.parametrize(("failure", "status"), FAILURES)
def test_a_failure_is_the_failure_of_one_set(purpose: str, failure: ChatReply, status: str) -> None:
    chat = RuleChat(lambda one: failure if one.purpose == purpose and "door" not in seen_in(one) else writer(one))
    examiner = ChatVideoExaminer(chat)
    made = (
        examiner.compose_coverage_questions
        if purpose == "coverage questions"
        else examiner.compose_chronology_questions
    )([video_of("x"), VIDEO])
    assert (made[0].status, made[0].reason, made[0].questions) == (status, failure.reason, ())
    assert (made[1].status, bool(made[1].questions)) == ("ok", True)


@pytest.mark.parametrize(("failure", "status"), FAILURES)
def test_a_lost_reference_answer_fails_the_set_and_a_refused_one_the_question(failure: ChatReply, status: str) -> None:
    chat = RuleChat(lambda one: failure if question_of(one).endswith("rain?") else writer(one))
    made = ChatVideoExaminer(chat).compose_coverage_questions([VIDEO])[0]
    if failure.status in ("error", "stopped"):
        assert (made.status, made.reason, made.questions) == ("error", failure.reason, ())
    else:
        assert (made.status, len(made.questions), made.n_malformed) == ("ok", 1, 3)


def test_chronology_from_the_events_that_the_model_lists() -> None:
    chat = RuleChat(writer)
    made = ChatVideoExaminer(chat, seed=3).compose_chronology_questions([VIDEO, video_of("x"), NOTES])
    assert made[0] == made[2] == build_chronology_questions(EVENTS, 10, 3)
    assert made[1].reason == "the video has fewer than two events that differ"
    assert len(chat.batches) == 1


def one_shot(*questions: tuple[str, str, list[str], str]) -> RuleChat:
    names = ("kind", "question", "choices", "answer")
    return RuleChat(lambda _: {"questions": [dict(zip(names, one, strict=True)) for one in questions]})


def test_chronology_in_one_go_is_checked() -> None:
    good = [
        ("yes_no", "Does x come before y?", ["yes", "no"], "Yes"),
        ("choice", "Which is first?", ["x", "y"], "y."),
        ("choice", "Which is first?", ["x", "z"], "B"),
        ("order", "In which order?", ["x", "y", "z"], "B, C, A"),
    ]
    bad = [
        ("yes_no", "Does x come before y?", ["no", "yes"], "no"),
        ("yes_no", "Which is first?", ["x", "w"], "x"),
        ("choice", "Which is first?", ["x", "X."], "x"),
        ("choice", "Which is first?", ["x", "v"], "z"),
        ("order", "And the order?", ["z", "y", "x"], "B, A, C"),
        ("order", "In which order?", ["x", "y", "v"], "B, A"),
    ]
    made = ChatVideoExaminer(one_shot(*good, *bad), chronology="one_shot").compose_chronology_questions([VIDEO])[0]
    assert [question.kind for question in made.questions] == ["yes_no", "choice", "choice", "order"]
    assert [question.answer for question in made.questions[:3]] == ["yes", "y", "z"]
    assert (made.n_malformed, made.n_requested) == (6, 10)
    order = made.questions[3]
    listed = dict(re.findall(r"([ABC]): (\w)\.", order.text))
    assert [listed[letter] for letter in order.answer] == ["y", "z", "x"]
    assert order.choices == ORDERS
    assert order.statements == tuple(listed.values())


def test_keys_of_models_that_always_put_the_right_choice_first_are_spread() -> None:
    many = [("choice", f"Which is first, {i}?", ["x", "y"], "x") for i in range(40)]
    orders = [("order", "?", [f"x{i}", f"y{i}", f"z{i}"], "ABC") for i in range(40)]
    made = ChatVideoExaminer(one_shot(*many), 40, "one_shot").compose_chronology_questions([VIDEO])[0]
    assert {question.choices.index(question.answer) for question in made.questions} == {0, 1}
    made = ChatVideoExaminer(one_shot(*orders), 40, "one_shot").compose_chronology_questions([VIDEO])[0]
    assert len({question.answer for question in made.questions}) > 3


def test_factuality_leaves_null_out_and_counts_what_is_unusable() -> None:
    written = dict.fromkeys(CATEGORY_MEANINGS) | {
        "colours": {"question": "Which colour is it?", "choices": ["red", "blue", "green", "white"], "answer": "Red"},
        "counting": {"question": "How many dogs are there?", "choices": ["2", "1", "3", "4"], "answer": "1"},
        "scene": {"question": "Is it raining?", "choices": ["No", "Yes"], "answer": "yes"},
        "emotion": {"question": "Is the girl glad?", "choices": ["yes", "no", "maybe"], "answer": "yes"},
        "spatial": {"question": "Where is it?", "choices": ["in", "on", "by", "IN"], "answer": "in"},
        "factual": {"question": "Is it raining", "choices": ["yes", "no"], "answer": "yes"},
    }  # fmt: skip
    chat = RuleChat(lambda _: written)
    made = ChatSummaryExaminer(chat).compose_factuality_questions(["It rains.", " . "])
    found = {question.category: question for question in made[0].questions}
    assert {category: question.answer for category, question in found.items()} == {
        "colours": "red",
        "counting": "1",
        "scene": "yes",
    }
    assert set(found["colours"].choices) == {"red", "blue", "green", "white"}
    assert (found["scene"].kind, found["scene"].choices) == ("yes_no", ("yes", "no"))
    assert (made[0].n_requested, made[0].n_malformed) == (10, 3)
    assert (made[1].questions, made[1].status) == ((), "ok")
    assert len(chat.batches[0]) == 1
    assert "<summary>\nIt rains.\n</summary>" in seen_in(chat.batches[0][0])
    assert all(category in question_of(chat.batches[0][0]) for category in CATEGORY_MEANINGS)


@pytest.mark.parametrize(("failure", "status"), FAILURES)
def test_factuality_failures(failure: ChatReply, status: str) -> None:
    made = ChatSummaryExaminer(RuleChat(lambda _: failure)).compose_factuality_questions(["It rains."])[0]
    assert (made.status, made.reason, made.n_requested) == (status, failure.reason, 10)


COLOUR = Question("factuality", "choice", "Which colour is it?", "red", ("red", "blue", "green", "white"))
SHOWN = re.compile(r"^([A-D])\) (.+)$", re.MULTILINE)


def test_choices_move_with_the_seed_and_letters_are_read_as_they_were_shown() -> None:
    chat = RuleChat(lambda one: {"answer": {text: letter for letter, text in SHOWN.findall(question_of(one))}["red"]})
    replies = ChatAnswerer(chat).answer([ContextQuestion(COLOUR, "It is red.", seed) for seed in range(5)])
    assert [reply.raw for reply in replies] == ["A", "D", "C", "B", "A"]
    assert {reply.normalised for reply in replies} == {"red"}
    assert [request.seed for request in chat.batches[0]] == [0, 1, 2, 3, 4]


ORDER = build_order_question((2, 5, 9), EVENTS[:3], "CAB")


def test_the_events_of_an_order_are_under_other_letters_with_each_of_six_seeds() -> None:
    """A model that knows the order, and one that always guesses the same letters: the key is each order once."""

    def knows(request: ChatRequest) -> Mapping[str, Any]:
        letter_of = {text: letter for letter, text in re.findall(r"([ABC]): (.+?)\.", question_of(request))}
        return {"answer": "".join(letter_of[event] for event in EVENTS[:3])}

    chat = RuleChat(knows)
    replies = ChatAnswerer(chat).answer([ContextQuestion(ORDER, None, seed) for seed in range(7)])
    assert [reply.normalised for reply in replies] == ["CAB"] * 7
    assert len({reply.raw for reply in replies}) == 6
    assert replies[0].raw == replies[6].raw == "CAB"
    assert ORDER.text in question_of(chat.batches[0][0])
    guesses = ChatAnswerer(RuleChat(lambda _: {"answer": "ABC"})).answer(
        [ContextQuestion(ORDER, None, i) for i in range(6)]
    )
    assert sorted(str(reply.normalised) for reply in guesses) == list(ORDERS)


@given(st.sampled_from(ORDERS), st.sampled_from(ORDERS), st.booleans())
def test_other_letters_ask_the_same(key: str, letters: str, has_numbers: bool) -> None:
    question = build_order_question((2, 5, 9), EVENTS[:3], key)
    question = question if has_numbers else replace(question, events=())
    moved = reletter_events(question, letters)
    assert [moved.statements["ABC".index(letter)] for letter in moved.answer] == list(EVENTS[:3])
    assert [moved.events["ABC".index(letter)] for letter in moved.answer if has_numbers] == [2, 5, 9] * has_numbers
    assert moved.statements == tuple(question.statements["ABC".index(letter)] for letter in letters)
    assert moved == replace(build_order_question((2, 5, 9), EVENTS[:3], moved.answer), events=moved.events)
    assert reletter_events(question, "ABC") == question


def test_an_order_in_words_of_its_own_keeps_its_letters() -> None:
    for own in (replace(ORDER, text="Which order?"), replace(ORDER, statements=())):
        chat = RuleChat(lambda _: {"answer": "ABC"})
        replies = ChatAnswerer(chat).answer([ContextQuestion(own, None, seed) for seed in range(3)])
        assert [reply.normalised for reply in replies] == ["ABC"] * 3


def test_letters_mean_places_even_where_choices_are_letters() -> None:
    question = Question("factuality", "choice", "Which letter is it?", "A", ("B", "A"))
    chat = RuleChat(lambda _: {"answer": "B"})
    assert ChatAnswerer(chat).answer([ContextQuestion(question, "An A.")])[0].normalised == "A"


@pytest.mark.parametrize(
    ("question", "answers"),
    [
        (COLOUR, {"A", "B", "C", "D"}),
        (Question("factuality", "choice", "?", "x", ("x", "y")), {"A", "B"}),
        (Question("factuality", "yes_no", "?", "no", ("yes", "no")), {"yes", "no"}),
        (Question("chronology", "order", "?", "ACB", ORDERS), set(ORDERS)),
    ],
)
@pytest.mark.parametrize("context", ["It is red.", None, VIDEO])
def test_only_the_unforced_may_abstain(
    question: Question, answers: set[str], context: str | VideoAsFrames | None
) -> None:
    chat = RuleChat(lambda one: {"answer": one.schema["properties"]["answer"]["enum"][-1]})
    free = ChatAnswerer(chat).answer([ContextQuestion(question, context)])[0]
    bound = ChatAnswerer(chat, forced=True).answer([ContextQuestion(question, context)])[0]
    offered = [set(batch[0].schema["properties"]["answer"]["enum"]) for batch in chat.batches]
    assert offered == [answers | {"cannot tell"}, answers]
    assert (free.status, bound.status) == ("abstain", "ok")
    assert ["cannot tell" in batch[0].system for batch in chat.batches] == [True, False]


def test_a_closed_book_sends_the_question_alone_and_a_blank_context_nothing() -> None:
    chat = RuleChat(lambda _: {"answer": "Clouds."})
    question = Question("coverage", "open", "Why does it rain?", "Clouds.")
    replies = ChatAnswerer(chat).answer(
        [ContextQuestion(question, context) for context in (None, "  ", video_of(), "Rain.")]
    )
    assert [reply.status for reply in replies] == ["ok", "abstain", "abstain", "ok"]
    assert [request.purpose for request in chat.batches[0]] == ["closed-book answers", "answers"]
    assert [len(request.parts) for request in chat.batches[0]] == [1, 2]
    assert ["have not seen" in request.system for request in chat.batches[0]] == [True, False]
    assert "Clouds" not in json.dumps([question_of(request) for request in chat.batches[0]])


@pytest.mark.parametrize(("failure", "_status"), FAILURES)
def test_failures_are_the_status_of_one_reply(failure: ChatReply, _status: str) -> None:
    chat = RuleChat(lambda one: failure if one.seed else {"answer": "A"})
    replies = ChatAnswerer(chat).answer(
        [ContextQuestion(COLOUR, "It is red."), ContextQuestion(COLOUR, "It is red.", 1)]
    )
    expected = "error" if failure.status == "stopped" else failure.status
    assert [reply.status for reply in replies] == ["ok", expected]
    assert (replies[1].reason, replies[1].normalised) == (failure.reason, None)


def test_the_same_context_gives_the_same_schema_so_that_a_server_can_keep_it() -> None:
    chat = RuleChat(lambda _: {"answer": "A"})
    other = Question("chronology", "choice", "Which is first?", "x", ("x", "y", "z", "w"))
    ChatAnswerer(chat).answer([ContextQuestion(COLOUR, VIDEO), ContextQuestion(other, VIDEO)])
    first, second = chat.batches[0]
    assert (first.system, first.schema, first.parts[:-1]) == (second.system, second.schema, second.parts[:-1])


def test_the_matcher_compares_question_reference_and_answer() -> None:
    def judged(request: ChatRequest) -> Mapping[str, Any] | ChatReply:
        asked = question_of(request)
        if "broken" in asked:
            return ChatReply("error", reason="the server is gone")
        assert "Why {so}?" in asked
        return {"same": asked.count("clouds") == 2}

    chat = RuleChat(judged)
    question = Question("coverage", "open", "Why {so}?", "Because of clouds.")
    replies = [Reply("ok", text, text) for text in ("The clouds.", "The sun.", "broken")]
    lost = AnswerJudgement(None, "error", "the answer was not judged: the server is gone")
    judged_as = ChatMatcher(chat).judge_answers([(question, reply) for reply in replies])
    assert judged_as == [AnswerJudgement(True), AnswerJudgement(False), lost]
    assert [len(batch) for batch in chat.batches] == [3]
    assert ChatMatcher(chat).judge_answers([]) == []


@pytest.mark.parametrize(("failure", "_status"), FAILURES)
def test_what_the_judge_does_not_judge_keeps_status_and_reason(failure: ChatReply, _status: str) -> None:
    chat = RuleChat(lambda request: failure if request.purpose == "judgements" else {"answer": "Clouds."})
    question = Question("coverage", "open", "Why?", "Because of clouds.")
    (judgement,) = ChatMatcher(chat).judge_answers([(question, Reply("ok", "Clouds.", "Clouds."))])
    expected = "error" if failure.status == "stopped" else failure.status
    assert (judgement.correct, judgement.status) == (None, expected)
    assert str(failure.reason) in str(judgement.reason)
    (mark,) = filter_questions([(question, VIDEO)], ChatAnswerer(chat), ChatAnswerer(chat), ChatMatcher(chat))
    assert (mark.decision, mark.failure, mark.reason) == ("error", expected, judgement.reason)


def test_identities_hold_all_that_changes_the_numbers() -> None:
    chat = RuleChat(writer)
    models: list[Any] = [
        ChatVideoExaminer(chat),
        ChatVideoExaminer(chat, n=5),
        ChatVideoExaminer(chat, chronology="one_shot"),
        ChatVideoExaminer(chat, seed=1),
        ChatSummaryExaminer(chat, seed=1),
        ChatAnswerer(chat),
        ChatAnswerer(chat, forced=True),
        ChatMatcher(chat),
    ]
    identities = [json.dumps(model.identity.as_dict(), sort_keys=True) for model in models]
    assert len(set(identities)) == len(models)
    assert all(PROMPT_VERSION in one and '"temperature": 0.0' in one for one in identities)


def test_settings_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match="not 0"):
        ChatVideoExaminer(RuleChat(writer), n=0)
    with pytest.raises(ValueError, match="one_shot"):
        ChatVideoExaminer(RuleChat(writer), chronology="random")  # type: ignore[arg-type]


def reader(request: ChatRequest) -> Mapping[str, Any]:
    """Finds events in what it sees, in the order in which it sees them; knows nothing by heart."""
    asked, seen = question_of(request), seen_in(request)
    if request.purpose == "judgements":
        return {"same": "clouds" in asked.split("Answer to judge:")[1]}
    if any(known in asked for known in ("Why does it rain", "What does the man do", "Who laughs")):
        return {"answer": "Because of clouds." if "rain begins" in seen else "cannot tell"}
    place = {event: seen.find(event) for event in EVENTS if event in seen}
    if shown := SHOWN.findall(asked):
        known = [(place[text], letter) for letter, text in shown if text in place]
        return {"answer": min(known)[1] if len(known) == 2 else "cannot tell"}
    if listed := re.findall(r"([ABC]): (.+?)\.", asked):
        known = [(place[text], letter) for letter, text in listed if text in place]
        return {"answer": "".join(letter for _, letter in sorted(known)) if len(known) == 3 else "cannot tell"}
    named = re.findall("“(.+?)”", asked)
    if any(text not in place for text in named):
        return {"answer": "cannot tell"}
    one, other = (place[text] for text in named)
    between = [text for text, where in place.items() if one < where < other]
    return {"answer": "yes" if one < other and not (between and "at once" in asked) else "no"}


@given(st.permutations(EVENTS))
def test_a_whole_score_follows_the_summary(order: list[str]) -> None:
    known = {"answer": "Because of the clouds."}
    writing = {"reference answers": lambda one: known}
    chat = RuleChat(lambda one: reader(one) if "write" not in one.system else writing.get(one.purpose, writer)(one))
    examiner, answerer = ChatVideoExaminer(chat), ChatAnswerer(chat)
    coverage, chronology = (
        examiner.compose_coverage_questions([VIDEO])[0],
        examiner.compose_chronology_questions([VIDEO])[0],
    )
    summary = ". ".join(order)
    shares = {}
    for made in (coverage, chronology):
        marks = filter_questions([(one, VIDEO) for one in made.questions], answerer, answerer, ChatMatcher(chat))
        kept = [one for one, mark in zip(made.questions, marks, strict=True) if mark.decision == "keep"]
        replies = answerer.answer([ContextQuestion(question, summary) for question in kept])
        outcomes = judge_outcomes(list(zip(kept, replies, strict=True)), ChatMatcher(chat))
        shares[made.dimension] = compute_dimension_score(made, marks, outcomes)
    assert Counter(mark.decision for mark in marks) == {"keep": 10}
    assert shares["coverage"].value == 1.0
    expected = [truth(question, order) == question.answer for question in chronology.questions]
    assert shares["chronology"].value == pytest.approx(sum(expected) / 10)
    assert (shares["chronology"].value == 1.0) >= (order == list(EVENTS))
    factuality = compute_dimension_score(
        ChatSummaryExaminer(RuleChat(lambda _: dict.fromkeys(CATEGORY_MEANINGS))).compose_factuality_questions(["x"])[
            0
        ],
        [],
        [],
    )
    score = QevaScore(shares["coverage"], factuality, shares["chronology"])
    assert score.value is None
    assert score.partial_mean == pytest.approx((1 + sum(expected) / 10) / 2)


def truth(question: Question, order: list[str]) -> str:
    """The answer of somebody who takes the summary's order for the video's."""
    places = [order.index(text) for text in question.statements]
    if question.kind == "choice":
        return question.statements[places.index(min(places))]
    if question.kind == "order":
        return "".join("ABC"[places.index(place)] for place in sorted(places))
    directly = "followed at once" in question.text
    return "yes" if (places[1] - places[0] == 1 if directly else places[0] < places[1]) else "no"
