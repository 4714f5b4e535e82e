"""Facts about texts, against counts by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrics_core.facts.languages import language_of
from metrics_core.facts.texts import TextFacts, repeated_share, text_facts, words_in
from metrics_core.models.sentence_splitter import RuleSplitter


def facts(text: str) -> TextFacts:
    return text_facts(text, RuleSplitter().split, language_of)


def test_a_plain_caption() -> None:
    found = facts("Maria and Dr. Lee flip 3 pancakes in Paris. They laugh.")
    assert (found.words, found.sentences, found.language) == (11, 2, "en")
    assert (found.repetition, found.boilerplate) == (0.0, 0.0)
    assert found.digit_share == pytest.approx(1 / 11)
    # Of the eight words behind the first of each sentence that are no numbers: Dr, Lee, Paris.
    assert found.name_share == pytest.approx(3 / 8)


def test_an_empty_text_has_no_shares_and_no_language() -> None:
    assert facts("") == TextFacts(0, 0, None, None, None, None, None)
    assert facts(" ... ") == TextFacts(0, 0, None, None, None, None, None)


@pytest.mark.parametrize(
    ("text", "n"),
    [
        ("", 0),
        ("one", 1),
        ("don't stop", 2),
        ("well-known T-shirt", 2),
        ("煎饼を焼く", 5),
        ("हिन्दी में", 2),
        ("snake_case", 2),
        ("cafe\u0301 noir", 2),
        ("- – —", 0),
    ],
)
def test_words_of_many_scripts(text: str, n: int) -> None:
    assert len(words_in(text)) == n


def test_repetition_is_the_share_of_sequences_that_stood_before() -> None:
    assert repeated_share(["a", "b"]) is None
    assert repeated_share(["a", "b", "c", "d", "e", "f"]) == 0
    # Of 10 sequences of three among 12 words, 3 differ.
    assert repeated_share(("a b c " * 4).split()) == pytest.approx(0.7)
    assert repeated_share(["A", "b", "C", "a", "B", "c"]) == pytest.approx(0.25)


@pytest.mark.parametrize(
    "sentence",
    [
        "The video shows a man.",
        "In this clip, a dog runs.",
        "This short video begins with a door.",
        "Overall, it is calm.",
        "A lamp glows, creating a warm atmosphere.",
        "Throughout the footage she sings.",
    ],
)
def test_stock_phrases(sentence: str) -> None:
    assert facts(sentence).boilerplate == 1
    assert facts(f"{sentence} A man cuts wood.").boilerplate == 0.5


@pytest.mark.parametrize(
    "sentence",
    ["A man shows a video to a girl.", "Clips hold the paper.", "The picture hangs on a wall.", "A coverall, blue."],
)
def test_words_of_stock_phrases_alone_are_none(sentence: str) -> None:
    assert facts(sentence).boilerplate == 0


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("A woman in a red coat walks along the beach with her dog.", "en"),
        ("Eine Frau im roten Mantel geht mit ihrem Hund am Strand entlang.", "de"),
        ("Une femme en manteau rouge marche le long de la plage avec son chien.", "fr"),
        ("一个穿红色外套的女人带着她的狗在海滩上散步。", "zh"),
        ("Женщина в красном пальто идёт по пляжу со своей собакой.", "ru"),
        ("dog", None),
    ],
)
def test_languages(text: str, code: str | None) -> None:
    assert language_of(text) == code


@given(st.text(max_size=80))
def test_every_text_has_facts_in_range(text: str) -> None:
    found = facts(text)
    assert found.words >= 0
    for share in (found.repetition, found.boilerplate, found.digit_share, found.name_share):
        assert share is None or 0 <= share <= 1
