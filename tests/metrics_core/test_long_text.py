"""Chunks of long texts by invariants and by hand, and their weighted mean by loops."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrics_core.evqa import BadFeature
from metrics_core.long_text import TextChunks, average_chunk_features, pack_chunks, split_into_chunks


def split(text: str) -> list[str]:
    return re.findall(r"[^.]*\.|[^.]+$", text)


def sentences(text: str) -> list[str]:
    return [sentence.strip() for sentence in split(text)]


def count(text: str) -> int:
    """Tokens of up to three letters, as a tokenizer cuts words into pieces."""
    return sum(math.ceil(len(word) / 3) for word in text.split())


def plan(text: str, limit: int) -> TextChunks:
    return split_into_chunks(text, limit=limit, split_sentences=sentences, count_tokens=count)


words = st.text("abc.", min_size=1, max_size=12).filter(lambda word: word.strip("."))
texts = st.lists(words, max_size=40).map(" ".join)


@given(texts, st.integers(1, 15))
def test_plans_keep_all_words_in_order_and_within_the_limit(text: str, limit: int) -> None:
    found = plan(text, limit)
    kept = re.sub(r"\s", "", " ".join(found.chunks))
    assert kept == re.sub(r"\s", "", text)
    longest = [max(map(count, chunk.split())) for chunk in found.chunks]
    for chunk, length in zip(found.chunks, longest, strict=True):
        assert count(chunk) <= limit or len(chunk.split()) == 1
        assert count(chunk) <= limit or length > limit
    assert found.truncated is any(count(chunk) > limit for chunk in found.chunks)
    assert found.tokens == tuple(min(count(chunk), limit) for chunk in found.chunks)
    assert found.text_tokens == count(text)
    neighbours = zip(found.chunks, found.chunks[1:], strict=False)
    # A whole sentence is moved on rather than cut, so only chunks that could be joined whole would be a fault.
    assert all(count(f"{left} {right}") > limit for left, right in neighbours)


@given(texts.filter(bool))
def test_a_text_within_the_limit_is_left_as_it_is(text: str) -> None:
    found = split_into_chunks(text, limit=count(text), split_sentences=lambda _: ["wrong"], count_tokens=count)
    assert found == TextChunks((text,), (count(text),), count(text), truncated=False)


def test_sentences_are_packed_whole() -> None:
    """Tokens 1+1, 1+1, 1+1+1 with limit 5: the third sentence does not fit and is not cut."""
    assert plan("aa b. cc d. ee f g.", 5).chunks == ("aa b. cc d.", "ee f g.")


def test_a_sentence_beyond_the_limit_is_split_between_words() -> None:
    found = plan("a. b c d e f g. h.", 3)
    assert found.chunks == ("a.", "b c d", "e f g.", "h.")
    assert found.tokens == (1, 3, 3, 1)
    assert found.truncated is False


def test_the_rest_of_a_split_sentence_is_packed_with_the_next() -> None:
    assert plan("b c d e. f g.", 3).chunks == ("b c d", "e. f g.")


def test_a_word_beyond_the_limit_is_left_to_the_encoder_to_cut() -> None:
    found = plan("a. abcabcabcabc b.", 2)
    assert found.chunks == ("a.", "abcabcabcabc", "b.")
    assert found.tokens == (1, 2, 1)
    assert found.truncated is True
    assert found.text_tokens == 6
    assert plan("abcabcabcabc", 2) == TextChunks(("abcabcabcabc",), (2,), 4, truncated=True)


def test_a_splitter_that_finds_no_sentence_loses_no_text() -> None:
    found = split_into_chunks("?? !! ?? !!", limit=2, split_sentences=lambda _: [], count_tokens=count)
    assert found.chunks == ("?? !!", "?? !!")


@pytest.mark.parametrize("text", ["", " \n\t"])
def test_a_blank_text_has_no_chunks(text: str) -> None:
    assert plan(text, 5) == TextChunks((), (), 0, truncated=False)


def test_a_limit_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="limit is 0"):
        plan("a", 0)


@given(st.integers(0, 2**32), st.integers(1, 6), st.integers(1, 5))
def test_weighted_mean_equals_the_loops(seed: int, n: int, dim: int) -> None:
    rng = np.random.default_rng(seed)
    rows, lengths = rng.uniform(0.1, 9, (n, dim)), rng.integers(1, 76, n)
    mean = [0.0] * dim
    for row, length in zip(rows.tolist(), lengths.tolist(), strict=True):
        size = math.sqrt(math.fsum(x * x for x in row))
        mean = [total + length * x / size for total, x in zip(mean, row, strict=True)]
    size = math.sqrt(math.fsum(x * x for x in mean))
    assert average_chunk_features(rows, lengths) == pytest.approx([x / size for x in mean], abs=1e-12)


def test_one_chunk_gives_its_own_feature() -> None:
    row = np.random.default_rng(4).normal(size=(1, 512)).astype(np.float32)
    exact = row[0].astype(np.float64)
    assert average_chunk_features(row, [40]) == pytest.approx(exact / np.linalg.norm(exact), abs=1e-15)
    assert average_chunk_features(row, [40]).dtype == np.float64


def test_what_cannot_be_averaged_is_refused() -> None:
    with pytest.raises(ValueError, match="no features"):
        average_chunk_features([], [])
    for lengths in ([1], [1, 0], [1, -1], [1, float("nan")]):
        with pytest.raises(ValueError, match="a positive number of tokens for every one of 2"):
            average_chunk_features([[1.0, 0.0], [0.0, 1.0]], lengths)
    with pytest.raises(BadFeature, match="row 1 of the chunk features"):
        average_chunk_features([[1.0, 0.0], [0.0, 0.0]], [1, 1])
    with pytest.raises(BadFeature, match="cancel out"):
        average_chunk_features([[1.0, 0.0], [-3.0, 0.0]], [2, 2])


def packed_one_by_one(pieces: list[str], limit: int) -> list[str]:
    """Add piece after piece to the last chunk while it fits."""
    chunks = pieces[:1]
    for piece in pieces[1:]:
        longer = f"{chunks[-1]} {piece}"
        chunks = [*chunks[:-1], longer] if count(longer) <= limit else [*chunks, piece]
    return chunks


@given(st.lists(words, max_size=60), st.integers(1, 40))
def test_packing_equals_the_loop(pieces: list[str], limit: int) -> None:
    assert pack_chunks(pieces, limit, count) == packed_one_by_one(pieces, limit)


def test_the_tokens_counted_grow_with_the_length_and_not_faster() -> None:
    """20,000 words in chunks of 250: word after word, the tokenizer would read every word 125 times."""
    read = 0

    def counted(text: str) -> int:
        nonlocal read
        read += len(text.split())
        return len(text.split())

    split_into_chunks("a " * 20_000, limit=250, split_sentences=sentences, count_tokens=counted)
    assert read < 20 * 20_000
