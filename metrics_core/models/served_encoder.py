"""A text encoder behind /v1/embeddings: of vLLM, Text Embeddings Inference, Ollama, llama.cpp or a hosted server."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from metrics_core.models.chat.json_answers import dump_canonical_json
from metrics_core.models.errors import ModelUnusable
from metrics_core.models.server.answers import (
    REMEDIES,
    Exchange,
    explain_error,
    is_credible_count,
    is_same_model,
    shorten_text,
)
from metrics_core.models.server.endpoint import Endpoint
from metrics_core.models.server.ledger import AttemptOutcome
from metrics_core.models.server.spending import Usage, compute_call_usage
from metrics_core.models.server.tokens import estimate_text_tokens
from metrics_core.protocols import ModelIdentity

if TYPE_CHECKING:
    import openai

# A vector of 8,192 numbers takes some 180 kB as JSON, and a batch has at most as many of them as texts.
_MAX_BYTES_PER_TEXT = 1 << 19
# Statuses after which fewer texts at once may pass: too long a request, and memory that ran out.
_TOO_MUCH = frozenset({400, 413, 422})


@dataclass(frozen=True)
class ServedTextEncoder:
    """A TextEncoder that asks a server of /v1/embeddings for the vectors, several batches at once. batch_size: the most
    texts of a batch. A batch that the server cannot take is halved until one text is left. Texts longer than the model
    reads are the server's to cut or to refuse.
    """

    endpoint: Endpoint
    batch_size: int = 64

    @property
    def identity(self) -> ModelIdentity:
        """Return the model's name and revision as the endpoint gives them, the same on every server. Asks no server."""
        params = {"normalised": True, "interface": "/v1/embeddings"}
        return ModelIdentity(self.endpoint.model, self.endpoint.revision, params)

    @property
    def name(self) -> str:
        """Return the model and its server's address, for messages."""
        return f"{self.endpoint.model} at {self.endpoint.server.url}"

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Ask the server for unit vectors, float32 (n, dim), in the order of the texts; (0, 0) without texts. Every
        request counts towards the spending limit and is recorded in the ledger, if any. Raises ModelUnusable without
        usable vectors, at the limit, and offline; the error holds the vectors of complete batches, if all have one
        length.

        Vectors of different lengths or without direction are not usable. Raises ServerUnusable where the server's key
        is missing, and for a proxy or certificates of the environment that cannot be used.
        """
        endpoint = self.endpoint
        if not texts:
            return np.empty((0, 0), dtype=np.float32)
        if endpoint.mode == "offline":
            raise ModelUnusable(
                f"{len(texts):,} {'text has' if len(texts) == 1 else 'texts have'} no stored vector of "
                f"{endpoint.model}: run once without REELSIEVE_CHAT_MODE=offline"
            )
        # By length, so that little is spent on padding where a server pads.
        order = sorted(range(len(texts)), key=lambda index: len(texts[index]))
        batches = [order[start : start + self.batch_size] for start in range(0, len(order), self.batch_size)]
        calls = [_EncodingCall(self, [texts[index] for index in batch]) for batch in batches]
        # It imports the libraries of servers, which take seconds.
        from metrics_core.models.server.exchange import ask_all

        try:
            vectors = self.join(ask_all(endpoint, lambda client, call: call.encode(client), calls))
        except ModelUnusable as error:
            # The other batches are paid for. Of different lengths, nobody knows which are those of the model.
            parts = [(call.texts, call.vectors) for call in calls if call.vectors is not None]
            if len({part.shape[1] for _, part in parts}) == 1:
                error.vectors = {
                    text: row for part_texts, part in parts for text, row in zip(part_texts, part, strict=True)
                }
            raise
        ordered = np.empty_like(vectors)
        ordered[order] = vectors
        return ordered

    def estimate_usage(self, texts: Sequence[str]) -> Usage:
        """Estimate the calls, tokens and money (None without prices) that encoding these texts will take, without
        retries. A text counts one token per 4 bytes. Asks no server.
        """
        usage = compute_call_usage(sum(map(estimate_text_tokens, texts)), 0, self.endpoint.prices)
        return replace(usage, calls=math.ceil(len(texts) / self.batch_size))

    def join(self, parts: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
        """Join the vectors of all parts, in order. Raises ModelUnusable where their lengths differ."""
        if len({part.shape[1] for part in parts}) > 1:
            raise ModelUnusable(f"{self.name} gave vectors of different lengths: let its server run one model only")
        return np.concatenate(parts)


@dataclass(slots=True)
class _EncodingCall:
    """A batch of texts that is asked for. The number of `attempts` and the rest are of its attempts so far."""

    encoder: ServedTextEncoder
    texts: list[str]
    attempts: int = 0
    last: Exchange = field(default_factory=Exchange)
    vectors: NDArray[np.float32] | None = None
    problem: str = ""

    async def encode(self, client: openai.AsyncOpenAI, deadline: float | None = None) -> NDArray[np.float32]:
        """Return the vectors of the texts by this time, or within the deadline of a request. A batch that the server
        does not take is halved until one text is left.
        """
        from metrics_core.models.server.exchange import SpendingStopped, post

        endpoint, texts, name = self.encoder.endpoint, self.texts, self.encoder.name
        deadline = deadline or time.monotonic() + endpoint.deadline_s
        body = {"model": endpoint.model, "input": texts, "encoding_format": "float"}
        try:
            await post(
                client, endpoint, "embeddings", body, deadline, self._judge, _MAX_BYTES_PER_TEXT * (len(texts) + 1)
            )
        except SpendingStopped:
            raise ModelUnusable(f"{name} was not asked for vectors: {endpoint.stop_reason}") from None
        if self.vectors is not None:
            return self.vectors
        status = self.last.status
        if status == 200:
            raise ModelUnusable(self.problem)
        if status is None or not (status in _TOO_MUCH or status >= 500):
            raise ModelUnusable(f"{name} gave no vectors: {self.problem}")
        if len(texts) == 1:
            raise ModelUnusable(f"{name} gave no vector for the text {texts[0][:80]!r}: {self.problem}")
        half = len(texts) // 2
        self.vectors = self.encoder.join(
            [await _EncodingCall(self.encoder, part).encode(client, deadline) for part in (texts[:half], texts[half:])]
        )
        return self.vectors

    def _judge(self, exchange: Exchange) -> bool:
        outcome: AttemptOutcome = "unreachable" if exchange.may_pass else "rejected"
        self.last, tokens = exchange, 0
        if exchange.status == 200:
            outcome, tokens = self._read_vectors(exchange.body if isinstance(exchange.body, dict) else {})
        else:
            self.problem = f"{explain_error(exchange)}{REMEDIES.get(exchange.status or 0, '')}"
        error = None if outcome == "ok" else self.problem
        self.encoder.endpoint.count_attempt(
            {**self._describe(), "attempt": self.attempts}, exchange, outcome, error, (tokens, 0)
        )
        self.attempts += 1
        return exchange.may_pass

    def _read_vectors(self, body: dict[str, Any]) -> tuple[AttemptOutcome, int]:
        """Read the vectors or the problem of a good answer; returns the outcome, and the tokens that it cost."""
        encoder, usage, model = self.encoder, body.get("usage"), body.get("model")
        tokens = usage.get("prompt_tokens") if isinstance(usage, dict) else None
        if not is_credible_count(tokens):
            # The server does not report them. A spending limit that counted nothing would never be reached.
            tokens = sum(map(estimate_text_tokens, self.texts))
        if isinstance(model, str) and model and not is_same_model(encoder.endpoint.model, model):
            self.problem = (
                f"the server was asked for {encoder.name}, but {shorten_text(model)} answered: name the model as the "
                "server names it"
            )
            return "wrong_model", tokens
        try:
            self.vectors = parse_unit_vectors(body.get("data"), self.texts, encoder.name)
        except ModelUnusable as error:
            self.problem = str(error)
            return "malformed", tokens
        return "ok", tokens

    def _describe(self) -> dict[str, Any]:
        identity = self.encoder.identity.as_dict()
        request = dump_canonical_json({"model": identity, "texts": self.texts})
        digest = hashlib.sha256(request.encode("utf-8", "surrogatepass")).digest()
        return {"request_sha256": digest, "model": identity, "purpose": "text vectors"}


def parse_unit_vectors(data: Any, texts: Sequence[str], model_name: str) -> NDArray[np.float32]:
    """Parse the member `data` of an embeddings answer into unit vectors, float32 (n, dim), in the order of the texts.
    Raises ModelUnusable for another number of vectors than texts, for vectors of different lengths, and for a vector
    that is not finite or has no direction. model_name: for the message.

    >>> data = [{"index": 1, "embedding": [0, 2]}, {"index": 0, "embedding": [3, 4]}]
    >>> parse_unit_vectors(data, ["a", "b"], "m").tolist()
    [[0.6000000238418579, 0.800000011920929], [0.0, 1.0]]
    """
    try:
        by_index = {int(item.get("index", index)): item["embedding"] for index, item in enumerate(data)}
        rows = np.array([by_index[index] for index in range(len(texts))], dtype=np.float64)
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError):
        rows = np.empty(0)
    if rows.ndim != 2 or len(data) != len(texts) or not rows.shape[1]:
        raise ModelUnusable(
            f"{model_name} did not answer with one vector per text: name a model that makes vectors of texts"
        )
    lengths = np.linalg.norm(rows, axis=1)
    for text, length in zip(texts, lengths, strict=True):
        if not (math.isfinite(length) and length > 0):
            raise ModelUnusable(
                f"{model_name} gave a vector that is zero or not finite for the text {text[:80]!r}: name another model"
            )
    return np.asarray(rows / lengths[:, None], dtype=np.float32)
