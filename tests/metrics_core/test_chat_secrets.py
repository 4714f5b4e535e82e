"""The key of a server appears nowhere but in the header that carries it."""

from __future__ import annotations

import json
import logging
import string
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrics_core.models.chat.client import HttpChatModel
from metrics_core.models.chat.json_answers import iterate_texts
from metrics_core.models.server.address import PRESETS, Server, ServerUnusable
from metrics_core.models.server.answers import hide_key
from metrics_core.models.server.endpoint import Endpoint
from metrics_core.models.server.exchange import _make_ssl_context
from tests.metrics_core.chat_fakes import MemoryCache, MemoryLedger, ask, model_at, no_waits
from tests.metrics_core.chat_server import Answer, completion, loopback, said
from tests.metrics_core.key_escapes import escape_key, shows_key

KEY = "sk-very/secret+0123456789"
VARIABLE = "REELSIEVE_TEST_CHAT_KEY"


@pytest.fixture(autouse=True)
def _no_waits() -> Iterator[None]:
    with no_waits():
        yield


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


def answer_with(text: str) -> Answer:
    return completion(json.dumps({"answer": text[:40], "more": text}))


def raw_answer_with(encoded: str) -> Answer:
    return completion(f'{{"answer": "{encoded}"}}')


def parts_with(encoded: str) -> Answer:
    """An answer in two parts of a message, cut within the key."""
    text = json.dumps({"answer": encoded})
    parts = [{"type": "text", "text": part} for part in (text[:24], text[24:])]
    return Answer(body=json.dumps({"choices": [{"message": {"content": parts}}]}).encode())


PLACES: dict[str, Callable[[str], Answer]] = {
    "an error's message": lambda text: Answer(400, json.dumps({"error": {"message": f"key {text}"}}).encode()),
    "an error's text": lambda text: Answer(403, f"who is {text}?".encode()),
    "another form of error": lambda text: Answer(400, json.dumps({"errors": [{text: [text]}]}).encode()),
    "a page": lambda text: Answer(200, f"<html><td>Bearer {text}</td></html>".encode()),
    "an answer": answer_with,
    "an answer in parts": parts_with,
    "a refusal": lambda text: completion(None, refusal=f"not for {text}"),
    "the model's name": lambda text: said("yes", model=text),
    "its reasoning": lambda text: completion(f'<think>{text}</think>{{"answer": 1}}'),
    "headers": lambda text: Answer(302, b"", {"location": f"/{text}"}),
}
# Where a parser undoes the escapes of JSON.
PLACES_IN_JSON: dict[str, Callable[[str], Answer]] = {
    "an error's JSON": told,
    "the JSON of an answer": raw_answer_with,
}


def expect_no_key(answer: Answer, key: str, caplog: pytest.LogCaptureFixture) -> None:
    """Ask a server that gives this answer, and look at all that is returned, stored and logged."""
    caplog.set_level(logging.DEBUG)
    cache, ledger = MemoryCache(), MemoryLedger()
    with loopback(lambda number, body: answer) as server:
        server_with_key = Server(server.url, VARIABLE)
        endpoint = Endpoint("tiny", server_with_key, transport_retries=0, content_retries=0, ledger=ledger)
        (reply,) = HttpChatModel(endpoint, cache=cache).chat([ask()])
    assert len(server.asked) == len(ledger.calls) == 1
    stored: list[Any] = [reply.reason, reply.data, ledger.calls[0]["error"]]
    assert not any(shows_key(key, text) for text in iterate_texts(stored)), stored
    assert {reply["data"]["answer"] for reply in cache.replies.values()} <= {"[key]"}
    assert not any(shows_key(key, record.getMessage()) for record in caplog.records)


@pytest.mark.parametrize("place", PLACES | PLACES_IN_JSON)
def test_the_key_is_shown_from_nowhere(place: str, key: str, caplog: pytest.LogCaptureFixture) -> None:
    expect_no_key((PLACES | PLACES_IN_JSON)[place](key), key, caplog)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("place", PLACES_IN_JSON)
