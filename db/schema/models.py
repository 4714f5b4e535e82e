"""Tables of models that produce evidence, and of calls to chat models with their replies."""

from __future__ import annotations

import sqlalchemy as sa

from db.schema.columns import METADATA, digest_column, id_column, json_column, parent_column, text_column, time_column

model = sa.Table(
    "model",
    METADATA,
    id_column("model_id"),
    sa.Column("fingerprint", sa.Text, nullable=False, unique=True),
    text_column("name"),
    text_column("revision"),
    json_column("params", nullable=False),
    time_column("created_at"),
)

# Valid replies of chat models by the hash of the request; a failed call leaves only a row in chat_call.
chat_reply = sa.Table(
    "chat_reply",
    METADATA,
    sa.Column("request_sha256", sa.LargeBinary, primary_key=True),
    parent_column("model.model_id"),
    text_column("purpose"),
    json_column("data", nullable=False),
    sa.Column("calls", sa.Integer, nullable=False),
    sa.Column("tokens_in", sa.BigInteger, nullable=False),
    sa.Column("tokens_out", sa.BigInteger, nullable=False),
    sa.Column("money", sa.Double, nullable=True),
    time_column("created_at"),
    sa.Index("ix_chat_reply_model_id", "model_id"),
)

chat_call = sa.Table(
    "chat_call",
    METADATA,
    id_column("chat_call_id"),
    parent_column("model.model_id"),
    text_column("run_id"),
    text_column("purpose"),
    digest_column("request_sha256"),
    sa.Column("attempt", sa.Integer, nullable=False),
    text_column("outcome"),
    text_column("error", nullable=True),
    sa.Column("http_status", sa.Integer, nullable=True),
    sa.Column("tokens_in", sa.BigInteger, nullable=False),
    sa.Column("tokens_out", sa.BigInteger, nullable=False),
    sa.Column("money", sa.Double, nullable=True),
    sa.Column("duration_s", sa.Double, nullable=False),
    time_column("ended_at"),
    sa.Index("ix_chat_call_model_id", "model_id"),
    sa.Index("ix_chat_call_run_id", "run_id"),
    sa.CheckConstraint(
        "outcome IN ('ok', 'malformed', 'truncated', 'refused', 'unreachable', 'rejected', 'wrong_model')",
        name="outcome",
    ),
    sa.CheckConstraint("(outcome = 'ok') = (error IS NULL)", name="reason_unless_ok"),
)
