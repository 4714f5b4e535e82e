"""The members that a model must have for the metrics to use it. Any object with these members will do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from metrics_core.frames.fit import PictureFit


@dataclass(frozen=True, slots=True)
class ModelIdentity:
    """Names a model so exactly that two models with one identity give the same numbers.

    `revision` is immutable: a hub commit or a hash of the weights. `params` are the settings that change the output.
    """

    model_id: str
    revision: str
    params: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Plain data for fingerprints and the database."""
        return {"model_id": self.model_id, "revision": self.revision, "params": dict(self.params)}


class TextEncoder(Protocol):
    """Turns texts into vectors. Knowing its identity must not load the model."""

    @property
    def identity(self) -> ModelIdentity:
        """Model, revision and parameters."""
        ...

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors (n, dim), L2-normalised, in the order of the texts; none may be NaN."""
        ...


def count_chunks(encoder: TextEncoder, texts: Sequence[str]) -> dict[str, int]:
    """The texts that an encoder reads in several chunks, whose mean is their vector, with the number of chunks.

    An encoder that does so has a method `in_chunks`. Others read texts of any length at once, or cut them.
    """
    count = getattr(encoder, "in_chunks", None)
    return {} if count is None else dict(count(texts))


class ImageEncoder(Protocol):
    """Turns images into vectors. Knowing its identity must not load the model."""

    @property
    def identity(self) -> ModelIdentity:
        """Model, revision and parameters."""
        ...

    @property
    def batch_size(self) -> int:
        """The number of images that are best encoded at once."""
        ...

    @property
    def dim(self) -> int:
        """Numbers per feature, known without loading the model."""
        ...

    def load(self) -> None:
        """Load the model now, in this thread, so that other threads may call `preprocess`."""
        ...

    @property
    def fit(self) -> PictureFit | None:
        """What the model looks at of a picture; None for all of it. Loads the model.

        `preprocess` gives the same for a picture and for what is left of it after the fit.
        """
        ...

    def preprocess(self, image: NDArray[np.uint8]) -> Any:
        """Prepare an RGB image (H, W, 3) for the model. Any thread may call this once the model is loaded."""
        ...

    def encode_preprocessed(self, images: Sequence[Any]) -> NDArray[np.float32]:
        """Features (n, dim) of preprocessed images, in their order. A row without direction is all zeros, never NaN."""
        ...


class SentenceSplitter(Protocol):
    """Splits a text into sentences."""

    @property
    def identity(self) -> ModelIdentity:
        """The splitter and its version: another splitter gives other scores."""
        ...

    def split(self, text: str) -> list[str]:
        """The sentences in order, stripped, without empty ones; [] for a text without a sentence."""
        ...


class KeywordExtractor(Protocol):
    """Picks the keywords of a text. Knowing its identity must not load the model."""

    @property
    def identity(self) -> ModelIdentity:
        """The extractor, its version, prompt and settings: another extractor gives other scores."""
        ...

    def extract(self, text: str) -> list[str]:
        """The keywords in order; [] for none. `metrics_core.keywords.clean_keywords` cleans them afterwards."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Entailments:
    """An EntailmentModel's answers on n pairs, in the order of the pairs.

    probabilities (n,): P(entailment) in [0, 1]. truncated (n,): whether the premise was cut to fit into the model.
    """

    probabilities: NDArray[np.float64]
    truncated: NDArray[np.bool_]


class EntailmentModel(Protocol):
    """Says whether a premise entails a hypothesis. Knowing its identity must not load the model."""

    @property
    def identity(self) -> ModelIdentity:
        """Model, revision and the precision it computes in: another precision gives other probabilities."""
        ...

    def entailment(self, pairs: Sequence[tuple[str, str]]) -> Entailments:
        """P(entailment) of (premise, hypothesis) pairs. A pair's probability does not depend on the pairs beside it."""
        ...


class WholeTextWeigher(Protocol):
    """Corrects P(entailment) by single sentences of a text with evidence from the whole text, without a model's pass.

    An EntailmentModel that needs the correction has a weigher as its attribute `whole_text`. `find_weigher` finds it.
    """

    @property
    def identity(self) -> ModelIdentity:
        """The rule and its weights."""
        ...

    def weigh(self, probabilities: Sequence[float], sentences: Sequence[str], hypothesis: str) -> list[float]:
        """Correct each probability in [0, 1] that a sentence of the text entails the hypothesis.

        sentences: all sentences of the text, in order, whichever the probabilities belong to. The results lie in
        [0, 1], and a greater probability never has a smaller result. Raises ValueError outside [0, 1].
        """
        ...

    def list_shared_words(self, sentences: Sequence[str], hypothesis: str) -> list[str]:
        """Say for each word of the hypothesis that counts what the text has of it, for people to read."""
        ...


def find_weigher(model: EntailmentModel) -> WholeTextWeigher | None:
    """Find a model's weigher for whole texts; None for a model whose probabilities stand as they are."""
    weigher: WholeTextWeigher | None = getattr(model, "whole_text", None)
    return weigher
