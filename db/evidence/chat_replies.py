"""Answers of language models, each valid one kept by the hash of its request, and every call that was made for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.engine import Engine

from db.evidence.models import fingerprint, register_model
from db.schema import chat_call, chat_reply


class Tokens(Protocol):
    """What calls took: their number, tokens in and out, and money where prices were known."""

    @property
    def calls(self) -> int: ...
    @property
    def tokens_in(self) -> int: ...
    @property
    def tokens_out(self) -> int: ...
    @property
    def money(self) -> float | None: ...


class Asked(Protocol):
    """What a request was and took. key: its SHA-256; model: identity of the model (model_id, revision, params)."""

    @property
    def key(self) -> bytes: ...
    @property
    def model(self) -> Mapping[str, Any]: ...
    @property
    def purpose(self) -> str: ...
    @property
    def usage(self) -> Tokens: ...


class Reply(Asked, Protocol):
    """A valid answer."""

    @property
    def data(self) -> Mapping[str, Any]: ...


class Call(Asked, Protocol):
    """One attempt at a request, whatever became of it."""

    @property
    def attempt(self) -> int: ...
    @property
    def outcome(self) -> str: ...
    @property
    def error(self) -> str | None: ...
    @property
    def http_status(self) -> int | None: ...
    @property
    def duration_s(self) -> float: ...


class _Models:
    """Ids of models by identity, each looked up once."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._ids: dict[str, int] = {}

    def id_of(self, identity: Mapping[str, Any]) -> int:
        key = fingerprint(identity)
        if key not in self._ids:
            with self._engine.begin() as connection:
                self._ids[key] = register_model(connection, identity)
        return self._ids[key]


class PostgresReplies:
    """Table chat_reply. Several threads may use one object."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._models = _Models(engine)

    def load(self, keys: Sequence[bytes]) -> dict[bytes, Mapping[str, Any]]:
        """The stored answers by key; a key without an answer is left out."""
        if not keys:
            return {}
        query = sa.select(chat_reply.c.request_sha256, chat_reply.c.data).where(
            chat_reply.c.request_sha256 == sa.any_(sa.bindparam("keys"))
        )
        with self._engine.connect() as connection:
            return {bytes(row.request_sha256): row.data for row in connection.execute(query, {"keys": list(keys)})}

    def store(self, replies: Sequence[Reply]) -> None:
        """Store valid answers in one transaction; the newest answer to a request is the one that stays."""
        # By key order: two runs that write the same rows then wait for each other instead of deadlocking.
        rows = {reply.key: self._row(reply) for reply in sorted(replies, key=lambda reply: reply.key)}
        if not rows:
            return
        new = insert(chat_reply).values(list(rows.values()))
        columns = ("model_id", "purpose", "data", "calls", "tokens_in", "tokens_out", "money")
        replaced = {name: new.excluded[name] for name in columns} | {"created_at": sa.func.now()}
        with self._engine.begin() as connection:
            connection.execute(new.on_conflict_do_update(index_elements=["request_sha256"], set_=replaced))

    def _row(self, reply: Reply) -> dict[str, Any]:
        usage = reply.usage
        return {
            "request_sha256": reply.key,
            "model_id": self._models.id_of(reply.model),
            "purpose": reply.purpose,
            "data": reply.data,
            "calls": usage.calls,
            "tokens_in": usage.tokens_in,
            "tokens_out": usage.tokens_out,
            "money": usage.money,
        }


class PostgresLedger:
    """Table chat_call: one row for every attempt of a run. Several threads may use one object."""

    def __init__(self, engine: Engine, run_id: str) -> None:
        self._engine = engine
        self._run_id = run_id
        self._models = _Models(engine)

    def record(self, call: Call) -> None:
        """Store one attempt at once: a crash later loses no row of what was spent before."""
        row = {
            "model_id": self._models.id_of(call.model),
            "run_id": self._run_id,
            "purpose": call.purpose,
            "request_sha256": call.key,
            "attempt": call.attempt,
            "outcome": call.outcome,
            "error": call.error,
            "http_status": call.http_status,
            "tokens_in": call.usage.tokens_in,
            "tokens_out": call.usage.tokens_out,
            "money": call.usage.money,
            "duration_s": call.duration_s,
        }
        with self._engine.begin() as connection:
            connection.execute(sa.insert(chat_call).values(row))