def test_escapes_of_json_do_not_hide_it(place: str, seed: int, key: str, caplog: pytest.LogCaptureFixture) -> None:
    expect_no_key(PLACES_IN_JSON[place](escape_key(key, Random(seed))), key, caplog)


PROSE = st.text(string.ascii_letters + " .,;:!?\"'()[]{}\n", max_size=60)


@given(st.recursive(st.text(max_size=30), lambda inner: st.dictionaries(PROSE, st.lists(inner)), max_leaves=5))
def test_json_without_the_key_stays_as_it_is(value: Any) -> None:
    assert hide_key(value, KEY) == value
    assert hide_key(value, None) == value


@pytest.mark.parametrize(
    "key", ["ab%41cd%2541x", r"k\u0041k\\x41-\n-", "&amp;&#65;&lt;k>", "!!!!!!!!", "<b>secret</b>"]
)
def test_a_key_of_strange_signs_is_cut_too(key: str) -> None:
    assert hide_key({key: [f"a{key}"]}, key) == {"[key]": ["a[key]"]}


def test_json_that_is_nested_too_deep_is_none() -> None:
    nested: Any = "text"
    for _ in range(200):
        nested = [nested]
    with pytest.raises(ValueError, match="nested deeper"):
        hide_key(nested, KEY)


@pytest.mark.parametrize("n_before", [480, 490, 495])
def test_the_end_of_a_long_message_shows_no_piece_of_it(key: str, n_before: int) -> None:
    """What is shown is the beginning of a message, and may end within the key."""
    long = json.dumps({"error": {"message": "x" * n_before + key}}).encode()
    with loopback(lambda number, body: Answer(400, long)) as server:
        (reply,) = model_at(server.url, key_variable=VARIABLE).chat([ask()])
    assert key[:3] not in str(reply.reason)


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
        f"environment variable {VARIABLE} is empty or not set: set it to the server's key"
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


def test_no_other_header_of_the_library_is_sent(monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    """Not what this machine runs, nor a key or an organisation that the library finds in the environment."""
    for name in ("API_KEY", "ADMIN_KEY", "ORG_ID", "PROJECT_ID", "BASE_URL", "CUSTOM_HEADERS"):
        monkeypatch.setenv(f"OPENAI_{name}", "user-agent: https://other.example")
    with loopback(lambda number, body: said("yes")) as server:
        model_at(server.url).chat([ask()])
        model_at(server.url, key_variable=VARIABLE).chat([ask()])
    plain, keyed = ({name.lower(): value for name, value in headers.items()} for headers in server.headers)
    assert keyed.pop("authorization") == f"Bearer {key}"
    assert {name for name in plain if name.startswith(("x-", "openai", "auth"))} == set()
    assert "other.example" not in repr(server.headers)
    assert plain == keyed


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
    with pytest.raises(ServerUnusable, match="is not the address"):
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


@pytest.mark.parametrize("url", ["https://example.org/v1", "http://example.org/v1"])
def test_a_key_in_place_of_its_variable_is_not_quoted(url: str) -> None:
    with pytest.raises(ServerUnusable) as raised:
        Server(url, KEY)
    assert KEY not in str(raised.value)


def test_presets_listen_on_this_machine() -> None:
    assert all(Server(address).is_local for address in PRESETS.values())


def test_proxies_of_the_environment_are_not_asked_about_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with loopback(lambda number, body: said("yes")) as server:
        (reply,) = model_at(server.url).chat([ask()])
    assert reply.status == "ok"


@pytest.mark.parametrize(
    ("variable", "value"), [("ALL_PROXY", "socks4://ada:hunter2@127.0.0.1:9"), ("SSL_CERT_FILE", "gone")]
)
def test_a_proxy_or_certificates_that_cannot_be_used_are_a_fault_of_settings(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    _make_ssl_context.cache_clear()
    monkeypatch.setenv(variable, value)
    with pytest.raises(ServerUnusable, match=variable) as raised:
        model_at("https://models.invalid/v1").chat([ask()])
    assert "hunter2" not in str(raised.value)
