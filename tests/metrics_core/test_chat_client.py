"""The client against a server that answers well, badly, slowly or not at all."""

from __future__ import annotations

import gzip
import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from metrics_core.models.chat.protocol import ChatReply
from metrics_core.models.server.spending import Prices, SpendingLimit, Usage
from tests.metrics_core.chat_fakes import MemoryCache, MemoryLedger, ask, jpeg, model_at, no_waits
from tests.metrics_core.chat_server import Answer, Loopback, Script, complaint, completion, loopback, said

PRICES = Prices(2.5, 10.0)


@pytest.fixture(autouse=True)
def waits() -> Iterator[list[float]]:
    with no_waits() as waited:
        yield waited


def always(answer: Answer) -> Script:
    return lambda number, body: answer


def in_turn(*answers: Answer) -> Script:
    return lambda number, body: answers[number]


def question_in(body: dict[str, Any]) -> str:
    content: str = body["messages"][1]["content"]
    return content.partition("\n\n")[0]


def one(script: Script, **changes: Any) -> tuple[ChatReply, Loopback]:
    """The reply to one request to a server with this script, and the server."""
    with loopback(script) as server:
        (reply,) = model_at(server.url, **changes).chat([ask()])
    return reply, server


def test_a_good_answer_and_what_was_sent_for_it() -> None:
    reply, server = one(always(said("a dog")), prices=PRICES)
    assert reply == ChatReply("ok", {"answer": "a dog"}, usage=Usage(1, 100, 20, pytest.approx(0.00045)))
    (body,) = server.asked
    system, user = body.pop("messages")
    assert system == {"role": "system", "content": "Answer."}
    assert user["role"] == "user"
    assert user["content"].startswith("Who runs?\n\nAnswer with one JSON object")
    form = body.pop("response_format")
    assert form["type"] == "json_schema"
    assert form["json_schema"] == {"name": "answers", "schema": ask().schema, "strict": True}
    assert body == {"model": "tiny", "temperature": 0.0, "max_tokens": 50, "seed": 0}


def test_images_go_along_in_their_place() -> None:
    picture = jpeg()
    with loopback(always(said("red"))) as server:
        model_at(server.url).chat([ask("What colour?", picture)])
    image, text, form = server.asked[0]["messages"][1]["content"]
    assert image["image_url"]["url"].startswith("data:image/jpeg;base64,/9j/")
    assert text == {"type": "text", "text": "What colour?"}
    assert form["text"].startswith("Answer with one JSON object")


def test_oracle_q6_usage_of_all_attempts() -> None:
    cut = completion('{"answer": "a do', finish_reason="length", tokens=(100, 25))
    script = in_turn(completion("a dog"), cut, said("a dog", tokens=(100, 18)))
    ledger = MemoryLedger()
    reply, server = one(script, prices=PRICES, ledger=ledger)
    assert (reply.status, reply.usage.calls) == ("ok", 3)
    assert (reply.usage.tokens_in, reply.usage.tokens_out) == (300, 63)
    assert reply.usage.money == pytest.approx(0.00138, abs=1e-12)
    assert [body["seed"] for body in server.asked] == [0, 1, 2]
    # A fresh request each time: no history of what went wrong.
    assert {json.dumps(body["messages"]) for body in server.asked} == {json.dumps(server.asked[0]["messages"])}
    assert ledger.outcomes == ["malformed", "truncated", "ok"]
    assert [call["attempt"] for call in ledger.calls] == [0, 1, 2]


def test_too_many_requests_wait_as_long_as_the_server_says(waits: list[float]) -> None:
    reply, server = one(in_turn(complaint(429, "slow down", retry_after="7"), complaint(429, "slow down"), said("yes")))
    assert (reply.status, len(server.asked)) == ("ok", 3)
    assert waits == [7.0, pytest.approx(0.875, abs=0.126)]
    assert {body["seed"] for body in server.asked} == {0}


def test_a_wait_of_hours_is_not_begun(waits: list[float]) -> None:
    reply, server = one(always(complaint(429, "slow down", retry_after="86400")))
    assert (reply.status, len(server.asked), waits) == ("error", 1, [])


@pytest.mark.parametrize("status", [408, 409, 500, 502, 503])
def test_a_passing_error_is_tried_again(status: int, waits: list[float]) -> None:
    reply, server = one(in_turn(complaint(status, "oops"), said("yes")))
    assert (reply.status, len(server.asked), len(waits)) == ("ok", 2, 1)


