"""Short texts: the words of VCS_short, its maximum over references, and the repair of always-zero shapes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrics_core.vcs import VCSCaptionResult, vcs_captions, vcs_from_embeddings, vcs_from_similarity
from metrics_core.vcs.short import STOP_WORDS, split_content_words, vcs_short

SHAPES = [(r, g) for r in range(1, 13) for g in range(1, 13)]
ALWAYS_ZERO = {(r, g) for r, g in SHAPES if min(r, g) <= 2} | {(3, 4), (4, 3)}


def vectors_of(*texts: str) -> dict[str, np.ndarray]:
    """One unit vector per text and word, equal only for equal strings."""
    strings = sorted({part for text in texts for part in (text, *split_content_words(text))})
    return dict(zip(strings, np.eye(len(strings)), strict=True))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("A man is riding a horse.", ["man", "riding", "horse"]),
        ("The MAN, the Horse; THE end", ["MAN", "Horse", "end"]),  # case is kept, stop words go in any case
        ("don't you're it's", ["dont", "youre"]),  # no contraction is expanded; "its" is a stop word
        ("well-known / side-by-side", ["wellknown", "sidebyside"]),
        ("two\t words\n\n here  ", ["two", "words"]),
        ("don’t", ["don’t"]),  # only ASCII punctuation is deleted
        ("He is, and was.", []),
        ("?! ...", []),
        ("", []),
        ("we us", ["us"]),  # not in the list
    ],
)
def test_words(text: str, words: list[str]) -> None:
    assert split_content_words(text) == words


def test_stop_words() -> None:
    """179 entries of the list less its 26 with an apostrophe."""
    assert len(STOP_WORDS) == 153
    assert all(word == word.lower() and "'" not in word for word in STOP_WORDS)
    assert not STOP_WORDS & {"us", "would", "could", "may", "also", "one", "upon", "man"}


def test_the_best_reference_counts() -> None:
    generated = "A brown dog catches a frisbee."
    references = ["It was there.", "A cat sleeps on a sofa.", "The brown dog catches the frisbee!", "A brown dog."]
    vectors = vectors_of(generated, *references)
    vectors[references[2]] = vectors[generated]
    found = vcs_short(references, generated, vectors)
    assert (found.status, found.best_reference_index) == ("ok", 2)
    words = [vectors[word] for word in ("brown", "dog", "catches", "frisbee")]
    assert found.result == vcs_from_embeddings(words, words, vectors[generated], vectors[generated])
    assert found.result is not None
    assert found.result.vcs == pytest.approx(1.0)
    assert vcs_short(references[:2], generated, vectors).best_reference_index == 1


def test_settings_reach_every_reference() -> None:
    text, backwards = "red green blue white black", "black white blue green red"
    vectors = vectors_of(text, backwards)
    vectors[backwards] = vectors[text]
    strict, tolerant = (vcs_short([backwards], text, vectors, lct=lct).result for lct in (0, 1))
    assert strict is not None
    assert tolerant is not None
    assert strict.vcs == 0.0 < tolerant.vcs
    single = [vcs_short(["Dog!"], "dog", vectors_of("dog", "Dog!") | {"Dog": np.eye(3)[0]}, short_text=s).result
              for s in (False, True)]  # fmt: skip
    assert [result is not None and result.always_zero for result in single] == [True, False]


def test_no_word_left_is_no_score() -> None:
    assert vcs_short(["A dog."], "It is!", {}) == VCSCaptionResult("empty_text")
    assert vcs_short(["It is!"], "A dog.", {}) == VCSCaptionResult("no_reference")
    assert vcs_short([], "A dog.", {}) == VCSCaptionResult("no_reference")


def test_a_missing_vector_is_named() -> None:
    vectors = vectors_of("A dog runs.")
    with pytest.raises(ValueError, match="no vector for 'cat'"):
        vcs_short(["A cat runs."], "A dog runs.", vectors)


@pytest.mark.parametrize("n", range(1, 8))
def test_identical_texts_score_1_with_short_text(n: int) -> None:
    result = vcs_from_similarity(np.eye(n), 1.0, short_text=True)
    assert (result.vcs, result.nas, result.nas_d, result.nas_l) == (1.0, 1.0, 1.0, 1.0)
    assert not result.always_zero


@given(st.sampled_from(SHAPES), st.integers(0, 2**32), st.sampled_from([0, 1, 2]), st.sampled_from([1, 17]))
def test_short_text_changes_only_the_shapes_that_are_always_zero(
    shape: tuple[int, int], seed: int, lct: float, decimals: int
) -> None:
    matrix = np.round(np.random.default_rng(seed).uniform(0, 1, shape), decimals)
    plain = vcs_from_similarity(matrix, 0.9, lct=lct)
    repaired = vcs_from_similarity(matrix, 0.9, lct=lct, short_text=True)
    assert plain.always_zero is (shape in ALWAYS_ZERO)
    assert not repaired.always_zero
    if shape not in ALWAYS_ZERO:
        assert repaired == plain
        return
    # What the repair rests on is the same: matches, LAS, NAS-L and, with more than one chunk a side, NAS-D.
    changed = {"vcs", "nas", "window_regularizer"}
    if min(shape) == 1:
        changed |= {"nas_f1", "nas_d", "nas_d_precision", "nas_d_recall"}
    assert replace(repaired, **{name: getattr(plain, name) for name in changed}) == plain
    assert repaired.window_regularizer == 0.0
    assert repaired.nas == repaired.nas_f1
    assert 0.0 <= repaired.vcs <= 1.0


def test_one_sentence_has_no_order_so_its_sas_is_its_score() -> None:
    result = vcs_from_similarity([[0.7, 0.9, 0.2]], 0.8, short_text=True)
    assert (result.nas_d, result.nas_l, result.nas) == (1.0, 1.0, 1.0)
    assert result.vcs == result.sas > 0.0


def test_two_sentences_in_the_wrong_order_stay_at_0() -> None:
    """Both matches lie one off of at most one: P_total = P_max, NAS-D 0."""
    result = vcs_from_similarity([[0.0, 1.0], [1.0, 0.0]], 1.0, short_text=True)
    assert (result.sas, result.nas_d, result.vcs) == (1.0, 0.0, 0.0)
    assert not result.always_zero


def test_two_sentences_by_hand() -> None:
    """As worked out in test_vcs: NAS-D F1(1/2, 1) = 2/3; NAS-L F1(1/sqrt 2, 1) = 2 / (sqrt 2 + 1)."""
    result = vcs_from_similarity([[0.0, 0.0], [1.0, 1.0]], 1.0, short_text=True)
    line = 2 / (2**0.5 + 1)
    nas = 2 * (2 / 3) * line / (2 / 3 + line)
    assert result.nas == pytest.approx(nas)
    assert result.sas == pytest.approx(1.0)
    assert result.vcs == pytest.approx(nas)


@given(st.integers(0, 2**32), st.integers(0, 4), st.sampled_from([0, 1]))
def test_captions_together_score_as_pairs_alone(seed: int, n_captions: int, lct: float) -> None:
    """With repeated texts and texts without a chunk; the best pair of a caption is its result."""
    rng = np.random.default_rng(seed)
    letters = "abcdefg"
    vectors = {letter: rng.normal(0.5, 1, 5) for letter in letters}

    def text() -> str:
        words = " ".join(rng.choice(list(letters), rng.integers(0, 6)))
        vectors.setdefault(words, rng.normal(0.5, 1, 5))
        return words

    captions = [([text() for _ in range(rng.integers(0, 4))], text()) for _ in range(n_captions)]
    for (references, generated), found in zip(
        captions, vcs_captions(captions, vectors, str.split, lct=lct), strict=True
    ):
        alone = {
            i: vcs_from_embeddings(
                [vectors[word] for word in reference.split()],
                [vectors[word] for word in generated.split()],
                vectors[reference],
                vectors[generated],
                lct=lct,
            ).vcs
            for i, reference in enumerate(references)
            if reference and generated
        }
        assert {i: result.vcs for i, result in found.result_by_reference.items()} == pytest.approx(alone, abs=1e-12)
        if alone:
            assert found.result is not None
            assert found.result.vcs == pytest.approx(max(alone.values()), abs=1e-12)
            assert found.always_zero == all(result.always_zero for result in found.result_by_reference.values())
        else:
            assert (found.result, found.always_zero) == (None, False)
            assert found.status == ("no_reference" if generated else "empty_text")
