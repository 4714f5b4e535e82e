"""The parts of the client one by one: parsing, dialects, budgets, concurrency, money, keys, estimates."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metrics_core.models.chat.attempt_result import classify_answer
from metrics_core.models.chat.bookkeeping import compute_request_keys
from metrics_core.models.chat.json_answers import MalformedAnswer, dump_ordered_json, parse_json_answer
from metrics_core.models.chat.protocol import ImagePart, TextPart
from metrics_core.models.chat.token_estimates import estimate_tokens
from metrics_core.models.chat.wire import Dialect
from metrics_core.models.server.address import Server
from metrics_core.models.server.answers import Exchange, is_same_model, parse_complaint
from metrics_core.models.server.endpoint import Endpoint
from metrics_core.models.server.exchange import ask_all
from metrics_core.models.server.pace import Pace
from metrics_core.models.server.spending import Prices, SpendingLimit, Usage, add_usage, compute_call_usage
from metrics_core.protocols import ModelIdentity
from tests.metrics_core.chat_fakes import SCHEMA, MemoryCache, ask, jpeg, model_at
from tests.metrics_core.chat_server import Answer, complaint, loopback, said

IDENTITY = ModelIdentity("tiny", "0")
ANYTHING = {"type": "object"}


@pytest.mark.parametrize(
    "text",
    [
        '{"answer": "a {b} c"}',
        '  {"answer": "a {b} c"}\n',
        '```json\n{"answer": "a {b} c"}\n```',
        'Here {it} is:\n```\n{"answer": "a {b} c"}\n```\nWell?',
        'Sure: {"answer": "a {b} c"} I hope that helps.',
        '<think>perhaps {"answer": "x"}</think>{"answer": "a {b} c"}',
    ],
)
def test_the_outermost_object_is_read(text: str) -> None:
    assert parse_json_answer(text, SCHEMA) == {"answer": "a {b} c"}


def test_a_fence_inside_a_text_stays() -> None:
    assert parse_json_answer('{"answer": "```json\\n{}```"}', SCHEMA) == {"answer": "```json\n{}```"}


@pytest.mark.parametrize("before", ["", "Well: ", "```json\n", "<think>Is it so?</think>"])
def test_the_end_of_a_thought_inside_a_text_stays(before: str) -> None:
    after = "\n```" if before.startswith("`") else ""
    assert parse_json_answer(before + '{"answer": "a </think> b"}' + after, SCHEMA) == {"answer": "a </think> b"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no JSON object"),
        ("yes", "no JSON object"),
        ('["answer"]', "no JSON object"),
        ("} {", "no JSON object"),
        ('{"answer": "x"', "no JSON object"),
        ('{"answer": "x",}', "not JSON"),
        ("{'answer': 'x'}", "not JSON"),
        ('{"answer": NaN}', "not a number"),
        ('{"answer": 1e999}', "too great"),
        ('{"answer": "\\u0000"}', "cannot be stored"),
        ('{"answer": "\\ud800"}', "cannot be stored"),
        ('{"a":' * 100_000 + "1" + "}" * 100_000, "not JSON"),
        ('{"answer": "x", "answer": "y"}', "a name is given twice"),
        ('{"answer": 1}', "does not fit"),
        ('{"answer": null}', "does not fit"),
        ("{}", "does not fit"),
        ('{"answer": "x", "b": 1}', "does not fit"),
        ('{"answer": "' + "x" * 41 + '"}', "does not fit"),
    ],
)
def test_what_is_no_valid_answer_is_malformed(text: str, reason: str) -> None:
    with pytest.raises(MalformedAnswer, match=reason):
        parse_json_answer(text, SCHEMA)


def test_a_default_of_the_schema_is_not_put_into_an_answer() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "default": "x"}}}
    assert parse_json_answer("{}", schema) == {}


PLAIN = st.characters(blacklist_categories=["Cs"], blacklist_characters="\x00")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(PLAIN),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(PLAIN), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(PLAIN), JSON, max_size=3), st.sampled_from(["", "Well: ", "```json\n"]))
def test_every_object_comes_back_as_it_was(data: dict[str, Any], before: str) -> None:
    after = "\n```" if before.startswith("`") else " "
    assert parse_json_answer(before + dump_ordered_json(data) + after, ANYTHING) == data


def test_dialects_go_down_rung_by_rung_and_end() -> None:
    dialect: Dialect | None = Dialect()
    rungs = []
    while dialect:
        rungs.append(dialect.json_mode)
        dialect = dialect.find_next_dialect("response_format is not supported")
    assert rungs == ["json_schema", "json_object_schema", "json_object", "prompt"]
    hosted = "Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens' instead."
    assert Dialect().find_next_dialect(hosted) == Dialect(limit_field="max_completion_tokens")
    assert Dialect().find_next_dialect("unknown field `seed`") == Dialect(sends_seed=False)
    assert Dialect("prompt", "max_completion_tokens", False).find_next_dialect(hosted + " seed response_format") is None


@pytest.mark.parametrize("status", [400, 422, 500, 501])
def test_the_rung_is_remembered_for_the_server(status: int) -> None:
    def script(number: int, body: dict[str, Any]) -> Answer:
        form = body.get("response_format", {})
        strange = form.get("type") == "json_schema" or "schema" in form
        return complaint(status, f"response_format {form} is unknown") if strange else said("yes")

    with loopback(script) as server:
        model = model_at(server.url)
        first, second = model.chat([ask("a"), ask("b")])
        (third,) = model.chat([ask("c")])
    assert [first.usage.calls, second.usage.calls, third.usage.calls] == [3, 1, 1]
    types = [body["response_format"]["type"] for body in server.asked]
    assert types == ["json_schema", "json_object", "json_object", "json_object", "json_object"]


def test_a_late_complaint_does_not_lead_up_again() -> None:
    model, complaint_of_server = model_at("http://127.0.0.1:1/v1"), "response_format is unknown"
    assert model.learn_dialect(Dialect(), complaint_of_server)
    assert model.learn_dialect(Dialect("json_object_schema"), complaint_of_server)
    assert model.learn_dialect(Dialect(), complaint_of_server)
    assert model.dialect.json_mode == "json_object"
    assert not model.learn_dialect(model.dialect, "the prompt is too long")
    assert model.dialect.json_mode == "json_object"


def test_a_server_that_knows_no_form_is_asked_by_the_prompt_alone() -> None:
    def script(number: int, body: dict[str, Any]) -> Answer:
        if "response_format" in body:
            return complaint(400, "Extra inputs are not permitted: response_format")
        return complaint(400, "unknown field: seed") if "seed" in body else said("yes")

    with loopback(script) as server:
        (reply,) = model_at(server.url).chat([ask()])
    assert (reply.status, len(server.asked)) == ("ok", 5)
    assert not {"response_format", "seed"} & set(server.asked[-1])


def test_many_at_once_go_down_together() -> None:
    def script(number: int, body: dict[str, Any]) -> Answer:
        form = body.get("response_format", {}).get("type")
        return complaint(400, "json_schema is unknown") if form == "json_schema" else said("yes")

    with loopback(script) as server:
        replies = model_at(server.url, concurrency=8).chat([ask(str(i)) for i in range(40)])
    assert {reply.status for reply in replies} == {"ok"}
    # None was taken further down than one rung.
    assert {body["response_format"]["type"] for body in server.asked} == {"json_schema", "json_object"}
    assert all(
        "schema" in body["response_format"] for body in server.asked if body["response_format"]["type"] != "json_schema"
    )


@pytest.mark.parametrize(
    ("asked", "answered", "same"),
    [
        ("gpt-4o", "gpt-4o", True),
        ("gpt-4o", "gpt-4o-2024-08-06", True),
        ("gpt-4o", "gpt-4o-mini", False),
        ("gpt-4o", "gpt-4o-mini-2024-07-18", False),
        ("gemini-pro", "gemini-pro-002", True),
        ("llama3", "llama3:latest", True),
        ("llama3:8b", "llama3:70b", False),
        ("Qwen/Qwen2.5-VL-7B", "qwen2.5-vl-7b", True),
        ("Qwen/Qwen2.5-VL-7B", "Qwen/Qwen2.5-VL-72B", False),
        ("tiny", "/models/tiny.gguf", True),
        ("/models/tiny-vl", "/models/tiny-vl@main", True),
        ("tiny@v1", "tiny@v2", False),
        ("tiny.", "tinyx", False),
    ],
)
def test_names_of_one_model(asked: str, answered: str, same: bool) -> None:
    assert is_same_model(asked, answered) is same


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"error": {"message": "no"}}, "no"),
        ({"error": "no"}, "no"),
        ({"message": "no", "code": 7}, "no"),
        ({"detail": "no"}, "no"),
        ({"error": {"message": " raw \ntext\x00"}}, "raw  text"),
        (None, ""),
        (["no"], ""),
    ],
)
def test_complaints_in_the_forms_of_servers(body: Any, message: str) -> None:
    assert parse_complaint(body)[0] == message


@pytest.mark.parametrize(
    "body", [None, [], {}, {"choices": []}, {"choices": [{}]}, {"choices": [{"message": None}]}, {"choices": 3}]
)
def test_a_body_of_another_form_is_no_completion(body: Any) -> None:
    assert classify_answer(Exchange(200, body), ask(), "tiny").outcome == "malformed"


@pytest.mark.parametrize(
    "usage",
    [
        None,
        {},
        {"prompt_tokens": 1},
        {"prompt_tokens": "1", "completion_tokens": 2},
        {"prompt_tokens": -1, "completion_tokens": 2},
        {"prompt_tokens": 2**63, "completion_tokens": 2},
        {"prompt_tokens": 1, "completion_tokens": 10**400},
    ],
)
def test_usage_that_means_nothing_is_unknown(usage: Any) -> None:
    content = [{"type": "text", "text": '{"answer": '}, {"type": "text", "text": '"x"}'}]
    body = {"choices": [{"message": {"content": content}}], "usage": usage}
    read = classify_answer(Exchange(200, body), ask(), "tiny")
    assert (read.data, read.tokens) == ({"answer": "x"}, None)


def endpoint(concurrency: int | None) -> Endpoint:
    return Endpoint("tiny", Server("http://127.0.0.1:1/v1"), concurrency=concurrency)


def test_results_keep_the_order_of_the_items_and_no_more_run_at_once() -> None:
    running, most = 0, 0

    async def call(client: Any, x: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.001 * (x % 3))
        running -= 1
        return x * x

    assert ask_all(endpoint(7), call, list(range(40))) == [x * x for x in range(40)]
    assert most == 7


def test_more_run_at_once_while_a_server_answers_as_fast() -> None:
    running, most = 0, list[int]()
    made = endpoint(None)

    async def call(client: Any, x: int) -> None:
        nonlocal running
        running += 1
        most.append(running)
        await asyncio.sleep(0)
        running -= 1
        made.pace.note("answers", Exchange(429 if x == 60 else 200, seconds=1.0))

    ask_all(made, call, list(range(61)))
    assert max(most[:8]) == 8
    assert 16 < max(most) <= 32
    ask_all(made, call, list(range(16)))
    assert max(most[61:]) <= 17


GOOD, SLOW, BUSY = Exchange(200, seconds=1.0), Exchange(200, seconds=2.5), Exchange(429)


@pytest.mark.parametrize(
    ("attempts", "limit"),
    [
        ([GOOD] * 7, 8),
        ([GOOD] * 8, 16),
        ([GOOD] * 24, 32),
        ([GOOD] * 10_000, 256),
        # Slower answers lower it as far as to where it began, and from then on it grows by one.
        ([GOOD] * 8 + [SLOW] * 16, 12),
        ([GOOD] * 8 + [SLOW] * 16 + [GOOD] * 12, 13),
        ([GOOD] * 8 + [SLOW] * (16 + 12 + 9), 8),
        # In the end, the slower time is the usual one.
        ([GOOD] * 8 + [SLOW] * (16 + 12 + 9 + 8 * 8), 12),
        # Overload halves it once for all that were in flight.
        ([GOOD] * 8 + [BUSY] * 16, 8),
        ([GOOD] * 8 + [BUSY] * 17, 4),
        ([Exchange(error="no answer (ReadTimeout)")], 4),
        ([Exchange(503)] * 100, 1),
        ([BUSY] + [GOOD] * (4 + 5 + 6), 7),
        # What the server makes of a request says nothing of its load.
        ([Exchange(400, seconds=1.0)] * 8, 16),
        ([Exchange(500, seconds=1.0)] * 8, 16),
    ],
)
def test_the_pace_follows_the_answers(attempts: list[Exchange], limit: int) -> None:
    pace = Pace()
    for attempt in attempts:
        pace.note("answers", attempt)
    assert pace.limit == limit


def test_answers_are_compared_with_those_of_their_kind() -> None:
    pace = Pace()
    for kind, seconds in (("short", 1.0), ("long", 30.0)):
        for _ in range(pace.limit):
            pace.note(kind, Exchange(200, seconds=seconds))
    assert pace.limit == 32


def test_an_error_does_not_wait_for_calls_under_way_and_begins_no_more() -> None:
    begun, cancelled = [], []

    async def call(client: Any, x: int) -> None:
        begun.append(x)
        if x:
            raise ZeroDivisionError("one")
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            cancelled.append(x)
            raise

    with pytest.raises(ZeroDivisionError, match="one"):
        ask_all(endpoint(2), call, list(range(10)))
    assert (begun, cancelled) == ([0, 1], [0])


def test_asking_works_in_a_thread_that_runs_an_event_loop() -> None:
    """As a notebook does."""

    async def cell() -> list[int]:
        async def call(client: Any, x: int) -> int:
            return x

        return ask_all(endpoint(2), call, [1, 2])

    assert asyncio.run(cell()) == [1, 2]


def test_what_a_cache_raises_comes_through() -> None:
    class Full(MemoryCache):
        def store(self, replies: Any) -> None:
            raise OSError("disk full")

    with loopback(lambda number, body: said("yes")) as server:
        with pytest.raises(OSError, match="disk full"):
            model_at(server.url, cache=Full()).chat([ask(str(i)) for i in range(10)])
        assert len(server.asked) == 1


COUNTS = st.integers(0, 10**9)


@given(COUNTS, COUNTS, COUNTS, COUNTS)
def test_usage_adds_up(a: int, b: int, c: int, d: int) -> None:
    prices = Prices(2.5, 10.0)
    total = add_usage(compute_call_usage(a, b, prices), compute_call_usage(c, d, prices))
    assert (total.calls, total.tokens_in, total.tokens_out) == (2, a + c, b + d)
    assert total.money == pytest.approx(((a + c) * 2.5 + (b + d) * 10) / 1e6)
    assert add_usage(Usage(), total) == add_usage(total, Usage()) == total
    assert add_usage(total, compute_call_usage(1, 1, None)).money is None


@pytest.mark.parametrize("price", [-1.0, float("nan"), float("inf")])
def test_prices_and_limits_are_numbers(price: float) -> None:
    with pytest.raises(ValueError, match="price"):
        Prices(price, 1.0)
    if price != float("inf"):
        with pytest.raises(ValueError, match="limit"):
            SpendingLimit(price)


RED, BLUE = jpeg(), jpeg(colour="blue")
BASE = ask("Who?", RED)


@pytest.mark.parametrize(
    "other",
    [
        replace(BASE, system="Answer!"),
        replace(BASE, parts=(ImagePart(BLUE, {"time_s": 0.5}), TextPart("Who?"))),
        replace(BASE, parts=(ImagePart(RED, {"time_s": 1.5}), TextPart("Who?"))),
        replace(BASE, parts=(ImagePart(RED, {"time_s": 0.5}), TextPart("Who"), TextPart("?"))),
        replace(BASE, parts=(TextPart("Who?"), ImagePart(RED, {"time_s": 0.5}))),
        replace(BASE, schema={**SCHEMA, "required": []}),
        replace(BASE, schema=dict(reversed(SCHEMA.items()))),
        replace(BASE, prompt_version="2"),
        replace(BASE, max_tokens=51),
        replace(BASE, temperature=0.5),
        replace(BASE, seed=1),
    ],
)
def test_all_that_decides_an_answer_is_in_its_key(other: Any) -> None:
    first, second = compute_request_keys(IDENTITY, BASE, 3), compute_request_keys(IDENTITY, other, 3)
    assert len({*first, *second}) == 6


def test_a_key_depends_on_the_model_and_not_on_names_of_steps() -> None:
    first = compute_request_keys(IDENTITY, BASE, 1)
    assert compute_request_keys(ModelIdentity("tiny", "1"), BASE, 1) != first
    assert compute_request_keys(ModelIdentity("tiny", "0", {"dtype": "fp16"}), BASE, 1) != first
    assert compute_request_keys(IDENTITY, replace(BASE, purpose="another step"), 1) == first
    assert [len(key) for key in first] == [32]


def test_answers_of_later_attempts_are_found_again() -> None:
    cache = MemoryCache()
    with loopback(lambda number, body: said("yes") if body["seed"] == 2 else said("x" * 41)) as server:
        model = model_at(server.url, cache=cache)
        (first,) = model.chat([ask()])
        (again,) = model.chat([ask()])
        # Another seed is another question, even where it would be sent as the attempt before was.
        (other,) = model.chat([ask(seed=2)])
    assert (first.usage.calls, again.is_cached, again.data) == (3, True, first.data)
    assert (other.is_cached, len(server.asked)) == (False, 4)


def test_modes_of_the_cache() -> None:
    cache = MemoryCache()
    with loopback(lambda number, body: said(str(number))) as server:
        model_at(server.url, cache=cache).chat([ask("a")])
        (offline,) = model_at(server.url, cache=cache, mode="offline").chat([ask("a")])
        (missing,) = model_at(server.url, cache=cache, mode="offline").chat([ask("b")])
        (fresh,) = model_at(server.url, cache=cache, mode="refresh").chat([ask("a")])
        (after,) = model_at(server.url, cache=cache).chat([ask("a")])
    assert (offline.data, offline.is_cached) == ({"answer": "0"}, True)
    assert (missing.status, len(server.asked)) == ("error", 2)
    assert "tiny has no stored answer: run once without REELSIEVE_CHAT_MODE=offline" in str(missing.reason)
    assert (fresh.data, fresh.is_cached) == ({"answer": "1"}, False)
    assert (after.data, after.is_cached) == ({"answer": "1"}, True)


def test_tokens_of_a_request_follow_their_rule() -> None:
    # 80 bytes of question are 20 tokens; an image of 56 x 28 pixels is 2; another step has the same surroundings.
    plain = estimate_tokens(ask("x" * 80))
    assert plain == estimate_tokens(ask("")) + 20
    assert estimate_tokens(ask("x" * 80, jpeg(56, 28))) == plain + 2
    assert estimate_tokens(ask("x" * 84)) == plain + 1


@settings(max_examples=25)
@given(st.text(max_size=50))
def test_any_text_can_be_asked_and_has_a_key(text: str) -> None:
    assert len(compute_request_keys(IDENTITY, ask(text + "\ud800"), 1)) == 1
    assert estimate_tokens(ask(text + "\ud800")) > 0
