"""The baselines against hand-computed cases."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from metrics_core.ecs import plan_keypoints, verify
from metrics_core.models.baseline_verifiers import CosineVerifier, LexicalVerifier, content_recall
from metrics_core.protocols import EntailmentModel, ModelIdentity

TEXTS = st.text(alphabet="ab .Äthe", max_size=20)


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


@pytest.mark.parametrize(
    ("premise", "hypothesis", "expected"),
    [
        ("A man in a red coat lifts a box.", "A man lifts a heavy box.", 3 / 4),  # man, lifts, heavy, box
        ("THE MAN LIFTS.", "the man lifts", 1.0),
        ("A man lifts boxes.", "A man lifts a box.", 2 / 3),  # no stems: boxes is not box
        ("A dog.", "A dog dog cat.", 1 / 2),  # each different word once
        ("The dog.", "It is there.", 0.0),
        ("It was there.", "It is there.", 2 / 3),  # function words only: all words count
        ("A dog.", "?!", 0.0),
        ("", "A dog.", 0.0),
        ("Zwei Hunde.", "ZWEI Katzen.", 1 / 2),
    ],
)
def test_content_recall_by_hand(premise: str, hypothesis: str, expected: float) -> None:
    assert LexicalVerifier().entailment([(premise, hypothesis)]).probabilities.tolist() == [pytest.approx(expected)]


@given(TEXTS, TEXTS)
def test_recall_is_a_share_and_more_premise_never_lowers_it(premise: str, hypothesis: str) -> None:
    assert 0 <= content_recall(premise, hypothesis) <= content_recall(f"{premise} {hypothesis}", hypothesis) <= 1


def test_likeness_by_hand() -> None:
    pairs = [("east", "east"), ("east", "north"), ("east", "west"), ("between", "east"), ("north", "between")]
    found = CosineVerifier(ENCODER).entailment(pairs)
    assert found.probabilities.tolist() == pytest.approx([1.0, 0.5, 0.0, 0.8, 0.9])
    assert not found.truncated.any()


def test_each_text_is_embedded_once() -> None:
    encoder = TableEncoder(ENCODER.vectors)
    CosineVerifier(encoder).entailment([("east", "north"), ("north", "east"), ("east", "west")])
    assert encoder.calls == [["east", "north", "west"]]


def test_rounding_does_not_carry_a_likeness_beyond_one() -> None:
    longer = TableEncoder({"a": (np.nextafter(np.float32(1), np.float32(2)), 0)})
    assert CosineVerifier(longer).entailment([("a", "a")]).probabilities.tolist() == [1.0]


@pytest.mark.parametrize("model", [LexicalVerifier(), CosineVerifier(ENCODER)])
def test_they_are_verifiers(model: EntailmentModel) -> None:
    nothing = model.entailment([])
    assert (nothing.probabilities.shape, nothing.truncated.shape) == ((0,), (0,))
    assert (nothing.probabilities.dtype, nothing.truncated.dtype) == (np.float64, np.bool_)
    found = verify(plan_keypoints(["north"], ["east", "north"]), model, [0.9])
    assert (found.verdicts[0].sentence, found.verdicts[0].covered) == (1, True)


def test_their_identities_tell_them_and_their_encoders_apart() -> None:
    assert LexicalVerifier().identity.as_dict() == {
        "model_id": "content-word-recall",
        "revision": "1",
        "params": {"language": "en"},
    }
    assert CosineVerifier(ENCODER).identity.params["encoder"] == ENCODER.identity.as_dict()
