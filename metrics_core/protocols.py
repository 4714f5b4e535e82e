"""What a model must offer to be used by the metrics. Any object with these members will do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class ModelIdentity:
    """Which model, exactly: enough to tell two sets of numbers apart.

    `revision` is immutable: a hub commit or a hash of the weights. `params` are the settings that move the output.
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


class ImageEncoder(Protocol):
    """Turns images into vectors. Knowing its identity must not load the model."""

    @property
    def identity(self) -> ModelIdentity:
        """Model, revision and parameters."""
        ...

    @property
    def batch_size(self) -> int:
        """How many images are best encoded at once."""
        ...

    @property
    def dim(self) -> int:
        """Numbers per feature, known without loading the model."""
        ...

    def load(self) -> None:
        """Load the model now, in this thread, so that other threads may call `preprocess`."""
        ...

    def preprocess(self, image: NDArray[np.uint8]) -> Any:
        """An RGB image (H, W, 3) as the model wants it. May be called from any thread once the model is loaded."""
        ...

    def encode_preprocessed(self, images: Sequence[Any]) -> NDArray[np.float32]:
        """Features (n, dim) of preprocessed images, in their order; a row without direction is all zeros, never NaN."""
        ...


class SentenceSplitter(Protocol):
    """Splits a text into sentences."""

    @property
    def identity(self) -> ModelIdentity:
        """The splitter and its version: another splitter gives other scores."""
        ...

    def split(self, text: str) -> list[str]:
        """The sentences in order, stripped, without empty ones; [] for a text that holds none."""
        ...


class KeywordExtractor(Protocol):
    """Picks the keywords of a text. Knowing its identity must not load the model."""

    @property
    def identity(self) -> ModelIdentity:
        """The extractor, its version, prompt and settings: another extractor gives other scores."""
        ...

    def extract(self, text: str) -> list[str]:
        """The keywords in order, as they come: `metrics_core.keywords.clean_keywords` tidies them; [] for none."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Entailments:
    """What an EntailmentModel says about n pairs, in their order.

    probabilities (n,): P(entailment), in [0, 1]. truncated (n,): whether the premise was cut to fit into the model.
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
        """P(entailment) of (premise, hypothesis) pairs; that of a pair does not depend on the others of the call."""
        ...
