"""A text encoder behind /v1/embeddings: of vLLM, Text Embeddings Inference, Ollama, llama.cpp or a hosted server."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from metrics_core.models.chat.json_answers import dump_canonical_json
from metrics_core.models.errors import ModelUnusable
from metrics_core.models.server.answers import REMEDIES, explain_error, is_credible_count, is_same_model
from metrics_core.models.server.concurrency import ConcurrencyLimit
from metrics_core.models.server.endpoint import Endpoint
from metrics_core.models.server.exchange import ServerUnreachable
from metrics_core.models.server.ledger import AttemptOutcome, build_attempt_record
from metrics_core.models.server.post import HttpAnswer, shorten_text
from metrics_core.models.server.retries import is_retried_status, parse_retry_delay
from metrics_core.models.server.spending import Usage, compute_call_usage
from metrics_core.models.server.threads import run_in_threads
from metrics_core.models.server.tokens import estimate_text_tokens
from metrics_core.protocols import ModelIdentity

if TYPE_CHECKING:
    import httpx2

# A vector of 8,192 numbers takes some 180 kB as JSON, and a batch has at most as many of them as texts.
MAX_BYTES_PER_TEXT = 1 << 19
# Statuses after which fewer texts at once may pass: too long a request, and memory that ran out.
_TOO_MUCH = frozenset({400, 413, 422})


class _BatchRefused(Exception):
    """Raised when the server does not take a batch; fewer texts at once may pass."""


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

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Ask the server for unit vectors, float32 (n, dim), in the order of the texts; (0, 0) without texts. Every
        request counts towards the spending limit and is recorded in the ledger, if the endpoint has them. Raises
        ModelUnusable where the server gives no usable vectors, at the spending limit, and offline.

        Vectors of different lengths or without direction are not usable. Raises ServerUnusable where the server's key
        is missing.
        """
        endpoint = self.endpoint
        if endpoint.mode == "offline" and texts:
            raise ModelUnusable(
                f"{len(texts)} {'text has' if len(texts) == 1 else 'texts have'} no stored vector of {endpoint.model}: "
                "run once without offline"
            )
        # By length, so that little is spent on padding where a server pads.
        order = sorted(range(len(texts)), key=lambda index: len(texts[index]))
        batches = [order[start : start + self.batch_size] for start in range(0, len(order), self.batch_size)]
        with endpoint.open_client() as client:
            call = _EncodingCall(self, client, ConcurrencyLimit(endpoint.concurrency))
            parts = run_in_threads(
                lambda batch: call.encode([texts[index] for index in batch]), batches, endpoint.concurrency
            )
        vectors = np.empty((len(texts), parts[0].shape[1] if parts else 0), dtype=np.float32)
        if parts:
            vectors[order] = call.join(parts)
        return vectors

    def estimate_usage(self, texts: Sequence[str]) -> Usage:
        """Estimate the calls, tokens and money (None without prices) that encoding these texts will take, without
        retries. A text counts one token per 4 bytes. Asks no server.
        """
        usage = compute_call_usage(sum(map(estimate_text_tokens, texts)), 0, self.endpoint.prices)
        return replace(usage, calls=math.ceil(len(texts) / self.batch_size))


