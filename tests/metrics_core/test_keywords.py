"""The rules on sentences worked out by hand, their invariants on any text, and the clean-up against another one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrics_core.keywords import (
    MAX_PHRASE_WORDS,
    Keywords,
    RuleKeywords,
    clean_keywords,
    extract_keywords,
    is_function_word,
)
from metrics_core.protocols import KeywordExtractor, ModelIdentity

EXTRACTOR: KeywordExtractor = RuleKeywords()
SOME_WORDS = ["a", "the", "man", "dogs,", "runs.", "red", "slowly", "riding", "parked", "2", "it's"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A young man rides a red bicycle down the street.", ["young man", "rides", "red bicycle", "street"]),
        ("Two men standing on a river bank", ["two men", "standing", "river bank"]),
        ("People walk dogs slowly through the rain", ["people", "walk", "dogs", "rain"]),
        ("the parked cars near a swimming pool", ["parked cars", "swimming pool"]),
        ("She is running and he carries boxes", ["running", "carries", "boxes"]),
        ("three parked cars", ["three parked cars"]),
        ("a red bed, a tall building; a string", ["red bed", "tall building", "string"]),
        ("The family looks at an ugly butterfly", ["family", "ugly butterfly"]),
        ("It's raining - he doesn’t care.", ["raining", "care"]),
        ("the man's long-sleeved shirt", ["man's long-sleeved shirt"]),
        ("What is the man holding? An umbrella", ["man", "holding", "umbrella"]),
        ("red car\nblack dog--wet cat", ["red car", "black dog", "wet cat"]),
        ("black sunflower seed", ["black sunflower seed"]),
        ("big wet sad old grey donkey", ["big wet sad old", "grey donkey"]),
        ("How many jars? 9.", ["many jars", "9"]),
        ("A dog and a dog", ["dog", "dog"]),
        ("In the whole picture a pink hexagon stands from beginning to end", ["pink hexagon", "stands"]),
        ("The last shot shows a picture book on a camera bag", ["picture book", "camera bag"]),
        ("It jumps three times, then twice; three lights in two frames", ["jumps", "three lights"]),
        ("Three of them", ["three"]),
        ("The final scene.", []),
        ("Yes, it is not.", []),
        ("", []),
        (" ... !", []),
    ],
)
def test_phrases(text: str, expected: list[str]) -> None:
    assert EXTRACTOR.extract(text) == expected


@given(st.one_of(st.text(), st.lists(st.sampled_from(SOME_WORDS)).map(" ".join)))
def test_phrases_of_any_text(text: str) -> None:
    found = EXTRACTOR.extract(text)
    assert found == RuleKeywords().extract(text)
    lowered = text.lower().replace("’", "'")
    position = 0
    for phrase in found:
        assert 1 <= len(phrase.split()) <= MAX_PHRASE_WORDS
        for word in phrase.split(" "):
            assert not is_function_word(word)
            position = lowered.index(word, position) + len(word)  # in the order of the text
    assert clean_keywords(found, dedup=False) == found


def test_a_very_long_word() -> None:
    assert EXTRACTOR.extract("a" * 200_000) == ["a" * 200_000]


def test_identity_is_fixed() -> None:
    assert EXTRACTOR.identity == ModelIdentity("reelsieve-keyword-rules", "2", {"language": "en"})


@pytest.mark.parametrize(
    ("raw", "cleaned"),
    [
        (["a, b", "c"], ["a", "b", "c"]),
        (["a\nb,\n c "], ["a", "b", "c"]),
        (["", " ", ",,", "\n"], []),
        (["Dog", "cat", "dog", "DOG "], ["Dog", "cat"]),
        (["Straße", "STRASSE"], ["Straße"]),
        (["red  car"], ["red  car"]),
        ([], []),
    ],
)
def test_clean_up(raw: list[str], cleaned: list[str]) -> None:
    assert clean_keywords(raw) == cleaned


pieces = st.lists(st.text("aAbB ,\n", max_size=8), max_size=6)


@given(pieces)
def test_clean_up_without_deduplication_is_that_of_the_authors(raw: list[str]) -> None:
    """Letter by letter: a comma or newline ends a keyword, blanks at its ends go."""
    expected, current = [], ""
    for letter in "\n".join(raw) + "\n":
        if letter in ",\n":
            expected += [current.strip()] if current.strip() else []
            current = ""
        else:
            current += letter
    assert clean_keywords(raw, dedup=False) == expected


@given(pieces)
def test_deduplication_keeps_the_first_of_each(raw: list[str]) -> None:
    every, cleaned = clean_keywords(raw, dedup=False), clean_keywords(raw)
    first = [k for i, k in enumerate(every) if k.casefold() not in {other.casefold() for other in every[:i]}]
    assert cleaned == first
    assert clean_keywords(cleaned) == cleaned


class Recorded:
    """An extractor with a fixed answer, as a language model might give it."""

    identity = ModelIdentity("recorded", "1")

    def extract(self, text: str) -> list[str]:
        return ["dog, Cat\ndog", f" {text}"]


def test_raw_and_cleaned_keywords_are_both_kept() -> None:
    raw = ("dog, Cat\ndog", " tree")
    assert extract_keywords("tree", Recorded()) == Keywords(raw, ("dog", "Cat", "tree"))
    assert clean_keywords(raw, dedup=False) == ["dog", "Cat", "dog", "tree"]