def test_a_lasting_error_of_the_server_ends_after_five_retries(waits: list[float]) -> None:
    ledger = MemoryLedger()
    reply, server = one(always(complaint(500, "out of memory")), ledger=ledger)
    assert (reply.status, len(server.asked), len(waits)) == ("error", 6, 5)
    assert waits == sorted(waits)
    assert str(reply.reason).startswith("answers: the server answered 500: out of memory (6 calls to http://127.0.0.1")
    assert ledger.outcomes == ["unreachable"] * 6
    assert reply.usage == Usage(6, 0, 0, None)


@pytest.mark.parametrize("status", [401, 402, 403, 404, 307])
def test_an_error_of_ours_is_not_tried_again(status: int) -> None:
    reply, server = one(always(complaint(status, "no such thing", location="http://127.0.0.1:9/")))
    assert (reply.status, len(server.asked)) == ("error", 1)
    assert f"{status}: no such thing" in str(reply.reason)


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_request_that_the_server_cannot_take_is_refused_in_its_words(status: int) -> None:
    def script(number: int, body: dict[str, Any]) -> Answer:
        too_long = "long" in question_in(body)
        return complaint(status, "the prompt has 9000 tokens, and the context 8192") if too_long else said("yes")

    ledger = MemoryLedger()
    with loopback(script) as server:
        requests = [ask("A long one?"), ask("A short one?"), ask("Another long one?")]
        replies = model_at(server.url, ledger=ledger).chat(requests)
    assert [reply.status for reply in replies] == ["refused", "ok", "refused"]
    assert f"{status}: the prompt has 9000 tokens" in str(replies[0].reason)
    assert ledger.outcomes == ["rejected", "ok", "rejected"]


@pytest.mark.parametrize(
    "words",
    [
        "API key not valid",
        "Your credit balance is too low",
        "The model tiny does not exist",
        "unknown: response_format",
    ],
)
def test_what_the_server_rejects_in_every_request_is_an_error_that_can_be_mended(words: str) -> None:
    reply, _ = one(always(complaint(400, words)))
    assert reply.status == "error"
    assert words in str(reply.reason)


def test_a_wrong_key_or_model_is_not_asked_for_again() -> None:
    with loopback(always(complaint(401, "who are you"))) as server:
        replies = model_at(server.url).chat([ask(f"Question {i}?") for i in range(20)])
    assert [reply.status for reply in replies] == ["error"] * 20
    assert len({reply.reason for reply in replies}) == len(server.asked) == 1


def test_another_model_than_the_one_asked_for_is_an_error() -> None:
    cache = MemoryCache()
    reply, server = one(always(said("yes", model="small")), cache=cache, prices=PRICES)
    assert (reply.status, len(server.asked), cache.replies) == ("error", 1, {})
    assert "asked for tiny, but small answered" in str(reply.reason)
    assert reply.usage.tokens_in == 100


@pytest.mark.parametrize(
    "answer",
    [
        completion(None, refusal="I cannot help with that."),
        completion("", finish_reason="content_filter"),
        complaint(400, "flagged", code="content_filter"),
    ],
)
def test_a_refusal_is_final(answer: Answer) -> None:
    cache, ledger = MemoryCache(), MemoryLedger()
    reply, server = one(always(answer), cache=cache, ledger=ledger)
    assert (reply.status, len(server.asked), ledger.outcomes) == ("refused", 1, ["refused"])
    assert reply.reason
    assert cache.replies == {}


def test_a_server_that_refuses_everything_ends_with_reasons() -> None:
    with loopback(always(completion(None, refusal="No."))) as server:
        replies = model_at(server.url, concurrency=4).chat([ask(f"Question {i}?") for i in range(12)])
    assert {(reply.status, reply.data) for reply in replies} == {("refused", None)}
    assert all("No." in str(reply.reason) for reply in replies)


