"""A chat model of transformers in this process: an image-text-to-text model or a text model, by folder or hub id."""

from __future__ import annotations

import copy
import importlib.metadata
import json
import time
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Sequence as Series
from contextlib import contextmanager
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np

from metrics_core.models.chat.protocol import ChatReply, ChatRequest, ImagePart, Usage
from metrics_core.models.chat.records import Bookkeeping, CacheMode, Ledger, Outcome, Pending, ReplyCache
from metrics_core.models.chat.spending import add_usage
from metrics_core.models.chat.structured import Malformed, ordered_json, read_answer
from metrics_core.models.chat.transformers_generation import Generator, LoadedChat, Unanswerable, load_chat
from metrics_core.models.files import check_files
from metrics_core.models.precision import precision_in_use
from metrics_core.models.revision import model_revision, name_and_pin
from metrics_core.models.unusable import ModelUnusable, loading
from metrics_core.protocols import ModelIdentity

# Constrained decoding by llguidance: a model in this process can write nothing but JSON that fits the schema.

PACKAGE = "llguidance"


def installed_version() -> str | None:
    """Version of the installed llguidance; None where the extra `constrained` is not installed."""
    try:
        return importlib.metadata.version(PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        return None


class Constraint:
    """What a model may write next. One object serves one model; `processor` makes one for each generation."""

    def __init__(self, tokenizer: Any, n_tokens: int, end_tokens: list[int]) -> None:
        from llguidance.hf import from_tokenizer

        self._tokenizer = from_tokenizer(tokenizer, n_vocab=n_tokens, eos_token=end_tokens)
        self._grammar = lru_cache(maxsize=256)(self._compiled)

    def processor(self, schema: Mapping[str, Any]) -> _Allowed:
        """A logits processor of transformers for one generation. Raises ModelUnusable for a schema it cannot follow."""
        return _Allowed(self._grammar(ordered_json(schema)).deep_copy())

    def _compiled(self, schema: str) -> Any:
        from llguidance import LLMatcher

        # Without spaces, else a weak model writes them up to its token limit.
        grammar = LLMatcher.grammar_from_json_schema(json.loads(schema), overrides={"whitespace_flexible": False})
        matcher = LLMatcher(self._tokenizer, grammar, log_level=0)
        if matcher.is_error():
            raise ModelUnusable(f"{PACKAGE} cannot follow the schema {schema[:200]}: {matcher.get_error()[:200]}")
        return matcher


class _Allowed:
    """Takes from the scores (1, n_tokens) every token that the grammar forbids next."""

    def __init__(self, matcher: Any) -> None:
        self._matcher = matcher
        self._seen: int | None = None

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        import torch

        n_written = input_ids.shape[1]
        if self._seen is not None and not self._matcher.is_stopped():
            for token in input_ids[0, self._seen :].tolist():
                self._matcher.consume_token(token)
        self._seen = n_written
        bits = np.frombuffer(self._matcher.compute_bitmask(), dtype=np.uint8)
        allowed = np.unpackbits(bits, bitorder="little")[: scores.shape[1]].astype(np.bool_)
        mask = torch.zeros(scores.shape[1], dtype=torch.bool)
        mask[: allowed.size] = torch.from_numpy(allowed)
        if self._matcher.is_error() or not allowed.any():
            raise ModelUnusable(f"{PACKAGE} lost the thread of an answer: {self._matcher.get_error()[:200]}")
        return scores.masked_fill(~mask.to(scores.device), float("-inf"))


CONTENT_RETRIES = 2
# A model that decodes greedily would repeat its bad answer.
RETRY_TEMPERATURE = 0.7


class TransformersChatModel:
    """Answers one request after the other; the model is loaded when the first one has no stored answer.

    `model` is a local folder, a hub id or a "hub id@commit". Only safetensors are read, and no code of the model. A CPU
    always computes in float32; `precision` ("fp32", "bf16", "fp16") counts on a GPU. Where llguidance is installed
    (extra `constrained`) the model can write nothing but JSON that fits the schema; without it, an answer that does not
    fit is asked again, twice, by sampling with the next seed. Requests with the same system message and images come one
    after the other, and what the model computed for their common beginning is kept: always of texts, of images for the
    models that `transformers_generation` lists. Others encode the images again for every request.
    """

    def __init__(
        self,
        model: str,
        *,
        precision: str = "fp32",
        cache: ReplyCache | None = None,
        mode: CacheMode = "normal",
        ledger: Ledger | None = None,
        clock: Callable[[], float] = time.monotonic,
        constrained: bool = True,
    ) -> None:
        self._source = model
        self._model_id = name_and_pin(model)[0]
        self._precision = precision
        self._cache = cache
        self._mode: CacheMode = mode
        self._ledger = ledger
        self._clock = clock
        # The object that holds the loaded model, which those made by `remembering` share.
        self._holder = self
        version = installed_version() if constrained else None
        self._decoding = f"{PACKAGE} {version}" if version else "prompt"

    @property
    def identity(self) -> ModelIdentity:
        """Name, revision, the precision that this machine computes in, and what keeps answers to their schema."""
        params = {"precision": precision_in_use(self._precision), "decoding": self._decoding}
        return ModelIdentity(self._model_id, model_revision(self._source), params)

    def remembering(self, cache: ReplyCache, mode: CacheMode, ledger: Ledger) -> TransformersChatModel:
        """The same model, loaded once for both, with a cache and a ledger."""
        other = copy.copy(self)
        other._cache, other._mode, other._ledger = cache, mode, ledger
        return other

    def chat(self, requests: Series[ChatRequest]) -> list[ChatReply]:
        """One reply for each request, in their order. Equal requests are answered once.

        Raises ModelUnusable, CheckpointMismatch or ModelNotFound for a model that cannot be used, and ValueError for a
        request whose schema is none or whose max_tokens is below 1.
        """
        book = Bookkeeping(self.identity, CONTENT_RETRIES + 1, True, self._cache, self._mode, self._ledger)
        return book.replies(requests, partial(self._ask, book))

    def _ask(self, book: Bookkeeping, pending: list[Pending]) -> list[ChatReply]:
        generator = Generator(self._holder._loaded)
        replies: dict[int, ChatReply] = {}
        for index in _alike_together([one.request for one in pending]):
            replies[index] = self._reply(generator, book, pending[index])
        return [replies[index] for index in range(len(pending))]

    def _reply(self, generator: Generator, book: Bookkeeping, one: Pending) -> ChatReply:
        request, usage, reason = one.request, Usage(), ""
        if not generator.loaded.takes_images and any(isinstance(part, ImagePart) for part in request.parts):
            said = f"{request.purpose}: {self._model_id} takes no images: name a video model"
            return ChatReply("error", reason=said)
        for attempt in range(CONTENT_RETRIES + 1):
            started = self._clock()
            outcome, said, data, tokens = self._attempt(generator, request, attempt)
            spent = Usage(1, *tokens)
            usage = add_usage(usage, spent)
            error, seconds = None if data is not None else said, self._clock() - started
            book.record(one, attempt, outcome, error, spent, seconds, attempt=attempt)
            if data is not None:
                book.keep(one, attempt, data, usage)
                return ChatReply("ok", data, usage=usage)
            reason = f"{request.purpose}: {said} ({self._model_id})"
            if outcome == "rejected":
                return ChatReply("error", reason=reason, usage=usage)
        return ChatReply("malformed", reason=reason, usage=usage)

    def _attempt(
        self, generator: Generator, request: ChatRequest, attempt: int
    ) -> tuple[Outcome, str, Mapping[str, Any] | None, tuple[int, int]]:
        import torch

        temperature = max(request.temperature, RETRY_TEMPERATURE if attempt else 0.0)
        constraint = self._holder._constraint
        limiter = None if constraint is None else constraint.processor(request.schema)
        try:
            with _seeded(request.seed + attempt):
                written = generator.write(request, limiter, _sampling(temperature))
        except Unanswerable as error:
            return "rejected", str(error), None, (0, 0)
        except torch.OutOfMemoryError:
            generator.forget()
            said = (
                "the GPU lacks memory for this request: lower REELSIEVE_QEVA_FRAMES or REELSIEVE_QEVA_FRAME_SIZE, or "
                "set REELSIEVE_CHAT_PRECISION to bf16"
            )
            return "rejected", said, None, (0, 0)
        tokens = written.tokens_in, written.tokens_out
        if written.cut:
            return "truncated", f"the answer was cut at {request.max_tokens} tokens: allow more", None, tokens
        try:
            return "ok", "", read_answer(written.text, request.schema), tokens
        except Malformed as error:
            return "malformed", str(error), None, tokens

    @cached_property
    def _loaded(self) -> LoadedChat:
        revision = model_revision(self._source)
        with loading(self._model_id):
            check_files(self._source)
            return load_chat(self._model_id, revision, precision_in_use(self._precision))

    @cached_property
    def _constraint(self) -> Constraint | None:
        if self._decoding == "prompt":
            return None
        loaded = self._loaded
        with loading(self._model_id):
            # Some tokenizers know more tokens than the model, and many models have room for more than the tokenizer.
            n_tokens = max(loaded.model.get_output_embeddings().weight.shape[0], len(loaded.tokenizer))
            return Constraint(loaded.tokenizer, n_tokens, loaded.end_tokens)


def _alike_together(requests: Series[ChatRequest]) -> list[int]:
    """Indices of the requests, those with the same system message and images one after the other."""
    groups: dict[Any, list[int]] = {}
    for index, request in enumerate(requests):
        images = tuple(part.jpeg for part in request.parts if isinstance(part, ImagePart))
        groups.setdefault((request.system, images), []).append(index)
    return [index for group in groups.values() for index in group]


def _sampling(temperature: float) -> dict[str, Any]:
    """Arguments of `generate`; the model's own settings for sampling do not count."""
    if temperature > 0:
        return {"do_sample": True, "temperature": temperature, "top_p": 1.0, "top_k": 0}
    return {"do_sample": False, "temperature": None, "top_p": None, "top_k": None}


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    import torch

    with torch.random.fork_rng():
        torch.manual_seed(seed)
        yield
