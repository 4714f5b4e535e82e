"""Answers of language models: exact, one per request; and every call in the ledger."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import URL, Engine

from db import schema
from db.evidence.chat_replies import PostgresLedger, PostgresReplies
from tests.conftest import PROJECT
from tests.db.chat_asker import ask_ten
from tests.metrics_core.chat_server import Answer as Served
from tests.metrics_core.chat_server import loopback, said

IDENTITY = {"model_id": "tiny-chat", "revision": "0", "params": {"temperature": 0.0}}


SPENT = {"tokens_in": 100, "tokens_out": 20, "money": 0.00045}


def key(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def answer(text: str, data: Mapping[str, Any]) -> dict[str, Any]:
    asked = {"request_sha256": key(text), "model": IDENTITY, "purpose": "factuality questions"}
    return {**asked, **valid(data), "calls": 1, **SPENT}


def valid(data: Mapping[str, Any]) -> dict[str, Any]:
    return {"outcome": "ok", "data": data, "reason": None}


def attempt(text: str, **changes: Any) -> dict[str, Any]:
    asked = {"request_sha256": key(text), "model": IDENTITY, "purpose": "factuality questions", "attempt": 0}
    return {**asked, "outcome": "ok", "error": None, "http_status": 200, **SPENT, "duration_s": 0.25, **changes}


def rows(engine: Engine, table: sa.Table) -> list[Any]:
    with engine.connect() as connection:
        return list(connection.execute(sa.select(table).order_by(*table.primary_key.columns)))


def test_an_answer_comes_back_as_it_was_stored(engine: Engine) -> None:
    data = {"questions": ["Why does the dog run?", "犬 \"'\\ 🐕"], "n": 2, "share": 0.1, "none": None, "yes": True}
    replies = PostgresReplies(engine)
    replies.store([answer("a", data), answer("b", {})])
    assert PostgresReplies(engine).load([key("a"), key("b"), key("never asked")]) == {
        key("a"): valid(data),
        key("b"): valid({}),
    }
    stored = {bytes(row.request_sha256): row for row in rows(engine, schema.chat_reply)}[key("a")]
    assert (stored.purpose, stored.calls, stored.tokens_in, stored.tokens_out, stored.money) == (
        "factuality questions",
        1,
        100,
        20,
        0.00045,
    )
    (model,) = rows(engine, schema.model)
    assert stored.model_id == model.model_id
    assert model.name == "tiny-chat"


def test_the_newest_answer_to_a_request_stays(engine: Engine) -> None:
    replies = PostgresReplies(engine)
    replies.store([answer("a", {"answer": "old"})])
    replies.store([answer("a", {"answer": "new"}), answer("a", {"answer": "newest"})])
    assert replies.load([key("a")]) == {key("a"): valid({"answer": "newest"})}
    assert len(rows(engine, schema.chat_reply)) == 1


def test_nothing_to_load_and_nothing_to_store(engine: Engine) -> None:
    replies = PostgresReplies(engine)
    replies.store([])
    assert replies.load([]) == {}


def test_threads_may_store_at_once(engine: Engine) -> None:
    replies = PostgresReplies(engine)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda i: replies.store([answer(str(i % 5), {"answer": str(i % 5)})]), range(40)))
    assert replies.load([key(str(i)) for i in range(5)]) == {key(str(i)): valid({"answer": str(i)}) for i in range(5)}


def test_a_model_takes_its_answers_and_calls_along(engine: Engine) -> None:
    PostgresReplies(engine).store([answer("a", {})])
    PostgresLedger(engine, "run").record(attempt("a"))
    with engine.begin() as connection:
        connection.execute(sa.delete(schema.model))
    assert rows(engine, schema.chat_reply) == rows(engine, schema.chat_call) == []


def test_every_attempt_is_a_row_of_its_run(engine: Engine) -> None:
    ledger = PostgresLedger(engine, "run 7")
    spent = {"tokens_in": 0, "tokens_out": 0, "money": None}
    ledger.record(attempt("a", outcome="unreachable", error="no answer", http_status=None, **spent))
    ledger.record(attempt("a", attempt=1))
    first, second = rows(engine, schema.chat_call)
    assert (first.run_id, first.attempt, first.outcome, first.error) == ("run 7", 0, "unreachable", "no answer")
    assert (first.http_status, first.tokens_in, first.money) == (None, 0, None)
    assert (second.attempt, second.outcome, second.http_status, second.money) == (1, "ok", 200, 0.00045)
    assert second.duration_s == 0.25
    assert bytes(second.request_sha256) == key("a")


def test_an_outcome_without_meaning_or_reason_is_refused(engine: Engine) -> None:
    for change in ({"outcome": "lost", "error": "?"}, {"error": "?"}, {"outcome": "refused"}):
        with pytest.raises(sa.exc.IntegrityError):
            PostgresLedger(engine, "run").record(attempt("a", **change))


def test_a_kill_costs_only_the_call_under_way(database: URL, engine: Engine) -> None:
    where = database.render_as_string(hide_password=False)
    started: list[subprocess.Popen[bytes]] = []

    def script(number: int, body: dict[str, Any]) -> Served:
        if number == 5:
            os.kill(started[0].pid, signal.SIGKILL)
            started[0].wait()
        return said(f"answer {number}")

    with loopback(script) as server:
        started.append(subprocess.Popen([sys.executable, "-m", "tests.db.chat_asker", server.url, where], cwd=PROJECT))
        assert started[0].wait() == -signal.SIGKILL
        assert [row.run_id for row in rows(engine, schema.chat_call)] == ["killed"] * 5
        replies = ask_ten(server.url, where, "again")
        repeated = ask_ten(server.url, where, "once more")
    assert [reply.is_cached for reply in replies] == [True] * 5 + [False] * 5
    expected = [*range(5), *range(6, 11)]
    assert [reply.data for reply in replies] == [{"answer": f"answer {number}"} for number in expected]
    assert [reply.data for reply in repeated] == [reply.data for reply in replies]
    assert len(server.asked) == 11
    calls = rows(engine, schema.chat_call)
    assert [row.run_id for row in calls] == ["killed"] * 5 + ["again"] * 5
    assert sum(row.money for row in calls) == pytest.approx(10 * 0.00045)
    assert {bytes(row.request_sha256) for row in calls} == {
        bytes(row.request_sha256) for row in rows(engine, schema.chat_reply)
    }
