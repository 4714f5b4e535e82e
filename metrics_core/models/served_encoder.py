"""A text encoder behind /v1/embeddings: of vLLM, Text Embeddings Inference, Ollama, llama.cpp or a hosted server."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from metrics_core.models.chat.client import Time
from metrics_core.models.chat.protocol import Usage
from metrics_core.models.chat.records import CacheMode, Ledger, Outcome, attempted
from metrics_core.models.chat.server import HttpAnswer, Server, Unreachable, in_threads, open_client, post, shown
from metrics_core.models.chat.spending import Prices, Spending, text_tokens, usage_of_call
from metrics_core.models.chat.structured import canonical_json
from metrics_core.models.chat.surroundings import ConcurrencyLimit, RetryPolicy, is_retried, retry_after_s
from metrics_core.models.chat.wire import complaint_of, is_credible, same_model
from metrics_core.models.unusable import ModelUnusable
from metrics_core.protocols import ModelIdentity

if TYPE_CHECKING:
    import httpx2

# A vector of 8,192 numbers takes some 180 kB as JSON, and a batch has at most as many of them as texts.
MOST_BYTES_PER_TEXT = 1 << 19
# Statuses after which fewer texts at once may pass: too long a request, and memory that ran out.
_TOO_MUCH = frozenset({400, 413, 422})


class _Refused(Exception):
    """The server does not take this batch; fewer texts may pass."""


@dataclass(frozen=True)
class ServedTextEncoder:
    """Asks a server for vectors of texts, several batches at once.

    model: the name that the server knows. revision: what tells two models of one name apart, such as a commit; a server
    does not say. A batch that the server cannot take is halved until one text is left. Texts longer than the model
    reads are the server's to cut or to refuse. mode: "offline" asks nothing. ledger: stores every call.
    """

    model: str
    server: Server
    revision: str = "as served"
    batch_size: int = 64
    concurrency: int = 8
    policy: RetryPolicy = field(default_factory=RetryPolicy)
    prices: Prices | None = None
    spending: Spending | None = None
    mode: CacheMode = "normal"
    ledger: Ledger | None = None
    time: Time = field(default_factory=Time, repr=False)

    @property
    def identity(self) -> ModelIdentity:
        """Name and revision as given: the same on every server."""
        return ModelIdentity(self.model, self.revision, {"normalised": True, "interface": "/v1/embeddings"})

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors (n, dim) in float32, in the order of the texts.

        Raises ModelUnusable where the server refuses or stays silent, answers with vectors of different lengths or
        without direction, where the spending limit is reached, or offline; ServerUnusable without the key.
        """
        if self.mode == "offline" and texts:
            raise ModelUnusable(f"{len(texts)} texts have no stored vector of {self.model}: run once without offline")
        # By length, so that little is spent on padding where a server pads.
        order = sorted(range(len(texts)), key=lambda place: len(texts[place]))
        batches = [order[start : start + self.batch_size] for start in range(0, len(order), self.batch_size)]
        limit = ConcurrencyLimit(self.concurrency)
        with open_client(self.server, self.policy.connect_s, self.policy.timeout_s) as client:

            def ask(batch: list[int]) -> NDArray[np.float32]:
                deadline = self.time.clock() + self.policy.deadline_s
                return self._halving(client, limit, [texts[place] for place in batch], deadline)

            parts = in_threads(ask, batches, self.concurrency)
        vectors = np.empty((len(texts), parts[0].shape[1] if parts else 0), dtype=np.float32)
        if parts:
            vectors[order] = self._joined(parts)
        return vectors

    @property
    def _named(self) -> str:
        return f"{self.model} at {self.server.url}"

    def _joined(self, parts: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
        if len({part.shape[1] for part in parts}) > 1:
            raise ModelUnusable(f"{self._named} gave vectors of different lengths: are two models behind it?")
        return np.concatenate(parts)

    def _halving(
        self, client: httpx2.Client, limit: ConcurrencyLimit, texts: list[str], deadline: float
    ) -> NDArray[np.float32]:
        try:
            return self._batch(client, limit, texts, deadline)
        except _Refused as refused:
            if len(texts) == 1:
                raise ModelUnusable(f"{self._named} does not take the text {texts[0][:80]!r}: {refused}") from None
            half = len(texts) // 2
        return self._joined([self._halving(client, limit, part, deadline) for part in (texts[:half], texts[half:])])

    def _batch(
        self, client: httpx2.Client, limit: ConcurrencyLimit, texts: list[str], deadline: float
    ) -> NDArray[np.float32]:
        """Ask until there is an answer, a final failure, or no budget left. Raises _Refused for too large a batch."""
        retries = 0
        while True:
            if self.spending is not None and self.spending.reached:
                raise ModelUnusable(
                    f"{self._named} is not asked: the spending limit {self.spending.limit:g} is reached"
                )
            with limit.slot() as mark:
                started = self.time.clock()
                answer, said = self._asked(client, texts, deadline - started)
                seconds = self.time.clock() - started
                if answer is not None and answer.status == 200:
                    limit.good()
                    return self._read(answer, texts, retries, seconds)
                if answer is not None and answer.status == 429:
                    limit.too_many(mark)
            is_passing = answer is None or is_retried(answer.status)
            status = None if answer is None else answer.status
            self._record(texts, retries, "unreachable" if is_passing else "rejected", said, Usage(1), status, seconds)
            retry_after = None if answer is None else retry_after_s(answer.headers)
            wait = self.policy.wait_s(retries, self.time.random(), retry_after)
            if not is_passing or retries >= self.policy.transport_retries or self.time.clock() + wait > deadline:
                if answer is not None and (answer.status in _TOO_MUCH or answer.status >= 500):
                    raise _Refused(said)
                raise ModelUnusable(f"{self._named} gave no vectors: {said}")
            retries += 1
            self.time.sleep(wait)

    def _asked(self, client: httpx2.Client, texts: list[str], left_s: float) -> tuple[HttpAnswer | None, str]:
        """The server's answer, None where none came; and what is wrong with it."""
        body = {"model": self.model, "input": texts, "encoding_format": "float"}
        try:
            answer = post(
                client.stream,
                self.server,
                body,
                max(left_s, 0.0),
                path="embeddings",
                most_bytes=MOST_BYTES_PER_TEXT * (len(texts) + 1),
            )
        except Unreachable as error:
            return None, f"no answer ({error})"
        complaint, _ = complaint_of(answer.body, answer.text)
        remedy = {401: ". Check the key", 404: ". Check the model's name and the address, which ends in /v1"}
        return answer, f"the server answered {answer.status}: {complaint}{remedy.get(answer.status, '')}"

    def _read(self, answer: HttpAnswer, texts: list[str], attempt: int, seconds: float) -> NDArray[np.float32]:
        body = answer.body if isinstance(answer.body, dict) else {}
        usage, answered = self._count(body.get("usage"), texts), body.get("model")
        other = answered if isinstance(answered, str) and answered and not same_model(self.model, answered) else None
        try:
            if other:
                said = f"asked for {self._named}, but {shown(other)} answered: name it as the server does"
                raise ModelUnusable(said)
            vectors = unit_vectors(body.get("data"), texts, self._named)
        except ModelUnusable as error:
            outcome: Outcome = "wrong_model" if other else "malformed"
            self._record(texts, attempt, outcome, str(error), usage, answer.status, seconds)
            raise
        self._record(texts, attempt, "ok", None, usage, answer.status, seconds)
        return vectors

    def _record(
        self,
        texts: list[str],
        attempt: int,
        outcome: Outcome,
        error: str | None,
        usage: Usage,
        http_status: int | None,
        duration_s: float,
    ) -> None:
        if self.ledger is None:
            return
        identity = self.identity.as_dict()
        asked = canonical_json({"model": identity, "texts": texts})
        digest = hashlib.sha256(asked.encode("utf-8", "surrogatepass")).digest()
        how = attempted(attempt, outcome, error, usage, duration_s, http_status)
        self.ledger.record({"request_sha256": digest, "model": identity, "purpose": "text vectors", **how})

    def _count(self, usage: Any, texts: list[str]) -> Usage:
        tokens = usage.get("prompt_tokens") if isinstance(usage, dict) else None
        if not is_credible(tokens):
            # The server does not say. A spending stop that counted nothing would never stop.
            tokens = sum(map(text_tokens, texts))
        spent = usage_of_call(tokens, 0, self.prices)
        if self.spending is not None:
            self.spending.add(spent)
        return spent

    def usage_of(self, texts: Sequence[str]) -> Usage:
        """About what it takes to encode these texts."""
        usage = usage_of_call(sum(map(text_tokens, texts)), 0, self.prices)
        return replace(usage, calls=math.ceil(len(texts) / self.batch_size))


def unit_vectors(data: Any, texts: Sequence[str], named: str) -> NDArray[np.float32]:
    """The member `data` of an answer as unit vectors (n, dim), in the order of the texts.

    Raises ModelUnusable for another number of vectors than texts, for vectors of different lengths, and for a vector
    that is not finite or has no direction. named: the model, for the message.

    >>> unit_vectors([{"index": 1, "embedding": [0, 2]}, {"index": 0, "embedding": [3, 4]}], ["a", "b"], "m").tolist()
    [[0.6000000238418579, 0.800000011920929], [0.0, 1.0]]
    """
    try:
        by_place = {int(item.get("index", place)): item["embedding"] for place, item in enumerate(data)}
        rows = np.array([by_place[place] for place in range(len(texts))], dtype=np.float64)
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError):
        rows = np.empty(0)
    if rows.ndim != 2 or len(data) != len(texts) or not rows.shape[1]:
        raise ModelUnusable(f"{named} answered with something else than one vector for each of {len(texts)} texts")
    lengths = np.linalg.norm(rows, axis=1)
    for text, length in zip(texts, lengths, strict=True):
        if not (math.isfinite(length) and length > 0):
            raise ModelUnusable(f"{named} gave a vector without direction for the text {text[:80]!r}")
    return np.asarray(rows / lengths[:, None], dtype=np.float32)
