"""The key of a server appears nowhere but in the header that carries it."""

from __future__ import annotations

import json
import logging
import string
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrics_core.models.chat.client import PRESETS, HttpChatModel, make_chat_model
from metrics_core.models.chat.server import WITHHELD, Secret, Server, ServerUnusable
from metrics_core.models.chat.structured import texts_in
from metrics_core.models.chat.surroundings import RetryPolicy
from tests.metrics_core.chat_fakes import MemoryCache, MemoryLedger, ask, model_at
from tests.metrics_core.chat_server import Answer, completion, loopback, said
from tests.metrics_core.key_encodings import ENCODINGS, legible

KEY = "sk-very/secret+0123456789"
VARIABLE = "REELSIEVE_TEST_CHAT_KEY"


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv(VARIABLE, KEY)
    return KEY


def echo(status: int, body: str, **headers: str) -> Answer:
    return Answer(status, body.encode(), headers)


def test_the_key_is_sent_and_shown_nowhere(key: str, caplog: pytest.LogCaptureFixture) -> None:
    # The HTTP library logs the headers of answers at this level.
    caplog.set_level(logging.DEBUG)
    cache, ledger = MemoryCache(), MemoryLedger()
    answers = [
        echo(429, f'{{"error": {{"message": "too fast, {key}"}}}}', location=key),
        echo(500, f"Traceback: Bearer {key}"),
        completion(f"your key is {key}"),
        completion(f'{{"answer": "{key}"}}'),
        echo(401, f'{{"error": {{"message": "Incorrect API key provided: {key}"}}}}'),
    ]
    with loopback(lambda number, body: answers[number]) as server:
        model = model_at(server.url, key_variable=VARIABLE, cache=cache, ledger=ledger)
        replies = model.chat([ask("a"), ask("b")])
    assert [headers["authorization"] for headers in server.headers] == [f"Bearer {key}"] * 5
    assert [reply.status for reply in replies] == ["ok", "error"]
    assert replies[0].data == {"answer": "[key]"}
    shown = [repr(model), repr(replies), repr(cache.replies), repr(ledger.calls), json.dumps(model.identity.as_dict())]
    shown += [record.getMessage() for record in caplog.records]
    assert all(key not in text and "very/secret" not in text for text in shown)


def told(encoded: str) -> Answer:
    """An error whose JSON holds the key as it was encoded, with no further escapes."""
    return Answer(400, f'{{"error": {{"message": "wrong key {encoded}"}}}}'.encode())


def answer_with(encoded: str) -> Answer:
    return completion(json.dumps({"answer": encoded[:40], "more": encoded}))


def raw_answer_with(encoded: str) -> Answer:
    return completion(f'{{"answer": "{encoded}"}}')


def parts_with(encoded: str) -> Answer:
    """An answer in two parts of a message, cut within the key."""
    text = json.dumps({"answer": encoded})
    parts = [{"type": "text", "text": part} for part in (text[:24], text[24:])]
    return Answer(body=json.dumps({"choices": [{"message": {"content": parts}}]}).encode())


PLACES: dict[str, Callable[[str], Answer]] = {
    "an error's JSON": told,
    "an error's message": lambda encoded: Answer(400, json.dumps({"error": {"message": f"key {encoded}"}}).encode()),
    "an error's text": lambda encoded: Answer(403, f"who is {encoded}?".encode()),
    "another form of error": lambda encoded: Answer(400, json.dumps({"errors": [{encoded: [encoded]}]}).encode()),
    "a page": lambda encoded: Answer(200, f"<html><td>Bearer {encoded}</td></html>".encode()),
    "an answer": answer_with,
    "the JSON of an answer": raw_answer_with,
    "an answer in parts": parts_with,
    "a refusal": lambda encoded: completion(None, refusal=f"not for {encoded}"),
    "the model's name": lambda encoded: said("yes", model=encoded),
    "its reasoning": lambda encoded: completion(f'<think>{encoded}</think>{{"answer": 1}}'),
    "headers": lambda encoded: Answer(
        302, b"", {"location": f"/{encoded}".encode("ascii", "replace").decode().replace("\n", " ")}
    ),
}


