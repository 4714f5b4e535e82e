"""Protocols of the models that metrics use, such as text encoders: any object with the members listed here will do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from metrics_core.frames.fit import PictureFit


@dataclass(frozen=True, slots=True)
class ModelIdentity:
    """The exact identity of a model: two models with equal identities give the same numbers. `revision` is immutable: a
    hub commit or a hash of the weights. `params` are the settings that change the output.
    """

    model_id: str
    revision: str
    params: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return plain data for fingerprints and the database: a dict with the keys model_id, revision and params."""
        return {"model_id": self.model_id, "revision": self.revision, "params": dict(self.params)}

    def add_params(self, **params: Any) -> ModelIdentity:
        """Return the identity of this model in a use with further settings, such as the version of a prompt."""
        return replace(self, params={**self.params, **params})


class TextEncoder(Protocol):
    """A model that turns texts into vectors. Reading its identity must not load the model."""

    @property
    def identity(self) -> ModelIdentity:
        """The model, its revision and the settings that change its vectors."""
        ...

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Encode texts as L2-normalised float32 vectors (n, dim), in the order of the texts; none may be NaN."""
        ...


def count_chunks(encoder: TextEncoder, texts: Sequence[str]) -> dict[str, int]:
    """Count the chunks of every text that is too long for an encoder to read at once: {text: number of chunks}. The
    encoder averages the vectors of a text's chunks. Texts that it reads at once are left out; {} for an encoder without
    a method `in_chunks`.
    """
    count = getattr(encoder, "in_chunks", None)
    return {} if count is None else dict(count(texts))


class ImageEncoder(Protocol):
    """A model that turns images into vectors. Reading its identity must not load the model."""

    @property
    def identity(self) -> ModelIdentity:
        """The model, its revision and the settings that change its vectors."""
        ...

    @property
    def batch_size(self) -> int:
        """The number of images that the encoder encodes most efficiently in one call."""
        ...

    @property
    def dim(self) -> int:
        """The number of values in the feature of one image. Reading it does not load the model."""
        ...

    def load(self) -> None:
        """Load the model now, in this thread, so that other threads may call `preprocess`."""
        ...

    @property
    def fit(self) -> PictureFit | None:
        """How the model's transform resizes and crops a frame, so that frames may be cut down before they are
        passed on; None where they must stay whole. Reading it loads the model.

        `preprocess` gives the same for a frame and for what is left of it after the fit.
        """
        ...

    def preprocess(self, image: NDArray[np.uint8]) -> Any:
        """Prepare an RGB image (H, W, 3) for `encode_preprocessed`, in the form that the model needs. Any thread may
        call this once the model is loaded.
        """
        ...

    def encode_preprocessed(self, images: Sequence[Any]) -> NDArray[np.float32]:
        """Encode results of `preprocess` as features (n, dim) in float32, in their order. A row without direction is
        all zeros, never NaN.
        """
        ...


class SentenceSplitter(Protocol):
    """A model or rule that splits a text into sentences."""

    @property
    def identity(self) -> ModelIdentity:
        """The splitter, its version and settings. Another splitter gives other scores."""
        ...

    def split(self, text: str) -> list[str]:
        """Split a text into its sentences, in order, stripped, without empty ones; [] for a text without a sentence."""
        ...


class KeywordExtractor(Protocol):
    """A model or rule that picks the keywords of a text. Reading its identity must not load the model."""

    @property
    def identity(self) -> ModelIdentity:
        """The extractor, its version, prompt and settings. Another extractor gives other scores."""
        ...

    def extract(self, text: str) -> list[str]:
        """Extract the keywords of a text, in order, possibly with repetitions; [] for none.
        `metrics_core.keywords.clean_keywords` cleans them afterwards.
        """
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Entailments:
    """The answers of an EntailmentModel to n pairs of premise and hypothesis, in the order of the pairs. probabilities
    (n,): the probability in [0, 1] that the premise entails the hypothesis. truncated (n,): whether the premise was cut
    to fit into the model.
    """

    probabilities: NDArray[np.float64]
    truncated: NDArray[np.bool_]


class EntailmentModel(Protocol):
    """A model that estimates whether a premise entails a hypothesis. Reading its identity must not load the model."""

    @property
    def identity(self) -> ModelIdentity:
        """The model, its revision and the precision it computes in; another precision gives other probabilities."""
        ...

    def entailment(self, pairs: Sequence[tuple[str, str]]) -> Entailments:
        """Compute the probability of entailment of (premise, hypothesis) pairs, in their order. The probability of a
        pair does not depend on the other pairs of the call.
        """
        ...


class WholeTextWeigher(Protocol):
    """A rule that uses the whole text to correct the probabilities that its single sentences entail a hypothesis; the
    model does not run again. An EntailmentModel that needs the correction has such an object as its attribute
    `whole_text`, and `find_weigher` returns it.
    """

    @property
    def identity(self) -> ModelIdentity:
        """The rule, its version and its weights. Another rule gives other scores."""
        ...

    def weigh(self, probabilities: Sequence[float], sentences: Sequence[str], hypothesis: str) -> list[float]:
        """Correct the probabilities that single sentences of a text entail the hypothesis: one result in [0, 1] per
        probability, in their order. A greater probability never gets a smaller result. sentences: all sentences of the
        text, in order, not only those that the probabilities belong to. Raises ValueError for a probability outside [0,
        1].
        """
        ...

    def list_shared_words(self, sentences: Sequence[str], hypothesis: str) -> list[str]:
        """List phrases that show people which content words of the hypothesis the text has. A phrase is a word that the
        text has, or "no" and the missing word, with the nearest word of the text in brackets. sentences: all sentences
        of the text, in order.
        """
        ...


def find_weigher(model: EntailmentModel) -> WholeTextWeigher | None:
    """Return the `whole_text` attribute of a model, which corrects its probabilities by the whole text. None for a
    model without it, whose probabilities are used as they are.
    """
    weigher: WholeTextWeigher | None = getattr(model, "whole_text", None)
    return weigher
