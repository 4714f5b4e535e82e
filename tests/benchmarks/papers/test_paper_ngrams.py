"""The n-gram metrics of the papers' tables: published values of real texts, and cases by hand."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.papers.meteor import meteor
from benchmarks.papers.ngrams import CORRUPTION_METRICS, Cider, bleu, caption_words, rouge_l, scores_of

pytest.importorskip("rouge_score", reason="the extra `papers` is not installed")

# Published values have three decimals, which alone makes differences of up to .0005.
ROUNDED = 0.0005 + 1e-9


@pytest.fixture(scope="module")
def differences(shared_data: Path) -> dict[str, np.ndarray]:
    """Our values less the published ones, of some variants of a description."""
    with gzip.open(shared_data / "mpii_corruption" / "corruption.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(next(lines))]
    pairs = [(row["ground_truth"], variant) for row in rows for variant in row["variants"][::6]]
    found = [(scores_of(base, variant["text"]), variant["published"]) for base, variant in pairs]
    return {name: np.array([ours[name] - published[name] for ours, published in found]) for name in CORRUPTION_METRICS}


@pytest.mark.parametrize("name", CORRUPTION_METRICS)
def test_the_authors_values_come_out_again(differences: dict[str, np.ndarray], name: str) -> None:
    assert np.abs(differences[name]).max() <= ROUNDED


def test_bleu_by_hand() -> None:
    # 3 of 4 words, 1 of 3 pairs, and no triple or quadruple, of which smoothing makes 0.1 of 2 and 0.1 of 1.
    text, reference = ["a", "red", "ball", "rolls"], [["a", "red", "box", "rolls"]]
    assert bleu(reference, text, 1) == pytest.approx(0.75)
    assert bleu(reference, text, 4) == pytest.approx((0.75 * (1 / 3) * (0.1 / 2) * 0.1) ** 0.25)


def test_bleu_punishes_a_short_text() -> None:
    assert bleu([["a", "red", "ball", "rolls"]], ["a", "red"], 1) == pytest.approx(np.exp(1 - 4 / 2))


def test_the_best_reference_counts_for_rouge() -> None:
    references = [["a", "dog", "sleeps"], ["the", "red", "ball", "rolls"]]
    # The longest common sequence "red ball rolls": precision 3/3, recall 3/4.
    assert rouge_l(references, ["red", "ball", "rolls"]) == pytest.approx(2 * 0.75 / 1.75)


def test_cider_by_hand() -> None:
    corpus = [[["a", "red", "ball"]], [["a", "blue", "box"]]]
    # "a" stands in both videos, so its weight is 0. Of the words "red" and "box" one is shared: cosine 1/2.
    # Of the pairs "a red" and "red box" one is in the reference's "a red" and "red ball": cosine 1/2.
    assert Cider(corpus).score(corpus[0], ["a", "red", "box"]) == pytest.approx(10 * (0.5 + 0.5 + 0) / 4)


def test_cider_averages_references() -> None:
    corpus = [[["red", "ball"], ["blue", "box"]], [["green", "hat"]]]
    # With the first reference both n have cosine 1, with the second 0.
    assert Cider(corpus).score(corpus[0], ["red", "ball"]) == pytest.approx(10 * (2 + 0) / (4 * 2))


def test_tokens_of_punctuation_do_not_count() -> None:
    assert caption_words("A man , running .") == ["a", "man", "running"]


@pytest.fixture
def wordnet(tmp_path: Path) -> Path:
    """A WordNet with one synset, of the nouns car and auto."""
    for kind in ("adj", "adv", "noun", "verb"):
        for name in (f"data.{kind}", f"index.{kind}", f"{kind}.exc"):
            (tmp_path / name).write_text("", encoding="utf-8")
    (tmp_path / "data.noun").write_text("00000000 06 n 02 car 0 auto 0 000 | a vehicle  \n", encoding="utf-8")
    index = "".join(f"{word} n 1 0 1 0 00000000  \n" for word in ("auto", "car"))
    (tmp_path / "index.noun").write_text(index, encoding="utf-8")
    return tmp_path


def test_meteor_by_hand(wordnet: Path) -> None:
    reference = [["the", "red", "car", "rolls"]]
    # Four matches in one chunk: F is 1, and fragmentation takes 0.5 (1 / 4) ** 3 of it.
    assert meteor(reference, ["the", "red", "auto", "rolled"], wordnet) == pytest.approx(1 - 0.5 / 64)
    # Three matches in two chunks: precision and recall are 3 / 4.
    assert meteor(reference, ["the", "red", "box", "rolls"], wordnet) == pytest.approx(0.75 * (1 - 0.5 * (2 / 3) ** 3))
    assert meteor([["a"], *reference], ["the", "red", "box", "rolls"], wordnet) > 0.6
