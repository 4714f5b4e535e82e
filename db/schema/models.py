"""Tables of the models that produce evidence, and of every question that chat models were asked."""

from __future__ import annotations

import sqlalchemy as sa

from db.schema.columns import METADATA, digest, json, now, own_id, parent, text

model = sa.Table(
    "model",
    METADATA,
    own_id("model_id"),
    sa.Column("fingerprint", sa.Text, nullable=False, unique=True),
    text("name"),
    text("revision"),
    json("params", nullable=False),
    now("created_at"),
)

# Valid answers of language models by the hash of what was asked; a failed call leaves a row in chat_call alone.
chat_reply = sa.Table(
    "chat_reply",
    METADATA,
    sa.Column("request_sha256", sa.LargeBinary, primary_key=True),
    parent("model.model_id"),
    text("purpose"),
    json("data", nullable=False),
    sa.Column("calls", sa.Integer, nullable=False),
    sa.Column("tokens_in", sa.BigInteger, nullable=False),
    sa.Column("tokens_out", sa.BigInteger, nullable=False),
    sa.Column("money", sa.Double, nullable=True),
    now("created_at"),
    sa.Index("ix_chat_reply_model_id", "model_id"),
)

chat_call = sa.Table(
    "chat_call",
    METADATA,
    own_id("chat_call_id"),
    parent("model.model_id"),
    text("run_id"),
    text("purpose"),
    digest("request_sha256"),
    sa.Column("attempt", sa.Integer, nullable=False),
    text("outcome"),
    text("error", nullable=True),
    sa.Column("http_status", sa.Integer, nullable=True),
    sa.Column("tokens_in", sa.BigInteger, nullable=False),
    sa.Column("tokens_out", sa.BigInteger, nullable=False),
    sa.Column("money", sa.Double, nullable=True),
    sa.Column("duration_s", sa.Double, nullable=False),
    now("ended_at"),
    sa.Index("ix_chat_call_model_id", "model_id"),
    sa.Index("ix_chat_call_run_id", "run_id"),
    sa.CheckConstraint(
        "outcome IN ('ok', 'malformed', 'truncated', 'refused', 'unreachable', 'rejected', 'wrong_model')",
        name="outcome",
    ),
    sa.CheckConstraint("(outcome = 'ok') = (error IS NULL)", name="reason_unless_ok"),
)
