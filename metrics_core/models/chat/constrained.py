"""Constrained decoding by llguidance: a model in this process can write nothing but JSON that fits the schema."""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from metrics_core.models.chat.structured import ordered_json
from metrics_core.models.unusable import ModelUnusable

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