@dataclass(frozen=True)
class _EncodingCall:
    """One call of `encode`, whose batches share a client and a limit of calls at once."""

    encoder: ServedTextEncoder
    client: httpx2.Client
    limit: ConcurrencyLimit

    @property
    def endpoint(self) -> Endpoint:
        return self.encoder.endpoint

    @property
    def name(self) -> str:
        return f"{self.endpoint.model} at {self.endpoint.server.url}"

    def encode(self, texts: list[str]) -> NDArray[np.float32]:
        """Return the vectors of a batch of texts, within the deadline of a request."""
        return self._encode_or_halve(texts, self.endpoint.time.clock() + self.endpoint.policy.deadline_s)

    def join(self, parts: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
        """Join the vectors of all parts, in order. Raises ModelUnusable where their lengths differ."""
        if len({part.shape[1] for part in parts}) > 1:
            raise ModelUnusable(f"{self.name} gave vectors of different lengths: let its server run one model only")
        return np.concatenate(parts)

    def _encode_or_halve(self, texts: list[str], deadline: float) -> NDArray[np.float32]:
        try:
            return self._encode_batch(texts, deadline)
        except _BatchRefused as refused:
            if len(texts) == 1:
                raise ModelUnusable(f"{self.name} gave no vector for the text {texts[0][:80]!r}: {refused}") from None
            half = len(texts) // 2
        return self.join([self._encode_or_halve(part, deadline) for part in (texts[:half], texts[half:])])

    def _encode_batch(self, texts: list[str], deadline: float) -> NDArray[np.float32]:
        """Ask until there is an answer, a final failure, or no time or retry left. Raises _BatchRefused for too large a
        batch.
        """
        policy, time, retries = self.endpoint.policy, self.endpoint.time, 0
        while True:
            if why := self.endpoint.stop_reason:
                raise ModelUnusable(f"{self.name} was not asked for vectors: {why}")
            with self.limit.hold_slot() as mark:
                started = time.clock()
                answer, complaint = self._post(texts, deadline)
                seconds = time.clock() - started
                if answer is not None and answer.status == 200:
                    self.limit.count_success()
                    return self._parse_answer(answer, texts, retries, seconds)
                if answer is not None and answer.status == 429:
                    self.limit.halve_limit(mark)
            is_passing = answer is None or is_retried_status(answer.status)
            status = None if answer is None else answer.status
            outcome: AttemptOutcome = "unreachable" if is_passing else "rejected"
            self._record(texts, retries, outcome, complaint, Usage(1), status, seconds)
            wait = policy.compute_wait_s(
                retries, time.random(), None if answer is None else parse_retry_delay(answer.headers)
            )
            if not is_passing or retries >= policy.transport_retries or time.clock() + wait > deadline:
                if answer is not None and (answer.status in _TOO_MUCH or answer.status >= 500):
                    raise _BatchRefused(complaint)
                raise ModelUnusable(f"{self.name} gave no vectors: {complaint}")
            retries += 1
            time.sleep(wait)

    def _post(self, texts: list[str], deadline: float) -> tuple[HttpAnswer | None, str]:
        """Return the server's answer, None where none came, and its complaint as a sentence."""
        body = {"model": self.endpoint.model, "input": texts, "encoding_format": "float"}
        max_bytes = MAX_BYTES_PER_TEXT * (len(texts) + 1)
        try:
            answer = self.endpoint.post_json(self.client, "embeddings", body, deadline, max_bytes)
        except ServerUnreachable as error:
            return None, f"no answer ({error})"
        return answer, f"{explain_error(answer)}{REMEDIES.get(answer.status, '')}"

    def _parse_answer(self, answer: HttpAnswer, texts: list[str], attempt: int, seconds: float) -> NDArray[np.float32]:
        body = answer.body if isinstance(answer.body, dict) else {}
        usage, model = self._count_usage(body.get("usage"), texts), body.get("model")
        other = model if isinstance(model, str) and model and not is_same_model(self.endpoint.model, model) else None
        try:
            if other:
                raise ModelUnusable(
                    f"the server was asked for {self.name}, but {shorten_text(other)} answered: name the model as the "
                    "server names it"
                )
            vectors = parse_unit_vectors(body.get("data"), texts, self.name)
        except ModelUnusable as error:
            outcome: AttemptOutcome = "wrong_model" if other else "malformed"
            self._record(texts, attempt, outcome, str(error), usage, answer.status, seconds)
            raise
        self._record(texts, attempt, "ok", None, usage, answer.status, seconds)
        return vectors

    def _record(
        self,
        texts: list[str],
        attempt: int,
        outcome: AttemptOutcome,
        error: str | None,
        usage: Usage,
        http_status: int | None,
        duration_s: float,
    ) -> None:
        if self.endpoint.ledger is None:
            return
        identity = self.encoder.identity.as_dict()
        request = dump_canonical_json({"model": identity, "texts": texts})
        digest = hashlib.sha256(request.encode("utf-8", "surrogatepass")).digest()
        record = build_attempt_record(attempt, outcome, error, usage, duration_s, http_status)
        self.endpoint.ledger.record({"request_sha256": digest, "model": identity, "purpose": "text vectors", **record})

    def _count_usage(self, usage: Any, texts: list[str]) -> Usage:
        tokens = usage.get("prompt_tokens") if isinstance(usage, dict) else None
        if not is_credible_count(tokens):
            # The server does not report them. A spending limit that counted nothing would never be reached.
            tokens = sum(map(estimate_text_tokens, texts))
        return self.endpoint.count_usage(tokens, 0)


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
        raise ModelUnusable(f"{model_name} did not answer with one vector per text for {len(texts)} texts")
    lengths = np.linalg.norm(rows, axis=1)
    for text, length in zip(texts, lengths, strict=True):
        if not (math.isfinite(length) and length > 0):
            raise ModelUnusable(f"{model_name} gave a vector that is zero or not finite for the text {text[:80]!r}")
    return np.asarray(rows / lengths[:, None], dtype=np.float32)
