"""Image-text encoders from open_clip: an architecture with a checkpoint file or a tag of open_clip.

A model is named by an architecture and a checkpoint. The architecture is a name that open_clip knows, or the path of a
JSON model configuration (clip_loading lists the files that may lie next to it). The checkpoint is a file (.safetensors,
or .pt/.pth/.bin read with weights_only), or a tag of open_clip such as `laion2b_s34b_b79k`. Fine-tuned CLIP such as
PAC-S loads in the same way; low-rank adapters in a checkpoint (`*.lora_A`, `*.lora_B`) are merged into their weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metrics_core.frames.fit import PictureFit
from metrics_core.models.batches import (
    RowNumbers,
    compute_in_batches,
    explain_lack_of_memory,
    move_to_device,
    split_by_size,
)
from metrics_core.models.clip_loading import (
    list_configuration_files,
    make_clip,
    make_tokenizer,
    read_embedding_size,
)
from metrics_core.models.clip_texts import encode_clip_texts
from metrics_core.models.errors import convert_load_errors
from metrics_core.models.precision import choose_precision
from metrics_core.models.revision import find_model_revision
from metrics_core.models.word_tokenizer import WordTokenizer
from metrics_core.protocols import ModelIdentity

Pixels = NDArray[np.uint8]


class OpenClipEncoder:
    """An open_clip model that turns texts and images into features of one space, loaded when first needed.
    architecture: a name of open_clip or the path of a JSON configuration. checkpoint: a file of weights, or a tag of
    open_clip. name: that of `identity`; None joins both. precision: "fp32", "bf16" or "fp16" for a GPU; a CPU computes
    in float32.

    Features are float32 and not normalised, because the metrics normalise them. A feature that is not finite is
    replaced by zeros, which have no direction; the metrics report it.
    """

    def __init__(
        self,
        architecture: str,
        checkpoint: str,
        *,
        name: str | None = None,
        precision: str = "fp32",
        batch_size: int = 64,
    ) -> None:
        self._architecture = architecture
        self._checkpoint = checkpoint
        self._name = name or f"{Path(architecture).stem}/{Path(checkpoint).stem}"
        self._precision = precision
        self.batch_size = batch_size

    @property
    def identity(self) -> ModelIdentity:
        """The model's name, the revision of its weights, and as parameters its architecture, the hashes of its
        configuration files and the precision that this machine computes in. The revision is a hash of the checkpoint
        file, or "open_clip:" with the tag. No weights are loaded.
        """
        weights = Path(self._checkpoint).expanduser()
        revision = find_model_revision(self._checkpoint) if weights.exists() else f"open_clip:{self._checkpoint}"
        params: dict[str, str] = {"architecture": Path(self._architecture).stem}
        params["precision"] = choose_precision(self._precision)
        params |= {
            kind: find_model_revision(str(file)) for kind, file in list_configuration_files(self._architecture).items()
        }
        return ModelIdentity(self._name, revision, params)

    @property
    def dim(self) -> int:
        """Return the number of components of a feature, read from the configuration without loading the model."""
        with convert_load_errors(self._architecture):
            return read_embedding_size(self._architecture)

    @property
    def context_length(self) -> int:
        """The most tokens that the model reads of a text, start and end token included. Loads the tokenizer, not the
        weights.
        """
        return int(self._tokenizer.context_length)

    def count_tokens(self, text: str) -> int:
        """Return the number of tokens of an uncut text, start and end token included."""
        return len(self._tokenizer.encode(text)) + 2

    def list_unknown_words(self, text: str) -> list[str]:
        """List the distinct words of a text, in lower case and in its order, that the model's vocabulary of whole words
        lacks. All of them look the same to the model. [] for a model without such a vocabulary, whose tokenizer splits
        unknown words.
        """
        tokenizer = self._tokenizer
        return tokenizer.list_unknown_words(text) if isinstance(tokenizer, WordTokenizer) else []

    def load(self) -> None:
        """Load the model now, unless it is loaded already. Weights named by a tag may be downloaded."""
        _ = self._loaded

    @property
    def fit(self) -> PictureFit:
        """Return how the model's transform resizes and crops an image. Loads the model."""
        fit: PictureFit = self._loaded.fit
        return fit

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Encode texts into features, float32 (n, dim) and not normalised, in their order. A text longer than
        `context_length` is cut, but keeps its end token. A feature that is not finite becomes zeros. Loads the model.

        Texts of one length share a batch, on a GPU of like length, and are not padded to the context: the text tower is
        causal, so padding after the end token would not change the feature at the end token.
        """
        if not texts:
            return np.empty((0, self.dim), np.float32)
        return _clear_rows_not_finite(
            encode_clip_texts(self._loaded, texts, self.batch_size, self._explain_lack_of_memory("text"))
        )

    def encode_images(self, images: Sequence[Pixels]) -> NDArray[np.float32]:
        """Encode RGB images, uint8 (H, W, 3) of any size, into features, float32 (n, dim) and not normalised, in their
        order. A feature that is not finite becomes zeros. Loads the model.
        """
        return self.encode_preprocessed([self.preprocess(image) for image in images])

    def preprocess(self, image: Pixels) -> Any:
        """Resize and normalise an RGB image for the model: a float tensor (3, size, size). Loads the model; call `load`
        first where several threads preprocess.
        """
        from PIL import Image

        return self._loaded.transform(Image.fromarray(image))

    def encode_preprocessed(self, images: Sequence[Any]) -> NDArray[np.float32]:
        """Encode images that went through `preprocess` into features, float32 (n, dim) and not normalised, in their
        order. A feature that is not finite becomes zeros.
        """
        if not images:
            return np.empty((0, self.dim), np.float32)
        import torch

        loaded = self._loaded

        def compute(rows: RowNumbers) -> Any:
            batch = torch.stack([images[row] for row in rows])
            return loaded.model.encode_image(move_to_device(batch, loaded.device).to(loaded.dtype))

        batches = split_by_size(range(len(images)), self.batch_size)
        return _clear_rows_not_finite(
            compute_in_batches(len(images), batches, compute, memory_message=self._explain_lack_of_memory("image"))
        )

    def _explain_lack_of_memory(self, one: str) -> str:
        return explain_lack_of_memory(self._name, one, "REELSIEVE_IMAGE_TEXT_PRECISION")

    @cached_property
    def _tokenizer(self) -> Any:
        # Without the weights: counting tokens must not cost the memory of the model.
        with convert_load_errors(self._architecture):
            return make_tokenizer(self._architecture)

    @cached_property
    def _loaded(self) -> Any:
        with convert_load_errors(self._architecture):
            return make_clip(self._architecture, self._checkpoint, self._precision)


class ClipTextEncoder:
    """A TextEncoder that uses the text side of an image-text encoder. Its vectors have length 1, or are zeros where the
    model gives no direction.
    """

    def __init__(self, encoder: OpenClipEncoder) -> None:
        self._encoder = encoder

    @property
    def identity(self) -> ModelIdentity:
        """Return the identity of the image-text encoder with a parameter that distinguishes text vectors from image
        vectors.
        """
        whole = self._encoder.identity
        return ModelIdentity(whole.model_id, whole.revision, {**whole.params, "features": "texts"})

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Encode texts into vectors (n, dim) of length 1, in their order; zeros where the model gives no direction.
        Texts are cut to the encoder's context length.
        """
        features = self._encoder.encode_texts(texts)
        lengths = np.linalg.norm(features, axis=1, keepdims=True)
        units: NDArray[np.float32] = features / np.where(lengths > 0, lengths, np.float32(1))
        return units


def _clear_rows_not_finite(features: NDArray[np.float32]) -> NDArray[np.float32]:
    features[~np.isfinite(features).all(axis=1)] = 0
    return features
