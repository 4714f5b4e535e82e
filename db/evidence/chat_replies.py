"""Replies of chat models (table `chat_reply`, by the hash of the request) and a record of every call (table
`chat_call`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from psycopg import sql
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.engine import Engine

from db.evidence.models import compute_fingerprint, register_model
from db.schema import chat_call, chat_reply
from db.server.bulk import copy_rows, upsert
from db.server.engine import open_psycopg_transaction

# Columns that a caller gives, and that its bulk writes fill.
_REPLY = (
    *("request_sha256", "model_id", "purpose", "outcome", "data", "reason"),
    *("calls", "tokens_in", "tokens_out", "money"),
)
_CALL = tuple(column.name for column in chat_call.columns if column.name not in ("chat_call_id", "ended_at"))


class _ModelIds:
    """Ids of models by identity; the database is asked once per model."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._ids: dict[str, int] = {}

    def register(self, identity: Mapping[str, Any]) -> int:
        """Return the id of the model with this identity; insert the model into table `model` when it is new."""
        key = compute_fingerprint(identity)
        if key not in self._ids:
            with self._engine.begin() as connection:
                self._ids[key] = register_model(connection, identity)
        return self._ids[key]

    def build_row(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values with `model_id`, the id of the model, in place of `model`, its identity."""
        others = {name: value for name, value in values.items() if name != "model"}
        return {**others, "model_id": self.register(values["model"])}


class PostgresReplies:
    """A store of the replies of chat models, in table `chat_reply` of the database. A reply has the hash of its request
    as key. Several threads may share one store.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._models = _ModelIds(engine)

    def load(self, keys: Sequence[bytes]) -> dict[bytes, Mapping[str, Any]]:
        """Return the stored replies as {request hash: columns outcome, data and reason}. keys: hashes of requests; a
        request without a stored reply is left out.
        """
        if not keys:
            return {}
        columns = chat_reply.c
        query = sa.select(columns.request_sha256, columns.outcome, columns.data, columns.reason).where(
            columns.request_sha256 == sa.any_(sa.bindparam("keys"))
        )
        with self._engine.connect() as connection:
            rows = connection.execute(query, {"keys": list(keys)})
            return {
                bytes(row.request_sha256): {"outcome": row.outcome, "data": row.data, "reason": row.reason}
                for row in rows
            }

    def store(self, replies: Sequence[Mapping[str, Any]]) -> None:
        """Store replies in one transaction. A reply replaces the stored one to the same request. Models that are new
        are inserted into table `model`.

        replies: columns of `chat_reply`, with the model's identity as "model" in place of its id.
        """
        # By key order: two runs that write the same rows then wait for each other instead of deadlocking.
        ordered = sorted(replies, key=lambda reply: reply["request_sha256"])
        rows = {reply["request_sha256"]: self._models.build_row(reply) for reply in ordered}
        if not rows:
            return
        new = insert(chat_reply).values(list(rows.values()))
        replaced = {name: new.excluded[name] for name in _REPLY[1:]} | {"created_at": sa.func.now()}
        with self._engine.begin() as connection:
            connection.execute(new.on_conflict_do_update(index_elements=["request_sha256"], set_=replaced))


class PostgresLedger:
    """The record of one run's calls to model servers: it inserts a row into table `chat_call` for every attempt.
    run_id: the Dagster run. Several threads may share one.
    """

    def __init__(self, engine: Engine, run_id: str) -> None:
        self._engine = engine
        self._run_id = run_id
        self._models = _ModelIds(engine)

    def record(self, call: Mapping[str, Any]) -> None:
        """Insert one attempt at a request into table `chat_call`, committed at once, so that a later crash loses no
        record of money spent. call: columns of `chat_call` without the run, and with the model's identity as "model" in
        place of its id. A new model is inserted into table `model`.
        """
        row = {**self._models.build_row(call), "run_id": self._run_id}
        with self._engine.begin() as connection:
            connection.execute(sa.insert(chat_call).values(row))


class PostgresImport:
    """A store of answers that others computed: replies in table `chat_reply`, and the attempts that gave them in table
    `chat_call`. run_id: the export of the requests.
    """

    def __init__(self, engine: Engine, run_id: str) -> None:
        self._engine = engine
        self._run_id = run_id
        self._models = _ModelIds(engine)

    def list_failed_requests(self) -> set[bytes]:
        """List the hashes of the requests for which this import has stored an attempt without any reply."""
        query = sa.select(chat_call.c.request_sha256).where(
            chat_call.c.run_id == self._run_id,
            chat_call.c.outcome.in_(("unreachable", "rejected", "wrong_model")),
        )
        with self._engine.connect() as connection:
            return {bytes(key) for key in connection.scalars(query)}

    def store(self, replies: Sequence[Mapping[str, Any]], calls: Sequence[Mapping[str, Any]]) -> None:
        """Store many replies, one of each key, and attempts in one transaction: see `PostgresReplies.store` and
        `PostgresLedger.record`.
        """
        rows = [tuple(map(self._models.build_row(reply).__getitem__, _REPLY)) for reply in replies]
        run = {"run_id": self._run_id}
        attempts = [tuple(map({**self._models.build_row(call), **run}.__getitem__, _CALL)) for call in calls]
        with open_psycopg_transaction(self._engine) as connection:
            upsert(connection, chat_reply, _REPLY, rows, compare=_REPLY[1:], touch=("created_at",))
            copy_rows(connection, sql.Identifier("chat_call"), [chat_call.c[name] for name in _CALL], attempts)