@pytest.mark.parametrize(
    "answer",
    [
        completion("I do not know."),
        completion('{"answer": 3}'),
        completion('{"answer": "x", "more": 1}'),
        completion(""),
        completion('{"answer": "x"', finish_reason="length"),
        Answer(body=b"<html>proxy</html>"),
        Answer(body=b'{"choices": []}'),
        Answer(body=b""),
        completion('{"answer": "\\u0000"}'),
    ],
)
def test_nonsense_three_times_is_malformed_and_never_stored(answer: Answer) -> None:
    cache = MemoryCache()
    reply, server = one(always(answer), cache=cache)
    assert (reply.status, reply.data, len(server.asked)) == ("malformed", None, 3)
    assert reply.reason
    assert cache.replies == {}


def test_nonsense_for_every_tenth_call_costs_one_call_each() -> None:
    def script(number: int, body: dict[str, Any]) -> Answer:
        return completion("~~~") if number % 10 == 9 else said(question_in(body))

    with loopback(script) as server:
        replies = model_at(server.url).chat([ask(f"Question {i}?") for i in range(50)])
    assert [reply.data for reply in replies] == [{"answer": f"Question {i}?"} for i in range(50)]
    assert len(server.asked) == 55
    assert sum(reply.usage.calls for reply in replies) == 55


def test_an_answer_that_ends_in_the_middle_is_tried_again() -> None:
    whole = said("yes")
    reply, server = one(in_turn(Answer(body=whole.body, cut=True), whole))
    assert (reply.status, len(server.asked)) == ("ok", 2)


def test_a_time_to_wait_that_is_not_ascii_is_ignored() -> None:
    reply, server = one(in_turn(complaint(503, "busy", retry_after="\u00e9"), said("yes")))
    assert (reply.status, len(server.asked)) == ("ok", 2)


@pytest.mark.parametrize("is_compressed", [False, True])
def test_an_answer_that_is_too_long_is_none(is_compressed: bool) -> None:
    long = bytes(2 << 20)
    answer = (
        Answer(body=gzip.compress(long), headers={"content-encoding": "gzip"}) if is_compressed else Answer(200, long)
    )
    reply, _ = one(always(answer))
    assert "no answer (AnswerTooLong: more than 1048576 bytes) (6 calls" in str(reply.reason)


def test_a_server_that_says_nothing_is_left_after_the_timeout() -> None:
    ledger = MemoryLedger()
    script = in_turn(Answer(hang=True), said("yes"))
    reply, _ = one(script, timeout_s=0.2, ledger=ledger)
    assert (reply.status, ledger.outcomes) == ("ok", ["unreachable", "ok"])
    assert "ReadTimeout" in str(ledger.calls[0]["error"])


def unused_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def test_a_server_that_is_gone_ends_the_series_soon(waits: list[float]) -> None:
    model = model_at(f"http://127.0.0.1:{unused_port()}/v1")
    replies = model.chat([ask(f"Question {i}?") for i in range(100)])
    assert {reply.status for reply in replies} == {"error"}
    # Four requests with five waits each; the other 96 are not tried.
    assert len(waits) == 20
    assert "ConnectError" in str(replies[0].reason)
    assert str(replies[99].reason).startswith("not sent, since the 4 requests before it got no answer")


def test_a_run_waits_for_a_dead_server_only_once(waits: list[float]) -> None:
    first, second = [ask(str(i)) for i in range(10)], [ask(str(i)) for i in range(10, 20)]
    with loopback(always(complaint(503, "later"))) as server:
        bare = model_at(server.url)
        model = bare.add_cache(MemoryCache(), "normal", MemoryLedger())
        model.chat(first)
        # Four requests with five retries each.
        assert (len(server.asked), len(waits)) == (24, 20)
        replies = model.chat(second)
        assert (len(server.asked), len(waits)) == (24, 20)
        assert {reply.status for reply in replies} == {"error"}
        assert "not sent, since the 4 requests before it got no answer" in str(replies[0].reason)
        # The next run tries again, and so does every call of a model that was made for no run.
        bare.add_cache(MemoryCache(), "normal", MemoryLedger()).chat(first)
        assert len(server.asked) == 48
        bare.chat(first)
        bare.chat(second)
        assert len(server.asked) == 96


def test_silence_is_counted_across_the_calls_of_a_run_until_an_answer_comes() -> None:
    def script(number: int, body: dict[str, Any]) -> Answer:
        return said("yes") if question_in(body) == "good" else complaint(503, "later")

    with loopback(script) as server:
        model = model_at(server.url).add_cache(MemoryCache(), "normal", MemoryLedger())
        for texts in (["a", "b", "c"], ["good"], ["d", "e"], ["f"]):
            model.chat([ask(text) for text in texts])
        assert len(server.asked) == 6 * 6 + 1
        replies = model.chat([ask("g"), ask("h"), ask("good")])
        assert len(server.asked) == 7 * 6 + 1
    # What is stored is still given.
    assert [reply.status for reply in replies] == ["error", "error", "ok"]


