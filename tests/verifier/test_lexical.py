"""Lexical evidence, against values worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrics_core.ecs.verifier.lexical import (
    LEXICAL_FEATURES,
    compute_feature_matrix,
    compute_lexical_features,
    split_number_words,
    stem_word,
    stemmed_content_recall,
)


def evidence(premise: str, hypothesis: str) -> dict[str, float]:
    return dict(zip(LEXICAL_FEATURES, compute_lexical_features(premise, hypothesis), strict=True))


def test_overlap_by_hand() -> None:
    found = evidence("A tall man walked two dogs.", "The man walks dogs and cats.")
    # Content of the hypothesis: man, walks, dogs, cats; of the premise: tall, man, walked, 2, dogs.
    assert found["content_recall"] == 3 / 4
    assert found["form_recall"] == 2 / 4
    assert found["pair_recall"] == 1 / 3  # "man walk" stands in both; "walk dog" has a 2 between, "dog cat" is new
    assert found["long_word_recall"] == (3 + 4 + 3) / (3 + 4 + 3 + 3)
    assert found["premise_share"] == 3 / 5
    assert found["order"] == 3 / 4
    assert found["missing_words"] == 1 / 5
    assert found["all_words_found"] == 0
    assert found["premise_length"] == pytest.approx(np.log(7) / 5)
    assert found["hypothesis_length"] == pytest.approx(np.log(7) / 5)


def test_the_order_of_words_counts() -> None:
    assert evidence("dogs chase cats", "cats chase dogs")["order"] == pytest.approx(1 / 3)
    assert evidence("dogs chase cats", "cats chase dogs")["content_recall"] == 1


@pytest.mark.parametrize(
    ("premise", "hypothesis", "name", "value"),
    [
        ("Two dogs run.", "2 dogs run.", "number_recall", 1.0),
        ("Two dogs run.", "Three dogs run.", "number_recall", 0.0),
        ("Two dogs run.", "Three dogs run.", "number_conflict", 1.0),
        ("Some dogs run.", "Three dogs run.", "number_conflict", 0.0),
        ("Some dogs run.", "Many dogs run.", "number_recall", 1.0),
        ("A red car.", "A blue car.", "colour_conflict", 1.0),
        ("A red car.", "A car.", "colour_conflict", 0.0),
        ("A car.", "A blue car.", "colour_conflict", 0.0),
        ("A man sits.", "A woman sits.", "gender_conflict", 1.0),
        ("A man and a woman sit.", "A woman sits.", "gender_conflict", 0.0),
        ("He doesn't run.", "He runs.", "negation_differs", 1.0),
        ("He runs.", "Nobody runs.", "hypothesis_negated", 1.0),
        ("Nobody runs.", "No man runs.", "negation_differs", 0.0),
        ("rose played golf", "The golfer Rose played.", "name_recall", 1.0),
        ("smith played golf", "The golfer Rose played.", "name_recall", 0.0),
        ("smith played golf", "The golfer played.", "hypothesis_has_name", 0.0),
    ],
)
def test_particulars(premise: str, hypothesis: str, name: str, value: float) -> None:
    assert evidence(premise, hypothesis)[name] == value


def test_words_and_stems() -> None:
    assert split_number_words("It can't be: 1,000 DON’T!") == ["it", "can", "not", "be", "1,000", "do", "not"]
    assert stem_word("horses") == stem_word("horse")
    assert stem_word("sitting") == stem_word("sits")


def test_content_recall_of_nothing_is_full() -> None:
    assert stemmed_content_recall("A dog.", "It is.") == 1


@given(st.text(max_size=60), st.text(max_size=60))
def test_every_feature_is_finite_and_small(premise: str, hypothesis: str) -> None:
    values = np.array(compute_lexical_features(premise, hypothesis))
    assert values.shape == (len(LEXICAL_FEATURES),)
    assert ((values >= 0) & (values <= 1)).all()


def test_a_matrix_has_a_row_for_each_pair() -> None:
    assert compute_feature_matrix([]).shape == (0, len(LEXICAL_FEATURES))
    pairs = [("A dog.", "A cat."), ("A dog.", "A dog.")]
    expected = np.array([compute_lexical_features(*pair) for pair in pairs], dtype=np.float32)
    assert compute_feature_matrix(pairs).tolist() == expected.tolist()
