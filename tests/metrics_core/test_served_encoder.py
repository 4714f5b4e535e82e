"""Vectors of texts from a server of /v1/embeddings on 127.0.0.1, good and bad."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metrics_core.models.errors import ModelUnusable
from metrics_core.models.served_encoder import ServedTextEncoder, parse_unit_vectors
from metrics_core.models.server.address import Server
from metrics_core.models.server.endpoint import Endpoint
from metrics_core.models.server.spending import Prices, SpendingLimit
from tests.metrics_core.chat_fakes import MemoryLedger, no_waits
from tests.metrics_core.chat_server import Answer, Loopback, Script, complaint, loopback


@pytest.fixture(autouse=True)
def _no_waits() -> Iterator[None]:
    with no_waits():
        yield


def vector(text: str) -> list[float]:
    """Of three numbers, another for every text of these tests."""
    return [float(len(text)), float(ord(text[0])), 1.0]


def embedded(texts: list[str], **changes: Any) -> Answer:
    """A good answer, its vectors in reverse order, which their places mend."""
    data = [{"index": place, "embedding": vector(text)} for place, text in enumerate(texts)][::-1]
    body = {"model": "tiny", "data": data, "usage": {"prompt_tokens": 10 * len(texts)}, **changes}
    return Answer(body=json.dumps(body).encode())


def ask(
    script: Script, texts: list[str], batch_size: int = 64, **changes: Any
) -> tuple[np.ndarray[Any, Any], Loopback]:
    with loopback(script) as served:
        endpoint = Endpoint("tiny", Server(served.url), **changes)
        encoder = ServedTextEncoder(endpoint, batch_size)
        return encoder.encode(texts), served


def expected(texts: list[str]) -> np.ndarray[Any, Any]:
    rows = np.array([vector(text) for text in texts])
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


@settings(max_examples=10)
@given(st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=20), min_size=1, max_size=9))
def test_vectors_come_in_the_order_of_the_texts(texts: list[str]) -> None:
    vectors, served = ask(lambda number, body: embedded(body["input"]), texts, batch_size=2)
    assert vectors.dtype == np.float32
    np.testing.assert_array_equal(vectors, expected(texts))
    assert sorted(text for body in served.asked for text in body["input"]) == sorted(texts)
    assert {len(body["input"]) for body in served.asked} <= {1, 2}
    assert served.asked[0]["model"] == "tiny"


def test_no_text_is_not_asked_for() -> None:
    vectors, served = ask(lambda number, body: embedded(body["input"]), [])
    assert (len(vectors), served.asked) == (0, [])


@pytest.mark.parametrize("status", [400, 413, 500])
def test_a_batch_that_is_too_much_is_halved(status: int) -> None:
    def script(number: int, body: dict[str, Any]) -> Answer:
        return embedded(body["input"]) if len(body["input"]) <= 2 else complaint(status, "CUDA out of memory")

    texts = [f"text {number}" for number in range(8)]
    vectors, _ = ask(script, texts)
    np.testing.assert_array_equal(vectors, expected(texts))


def test_one_text_that_is_too_much_is_named() -> None:
    def script(number: int, body: dict[str, Any]) -> Answer:
        is_long = any(len(text) > 50 for text in body["input"])
        return complaint(400, "input is too long") if is_long else embedded(body["input"])

    with pytest.raises(
        ModelUnusable, match=r"gave no vector for the text 'aaaa.*: the server answered 400: input is too lon"
    ):
        ask(script, ["b", "c", "a" * 60])


def test_a_text_that_is_too_much_does_not_cost_the_vectors_of_others() -> None:
    def script(number: int, body: dict[str, Any]) -> Answer:
        return complaint(400, "input is too long") if body["input"] == ["aaa"] else embedded(body["input"])

    with pytest.raises(ModelUnusable, match="gave no vector for the text 'aaa'") as error:
        ask(script, ["aaa", "b", "cc"], batch_size=1, concurrency=1)
    assert list(error.value.vectors) == ["b", "cc"]
    np.testing.assert_array_equal(list(error.value.vectors.values()), expected(["b", "cc"]))


def test_a_passing_error_is_waited_out() -> None:
    answers = iter([complaint(503, "loading"), complaint(429, "slowly", retry_after="3")])
    vectors, served = ask(lambda number, body: next(answers, embedded(body["input"])), ["a", "b"])
    np.testing.assert_array_equal(vectors, expected(["a", "b"]))
    assert len(served.asked) == 3


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (complaint(401, "no key"), "gave no vectors: the server answered 401: no key. Check the key"),
        (complaint(404, "no model"), "404: no model. Check the model's name and the address, which ends in /v1"),
        (Answer(body=b"<html>"), "did not answer with one vector per text"),
        (embedded(["a"]), "did not answer with one vector per text"),
        (embedded(["a", "b", "c"]), "did not answer with one vector per text"),
        (embedded(["a", "b"], model="other"), "but other answered: name the model as the server names it"),
        (embedded([], data=[{"embedding": [1, 2]}, {"embedding": [1]}]), "did not answer with one vector"),
        (
            embedded([], data=[{"embedding": [0, 0]}, {"embedding": [1, 0]}]),
            "a vector that is zero or not finite for the text",
        ),
        (embedded([], data=[{"embedding": [1e999, 1]}, {"embedding": [1, 1]}]), "zero or not finite for the text 'a'"),
    ],
)
def test_what_cannot_be_used_is_one_sentence(answer: Answer, sentence: str) -> None:
    with pytest.raises(ModelUnusable) as error:
        ask(lambda number, body: answer, ["a", "b"])
    assert sentence in str(error.value)
    assert "tiny at http://127.0.0.1:" in str(error.value)


def test_batches_of_different_lengths_are_two_models() -> None:
    def script(number: int, body: dict[str, Any]) -> Answer:
        return embedded([], data=[{"embedding": [1.0] * (2 + number % 2)}])

    with pytest.raises(ModelUnusable, match="vectors of different lengths: let its server run one model only"):
        ask(script, ["a", "b"], batch_size=1)


def test_a_server_that_is_gone_is_said_after_all_retries() -> None:
    with loopback(lambda number, body: embedded(body["input"])) as served:
        url = served.url
    encoder = ServedTextEncoder(Endpoint("tiny", Server(url)))
    with pytest.raises(ModelUnusable, match="gave no vectors: no answer"):
        encoder.encode(["a"])


def test_the_spending_stop_counts_tokens_and_ends_asking() -> None:
    spending = SpendingLimit(0.00002)
    with pytest.raises(ModelUnusable, match="the spending limit of 2e-05 is reached"):
        ask(
            lambda number, body: embedded(body["input"]),
            ["a", "b", "c"],
            batch_size=1,
            concurrency=1,
            prices=Prices(1.0, 0.0),
            spending=spending,
        )
    assert spending._spent == pytest.approx(0.00002)


def test_every_call_is_in_the_ledger_with_its_price() -> None:
    ledger = MemoryLedger()
    answers = iter(
        [complaint(503, "loading"), embedded(["a"], data=[]), embedded(["a"], model="other"), embedded(["a"])]
    )
    with loopback(lambda number, body: next(answers, complaint(400, "no"))) as served:
        encoder = ServedTextEncoder(Endpoint("tiny", Server(served.url), prices=Prices(2.0, 0.0), ledger=ledger))
        for _ in range(4):
            with suppress(ModelUnusable):
                encoder.encode(["a"])
    assert [(call["outcome"], call["attempt"], call["http_status"], call["tokens_in"]) for call in ledger.calls] == [
        ("unreachable", 0, 503, 0),
        ("malformed", 1, 200, 10),
        ("wrong_model", 0, 200, 10),
        ("ok", 0, 200, 10),
        ("rejected", 0, 400, 0),
    ]
    assert [call["money"] for call in ledger.calls] == [0.0, 2e-5, 2e-5, 2e-5, 0.0]
    assert [call["error"] is None for call in ledger.calls] == [False, False, False, True, False]
    assert len({call["request_sha256"] for call in ledger.calls}) == 1


def test_offline_asks_nothing() -> None:
    with pytest.raises(
        ModelUnusable, match="2 texts have no stored vector of tiny: run once without REELSIEVE_CHAT_MODE=offline"
    ):
        ask(lambda number, body: embedded(body["input"]), ["a", "b"], mode="offline")


def test_the_key_is_sent_and_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    key = "sk-1234567890abcdef"
    monkeypatch.setenv("KEY_OF_TEST", key)
    with loopback(lambda number, body: complaint(401, f"wrong key {key}")) as served:
        encoder = ServedTextEncoder(Endpoint("tiny", Server(served.url, "KEY_OF_TEST")))
        with pytest.raises(ModelUnusable) as error:
            encoder.encode(["a"])
        assert {name.lower(): value for name, value in served.headers[0].items()}["authorization"] == f"Bearer {key}"
    assert key not in str(error.value)


def test_identity_tells_revisions_apart_and_not_servers() -> None:
    first, second = (ServedTextEncoder(Endpoint("m", Server(f"http://127.0.0.1:{port}/v1"))) for port in (1, 2))
    assert first.identity == second.identity
    assert first.identity != ServedTextEncoder(Endpoint("m", Server("http://127.0.0.1:1/v1"), "v2")).identity


def test_places_that_repeat_are_refused() -> None:
    data = [{"index": 0, "embedding": [1.0]}, {"index": 0, "embedding": [1.0]}]
    with pytest.raises(ModelUnusable, match="did not answer with one vector per text"):
        parse_unit_vectors(data, ["a", "b"], "m")