def test_a_run_asks_again_after_a_wrong_key_was_mended() -> None:
    script = in_turn(complaint(401, "who are you"), said("yes"))
    with loopback(script) as server:
        model = model_at(server.url).add_cache(MemoryCache(), "normal", MemoryLedger())
        statuses = [model.chat([ask()])[0].status for _ in range(2)]
    assert statuses == ["error", "ok"]


def test_a_server_that_dies_after_some_answers_leaves_them_stored() -> None:
    cache = MemoryCache()

    def script(number: int, body: dict[str, Any]) -> Answer:
        return said("yes") if number < 3 else Answer(body=said("yes").body, cut=True)

    requests = [ask(f"Question {i}?") for i in range(10)]
    with loopback(script) as server:
        replies = model_at(server.url, cache=cache).chat(requests)
    assert [reply.status for reply in replies] == ["ok"] * 3 + ["error"] * 7
    with loopback(always(said("yes"))) as server:
        replies = model_at(server.url, cache=cache).chat(requests)
    assert [(reply.status, reply.is_cached) for reply in replies] == [("ok", True)] * 3 + [("ok", False)] * 7
    assert len(server.asked) == 7


def test_answers_keep_the_order_of_the_requests() -> None:
    def script(number: int, body: dict[str, Any]) -> Answer:
        return said(question_in(body))

    with loopback(script) as server:
        replies = model_at(server.url, concurrency=8).chat([ask(str(i)) for i in range(40)])
    assert [reply.data for reply in replies] == [{"answer": str(i)} for i in range(40)]


def test_equal_requests_are_asked_once() -> None:
    with loopback(always(said("yes"))) as server:
        first, other, second = model_at(server.url).chat([ask("a"), ask("b"), ask("a")])
    assert len(server.asked) == 2
    assert (first.usage.calls, first.is_cached, other.usage.calls) == (1, False, 1)
    assert second == ChatReply("ok", {"answer": "yes"}, is_cached=True)


def test_spending_stops_between_two_calls_and_across_models() -> None:
    spending, ledger = SpendingLimit(0.001), MemoryLedger()
    given = {"prices": PRICES, "spending": spending, "ledger": ledger}
    with loopback(always(said("yes"))) as server:
        replies = model_at(server.url, **given).chat([ask(str(i)) for i in range(6)])
        (other,) = model_at(server.url, **given).chat([ask("else")])
    # A call costs 0.00045: two stay below the limit of 0.001, the third passes it.
    assert [reply.status for reply in replies] == ["ok"] * 3 + ["stopped"] * 3
    assert (other.status, len(server.asked), len(ledger.calls)) == ("stopped", 3, 3)
    assert "spending limit of 0.001" in str(other.reason)
    assert spending._spent == pytest.approx(0.00135)


def test_spending_stops_between_two_attempts_too() -> None:
    reply, server = one(always(completion("?")), prices=PRICES, spending=SpendingLimit(0.0006))
    assert (reply.status, len(server.asked)) == ("stopped", 2)
    assert reply.usage.money == pytest.approx(0.0009)


def test_a_server_that_hides_its_usage_is_estimated() -> None:
    reply, _ = one(always(said("yes", tokens=None)), prices=PRICES, spending=SpendingLimit(1.0))
    assert reply.usage.tokens_in > 30
    assert 0 < reply.usage.tokens_out <= 50


@pytest.mark.parametrize(
    "changes", [{"spending": SpendingLimit(1.0)}, {"mode": "offline"}, {"concurrency": 0}, {"deadline_s": 0.0}]
)
def test_settings_that_make_no_sense_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"spending|offline|concurrency|deadline"):
        model_at("http://127.0.0.1:1/v1", **changes)


@pytest.mark.parametrize("changes", [{"max_tokens": 0}, {"schema": {"type": "nonsense"}}])
def test_requests_that_no_model_can_be_asked_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"max_tokens|schema"):
        model_at("http://127.0.0.1:1/v1").chat([ask(**changes)])