@pytest.mark.parametrize("place", PLACES)
def test_the_key_is_shown_in_no_encoding(place: str, key: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    encoded = [encode(key, Random(number)) for number, encode in enumerate(ENCODINGS.values())]
    cache, ledger = MemoryCache(), MemoryLedger()
    with loopback(lambda number, body: PLACES[place](encoded[number])) as server:
        policy = RetryPolicy(transport_retries=0, content_retries=0)
        model = HttpChatModel(
            "tiny", Server(server.url, VARIABLE), policy=policy, concurrency=1, cache=cache, ledger=ledger
        )
        replies = model.chat([ask(str(number)) for number in range(len(encoded))])
    assert len(server.asked) == (1 if place == "the model's name" else len(encoded))
    for name, reply, call in zip(ENCODINGS, replies, ledger.calls, strict=False):
        stored: list[Any] = [reply.reason, reply.data, call["error"]]
        assert not any(legible(key, text) for text in texts_in(stored)), (name, stored)
        assert not legible(key, "".join(texts_in(reply.data))), (name, reply)
    assert {reply["data"]["answer"] for reply in cache.replies.values()} <= {"[key]"}
    assert not any(legible(key, record.getMessage()) for record in caplog.records)


KEYS = st.text(string.ascii_letters + string.digits + "-_/+.", min_size=20, max_size=80).filter(
    lambda key: sum(letter.isalnum() for letter in key) >= 16
)
PROSE = st.text(string.ascii_letters + " .,;:!?\"'()[]{}\n", max_size=60)


@given(KEYS, st.sampled_from(sorted(ENCODINGS)), st.randoms(use_true_random=False), PROSE, PROSE)
def test_no_encoding_hides_a_key(key: str, name: str, random: Random, before: str, after: str) -> None:
    secret, text = Secret(key), before + ENCODINGS[name](key, random) + after
    assert secret.stands_in(text)
    assert not secret.stands_in(secret.without(text))
    assert not legible(key, secret.without(text))
    assert not secret.stands_in(secret.cleaned({text: [text]}))


@given(st.recursive(st.text(max_size=30), lambda inner: st.dictionaries(PROSE, st.lists(inner)), max_leaves=5))
def test_what_holds_no_key_stays_as_it_is(value: Any) -> None:
    assert Secret(KEY).cleaned(value) == value
    assert Secret(None).cleaned(value) == value


@pytest.mark.parametrize(
    "key", ["ab%41cd%2541x", r"k\u0041k\\x41-\n-", "&amp;&#65;&lt;k>", "!!!!!!!!", "<b>secret</b>"]
)
def test_a_key_of_strange_signs_is_found_too(key: str) -> None:
    secret = Secret(key)
    assert secret.without(f"wrong key: {key}.") == "wrong key: [key]."
    assert secret.cleaned(json.loads(json.dumps({key: [f"a{key}"]}))) == {"[key]": ["a[key]"]}
    assert secret.without(f"wrong key: {json.dumps(json.dumps(key))}") in {WITHHELD, 'wrong key: "\\"[key]\\""'}


@pytest.mark.parametrize("n_before", [480, 490, 495])
def test_the_end_of_a_long_message_shows_no_piece_of_it(key: str, n_before: int) -> None:
    """What is shown is the beginning of a message, and may end within the key."""
    long = json.dumps({"error": {"message": "x" * n_before + key}}).encode()
    with loopback(lambda number, body: Answer(400, long)) as server:
        (reply,) = model_at(server.url, key_variable=VARIABLE).chat([ask()])
    assert key[:3] not in str(reply.reason)


def test_what_cannot_be_seen_through_is_withheld() -> None:
    deep = "%" + "25" * 30 + "41"
    assert Secret("k-0123456789").without(deep) == WITHHELD
    assert Secret(None).without(deep) == deep
    nested: Any = "text"
    for _ in range(200):
        nested = [nested]
    with pytest.raises(ValueError, match="nested deeper"):
        Secret(None).cleaned(nested)


def test_an_error_of_the_transport_does_not_quote_it(key: str) -> None:
    with loopback(lambda number, body: Answer(200, b"", {"bad header": key})) as server:
        (reply,) = model_at(server.url, key_variable=VARIABLE).chat([ask()])
    assert reply.status == "error"
    assert key not in repr(reply)


def test_the_key_is_read_when_a_request_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    with loopback(lambda number, body: said("yes")) as server:
        model = model_at(server.url, key_variable=VARIABLE)
        missing = model.chat([ask("a"), ask("b")])
        assert server.asked == []
        monkeypatch.setenv(VARIABLE, "later-key")
        (reply,) = model.chat([ask("a")])
    assert {item.reason for item in missing} == {
        f"environment variable {VARIABLE} is not set: it must hold the server's key"
    }
    assert reply.status == "ok"
    assert server.headers[0]["authorization"] == "Bearer later-key"


@pytest.mark.parametrize("bad", ["line\nbreak", "with a space", "schlüssel", "EMPTY"])
def test_a_key_that_cannot_be_used_is_not_quoted(monkeypatch: pytest.MonkeyPatch, bad: str) -> None:
    monkeypatch.setenv(VARIABLE, bad)
    with loopback(lambda number, body: said("yes")) as server:
        (reply,) = model_at(server.url, key_variable=VARIABLE).chat([ask()])
    assert (reply.status, server.asked) == ("error", [])
    assert bad not in repr(reply)
    assert VARIABLE in str(reply.reason)


def test_a_server_without_a_key_gets_none() -> None:
    with loopback(lambda number, body: said("yes")) as server:
        model_at(server.url).chat([ask()])
    assert "authorization" not in {name.lower() for name in server.headers[0]}


@pytest.mark.parametrize(
    "url",
    ["http://user:pass@host/v1", "https://:secret@host/v1", "https://host/v1?api-key=secret", "https://host/v1#secret"],
)
def test_an_address_with_a_secret_is_refused_without_quoting_it(url: str) -> None:
    with pytest.raises(ServerUnusable) as raised:
        Server(url)
    assert "secret" not in str(raised.value)
    assert "pass@" not in str(raised.value)
    assert raised.value.plain


@pytest.mark.parametrize("url", ["host:8000/v1", "ftp://host/v1", "http://", "", "http://host:99999/v1"])
def test_an_address_of_no_server_is_named(url: str) -> None:
    with pytest.raises(ServerUnusable, match="is no address"):
        Server(url)


@pytest.mark.parametrize("host", ["10.0.0.5", "example.org", "127.0.0.1.example.org", "localhost.example.org"])
def test_a_key_does_not_travel_unencrypted(host: str) -> None:
    with pytest.raises(ServerUnusable, match="unencrypted"):
        Server(f"http://{host}/v1", VARIABLE)
    assert Server(f"https://{host}/v1", VARIABLE).key_variable == VARIABLE
    assert not Server(f"http://{host}/v1").is_local


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "127.8.8.8", "vllm.localhost"])
def test_on_this_machine_it_may(host: str) -> None:
    assert Server(f"http://{host}:8000/v1", VARIABLE).is_local


def test_a_key_in_place_of_its_variable_is_not_quoted() -> None:
    with pytest.raises(ServerUnusable) as raised:
        Server("https://host/v1", KEY)
    assert KEY not in str(raised.value)


def test_presets_listen_on_this_machine_or_need_an_address() -> None:
    for name, preset in PRESETS.items():
        if preset.url is None:
            with pytest.raises(ServerUnusable, match="needs a server"):
                make_chat_model("model", preset=name)
        else:
            assert make_chat_model("model", preset=name).server.is_local
    elsewhere = make_chat_model("model", preset="vllm", url="https://host/v1", key_variable=VARIABLE)
    assert elsewhere.server == Server("https://host/v1", VARIABLE)
    with pytest.raises(ServerUnusable, match="there is no preset 'vlm': name one of vllm"):
        make_chat_model("model", preset="vlm")
    with pytest.raises(ServerUnusable, match="needs a server"):
        make_chat_model("model")


def test_proxies_of_the_environment_are_not_asked_about_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with loopback(lambda number, body: said("yes")) as server:
        (reply,) = model_at(server.url).chat([ask()])
    assert reply.status == "ok"
