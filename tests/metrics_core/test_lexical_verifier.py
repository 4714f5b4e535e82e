"""The verifier of common words against hand-computed cases."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrics_core.ecs import choose_premises, verify_keypoints
from metrics_core.models.lexical_verifier import LexicalVerifier, compute_word_recall

TEXTS = st.text(alphabet="ab .Äthe", max_size=20)


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
    assert (
        0 <= compute_word_recall(premise, hypothesis) <= compute_word_recall(f"{premise} {hypothesis}", hypothesis) <= 1
    )


def test_it_is_a_verifier() -> None:
    nothing = LexicalVerifier().entailment([])
    assert (nothing.probabilities.shape, nothing.truncated.shape) == ((0,), (0,))
    assert (nothing.probabilities.dtype, nothing.truncated.dtype) == (np.float64, np.bool_)
    verdict = verify_keypoints(choose_premises(["north"], ["east", "north"]), LexicalVerifier(), [0.9]).verdicts[0]
    assert (verdict.sentence, verdict.covered) == (1, True)


def test_its_identity_names_rule_and_version() -> None:
    assert LexicalVerifier().identity.as_dict() == {
        "model_id": "content-word-recall",
        "revision": "1",
        "params": {"language": "en"},
    }
