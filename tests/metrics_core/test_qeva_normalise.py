"""What replies mean: the forms that are read, and that nothing doubtful is."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from metrics_core.qeva.chronology import ORDERS
from metrics_core.qeva.records import Question
from metrics_core.qeva.replies import ABSTAIN, parse_reply

YES_NO = Question("factuality", "yes_no", "Is it red?", "yes", ("yes", "no"))
CHOICE = Question("factuality", "choice", "What is it?", "a dog", ("a cat", "a dog", "Schloß", "2"))
ORDER = Question("chronology", "order", "A: x. B: y. C: z.", "ACB", ORDERS)
OPEN = Question("coverage", "open", "Why?", "Because.")
EVERY_KIND = (YES_NO, CHOICE, ORDER, OPEN)


@pytest.mark.parametrize(
    "raw", ["B", "b", "B)", "(b)", "B.", "Option B", "choice b", "a dog", "“A  Dog.”", "B) a dog", "The answer is B."]
)
def test_forms_of_the_second_choice(raw: str) -> None:
    assert parse_reply(CHOICE, raw).normalised == "a dog"


@pytest.mark.parametrize(
    ("raw", "choice"),
    [("2", "2"), ("4", "2"), ("1", "a cat"), ("SCHLOSS", "Schloß"), ("d", "2"), ("3", "Schloß"), ("Ｄ", "2")],
)
def test_the_text_of_a_choice_counts_before_its_number(raw: str, choice: str) -> None:
    assert parse_reply(CHOICE, raw).normalised == choice


@pytest.mark.parametrize(
    "raw",
    [
        "either A or B",
        "a and b",
        "not B",
        "it is not a dog",
        "the answer is not B",
        "B) a cat",
        "5",
        "e",
        "0",
        "a dog or a cat",
        "option 2",
        "dog",
        "because of the dog",
        "ab",
    ],
)
def test_doubtful_replies_are_malformed(raw: str) -> None:
    reply = parse_reply(CHOICE, raw)
    assert (reply.status, reply.normalised) == ("malformed", None)
    assert reply.reason


@pytest.mark.parametrize(
    ("raw", "said"),
    [("Yes.", "yes"), ("TRUE", "yes"), ("y", "yes"), ("No!", "no"), ("false", "no"), ("N", "no"), ("'no'", "no")],
)
def test_words_for_yes_and_no(raw: str, said: str) -> None:
    assert parse_reply(YES_NO, raw).normalised == said


@pytest.mark.parametrize("raw", ["yes and no", "yes/no", "maybe", "0", "not no"])
def test_neither_yes_nor_no(raw: str) -> None:
    assert parse_reply(YES_NO, raw).status == "malformed"


@pytest.mark.parametrize(
    "raw",
    [
        "ACB",
        "acb",
        "A, C, B",
        "A -> C -> B",
        "A->C->B",
        "A → C → B",
        "(A) (C) (B)",
        "1->3->2",
        "1, 3, 2",
        "132",
        "A then C, then B",
        "First A, then C, and finally B.",
        "The order is: A, C, B",
    ],
)
def test_forms_of_an_order(raw: str) -> None:
    assert parse_reply(ORDER, raw).normalised == "ACB"


@pytest.mark.parametrize(
    "raw", ["AB", "AAB", "ABCD", "B <- C <- A", "C ← A ← B", "2", "A before B", "1, C, 2", "0 1 2", "124"]
)
def test_no_order(raw: str) -> None:
    assert parse_reply(ORDER, raw).status == "malformed"


@pytest.mark.parametrize("question", EVERY_KIND)
@pytest.mark.parametrize("raw", ["", "  ", "...", "\n", "—"])
def test_an_empty_reply_is_malformed(question: Question, raw: str) -> None:
    assert parse_reply(question, raw).status == "malformed"


@pytest.mark.parametrize("question", EVERY_KIND)
@pytest.mark.parametrize(
    "raw",
    [
        ABSTAIN,
        "Cannot tell.",
        "I can't tell",
        "I don’t know.",
        "unknown",
        "N/A",
        "The summary does not say.",
        "not stated",
        "It is not clearly mentioned in the summary",
        "There is not enough information",
        "It cannot be determined from the text.",
        "I'm not sure",
        "It is unclear whether he survives",
    ],
)
def test_abstentions(question: Question, raw: str) -> None:
    assert (parse_reply(question, raw).status, parse_reply(question, raw).normalised) == ("abstain", None)


@pytest.mark.parametrize(
    "raw",
    ["He does not know that he is ill.", "Unknown to him, the dog leaves.", "It is known to all.", "I know", "No"],
)
def test_words_about_ignorance_are_answers_to_open_questions(raw: str) -> None:
    assert parse_reply(OPEN, raw).normalised == raw


def test_a_choice_that_reads_like_an_abstention_can_be_chosen() -> None:
    question = Question("factuality", "choice", "Is its name given?", "not stated", ("not stated", "Rex"))
    assert parse_reply(question, "Not stated.").normalised == "not stated"


@given(st.sampled_from(EVERY_KIND), st.text() | st.text("abcABC123 ->,.()'yesno", max_size=12))
@example(ORDER, "²³¹")
@example(CHOICE, "٣")
@example(YES_NO, "\ud800")
def test_every_text_gives_a_reply_in_keeping_with_its_status(question: Question, raw: str) -> None:
    reply = parse_reply(question, raw)
    assert reply.raw == raw
    assert (reply.status == "ok") == (reply.normalised is not None) == (reply.reason is None)
    assert question.kind == "open" or reply.normalised in (None, *question.choices)


@given(st.sampled_from((YES_NO, CHOICE, ORDER)), st.data())
def test_a_choice_is_read_back_from_its_own_words(question: Question, data: st.DataObject) -> None:
    choice = data.draw(st.sampled_from(question.choices))
    assert parse_reply(question, choice).normalised == choice
    assert parse_reply(question, f'"{choice.upper()}."').normalised == choice
