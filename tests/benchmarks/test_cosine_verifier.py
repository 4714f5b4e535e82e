"""The cosine baseline of the benchmarks against hand-computed cases."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.cosine_verifier import CosineVerifier
from metrics_core.ecs import choose_premises, verify_keypoints
from metrics_core.protocols import ModelIdentity


class TableEncoder:
    """A TextEncoder that looks its vectors up and keeps each call."""

    def __init__(self, vectors: dict[str, Sequence[float]]) -> None:
        self.vectors = vectors
        self.calls: list[list[str]] = []

    @property
    def identity(self) -> ModelIdentity:
        return ModelIdentity("table", "7", {"dtype": "float32"})

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.calls.append(list(texts))
        return np.array([self.vectors[text] for text in texts], dtype=np.float32)


ENCODER = TableEncoder({"east": (1, 0), "north": (0, 1), "west": (-1, 0), "between": (0.6, 0.8)})


def test_likeness_by_hand() -> None:
    pairs = [("east", "east"), ("east", "north"), ("east", "west"), ("between", "east"), ("north", "between")]
    answers = CosineVerifier(ENCODER).entailment(pairs)
    assert answers.probabilities.tolist() == pytest.approx([1.0, 0.5, 0.0, 0.8, 0.9])
    assert not answers.truncated.any()


def test_each_text_is_embedded_once() -> None:
    encoder = TableEncoder(ENCODER.vectors)
    CosineVerifier(encoder).entailment([("east", "north"), ("north", "east"), ("east", "west")])
    assert encoder.calls == [["east", "north", "west"]]


def test_rounding_does_not_carry_a_likeness_beyond_one() -> None:
    longer = TableEncoder({"a": (np.nextafter(np.float32(1), np.float32(2)), 0)})
    assert CosineVerifier(longer).entailment([("a", "a")]).probabilities.tolist() == [1.0]


def test_it_is_a_verifier() -> None:
    nothing = CosineVerifier(ENCODER).entailment([])
    assert (nothing.probabilities.shape, nothing.truncated.shape) == ((0,), (0,))
    assert (nothing.probabilities.dtype, nothing.truncated.dtype) == (np.float64, np.bool_)
    verdict = verify_keypoints(choose_premises(["north"], ["east", "north"]), CosineVerifier(ENCODER), [0.9]).verdicts[
        0
    ]
    assert (verdict.sentence, verdict.covered) == (1, True)


def test_its_identity_names_its_encoder() -> None:
    assert CosineVerifier(ENCODER).identity.params["encoder"] == ENCODER.identity.as_dict()
