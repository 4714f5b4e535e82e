"""Tables of models that produce evidence, and of calls to chat models with their replies."""

from __future__ import annotations

import sqlalchemy as sa

from db.schema.columns import (
    column,
    declare_table,
    digest_column,
    id_column,
    json_column,
    key_column,
    measure_column,
    parent_column,
    text_column,
    time_column,
)

model = declare_table(
    "model",
    "An encoder, verifier or language model with its revision and parameters.",
    id_column("model_id", "Number of the model."),
    column("fingerprint", sa.Text, "SHA-256 of name, revision and parameters.", unique=True),
    text_column("name", "Name of the model."),
    text_column("revision", "Immutable revision, or the hash of the weights."),
    json_column("params", "Parameters that change its results."),
    time_column("created_at"),
)

# Replies of chat models by the hash of the request. A call that fails leaves only a row in chat_call; an imported
# answer that is no valid one is a reply too, since it is the only sign that the request was answered.
chat_reply = declare_table(
    "chat_reply",
    "A reply of a chat model, stored so that the same request is not sent twice.",
    key_column("request_sha256", sa.LargeBinary, "Digest of the whole request."),
    parent_column("model.model_id"),
    text_column("purpose", "Purpose of the request."),
    text_column("outcome", "ok; of an imported answer also malformed, truncated, refused or rejected."),
    json_column("data", "The answer, as JSON; NULL where the outcome is not ok.", nullable=True),
    text_column("reason", "Why there is no valid answer; NULL where the outcome is ok.", nullable=True),
    column("calls", sa.Integer, "Number of attempts until the reply came."),
    column("tokens_in", sa.BigInteger, "Tokens sent."),
    column("tokens_out", sa.BigInteger, "Tokens received."),
    measure_column("money", "Price of the attempts; NULL where no price is set."),
    time_column("created_at"),
    sa.Index("ix_chat_reply_model_id", "model_id"),
    sa.CheckConstraint("outcome IN ('ok', 'malformed', 'truncated', 'refused', 'rejected')", name="outcome"),
    sa.CheckConstraint(
        "(outcome = 'ok') = (data IS NOT NULL) AND (outcome = 'ok') = (reason IS NULL)", name="answer_if_ok"
    ),
)

chat_call = declare_table(
    "chat_call",
    "An attempt to get a reply of a chat model, or vectors of texts from a server.",
    id_column("chat_call_id", "Number of the attempt."),
    parent_column("model.model_id"),
    text_column("run_id"),
    text_column("purpose", "Purpose of the request."),
    digest_column("request_sha256", "Digest of the whole request."),
    column("attempt", sa.Integer, "Number of the attempt at this request, from 0."),
    text_column("outcome", "ok, malformed, truncated, refused, unreachable, rejected or wrong_model."),
    text_column("error", "What went wrong; NULL where the outcome is ok.", nullable=True),
    column("http_status", sa.Integer, "Status of the server's answer; NULL where it gave none.", nullable=True),
    column("tokens_in", sa.BigInteger, "Tokens sent."),
    column("tokens_out", sa.BigInteger, "Tokens received."),
    measure_column("money", "Price of the attempt; NULL where no price is set."),
    column("duration_s", sa.Double, "Seconds that the attempt took."),
    time_column("ended_at", "When the attempt ended."),
    sa.Index("ix_chat_call_model_id", "model_id"),
    sa.Index("ix_chat_call_run_id", "run_id"),
    sa.CheckConstraint(
        "outcome IN ('ok', 'malformed', 'truncated', 'refused', 'unreachable', 'rejected', 'wrong_model')",
        name="outcome",
    ),
    sa.CheckConstraint("(outcome = 'ok') = (error IS NULL)", name="reason_unless_ok"),
)
