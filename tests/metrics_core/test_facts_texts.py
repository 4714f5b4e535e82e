"""Facts about texts, against counts by hand."""

from __future__ import annotations

import json
import re
import unicodedata
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrics_core.facts.languages import detect_languages
from metrics_core.facts.texts import TextFacts, compute_repeated_share, compute_text_facts, has_stock_phrase, list_words
from metrics_core.models.sentence_splitter import RuleSplitter


def facts(text: str) -> TextFacts:
    (measured,) = compute_text_facts([text], RuleSplitter().split, detect_languages)
    return measured


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
    assert len(list_words(text)) == n


def test_repetition_is_the_share_of_sequences_that_stood_before() -> None:
    assert compute_repeated_share(["a", "b"]) is None
    assert compute_repeated_share(["a", "b", "c", "d", "e", "f"]) == 0
    # Of 10 sequences of three among 12 words, 3 differ.
    assert compute_repeated_share(("a b c " * 4).split()) == pytest.approx(0.7)
    assert compute_repeated_share(["A", "b", "C", "a", "B", "c"]) == pytest.approx(0.25)


# Openings and closings as captioners of video language models write them.
STOCK = (
    "The video shows a man.",
    "The short video clip then shows a man.",
    "In this clip, a dog runs.",
    "This short video begins with a door.",
    "Throughout the footage she sings.",
    "This is a video of a man who cooks.",
    "It is a short clip showing a dog.",
    "Here we have a video of two boys.",
    "A video of a man cooking.",
    "Footage of a girl skiing down a slope.",
    "A short clip shows a kitchen.",
    "We see a man on a horse.",
    "Here, we can see a man on a horse.",
    "As you can see, the pan is hot.",
    "He falls, and then, we see him laugh.",
    "The viewer is introduced to a small village.",
    "We get a close view of the engine.",
    "The camera pans to a woman.",
    "The camera then zooms in on her hands.",
    "The camera focuses on the dish.",
    "The clip is a close-up of a hand.",
    "The video is likely a tutorial.",
    "The scene is set in a kitchen.",
    "The scene takes place on a beach.",
    "The footage captures a quiet street.",
    "The video then transitions to a garden.",
    "Based on the frames, two men talk.",
    "Sure, here is what happens.",
    "Here’s a detailed description.",
    "I'm sorry, the picture is too dark.",
    "As the video progresses, he grows tired.",
    "Overall, it is calm.",
    "In summary, a cake is baked.",
    "All in all, they had fun.",
    "It is worth noting that the door stays shut.",
    "The overall mood is calm.",
    "The atmosphere is festive.",
    "A lamp glows, creating a warm atmosphere.",
    "Soft music plays, conveying a sense of calm.",
    "The crowd cheers, adding to the lively atmosphere.",
    "The bridge is a testament to old skills.",
    "It fades out, leaving the viewer with a smile.",
)
CONTENT = (
    "A man shows a video to a girl.",
    "Clips hold the paper.",
    "The picture hangs on a wall.",
    "A coverall, blue.",
    "The video game shows a dragon.",
    "He plays the video game with a friend.",
    "In the video game store a boy waits.",
    "A boy talks about the video games he owns.",
    "During the video call she laughs.",
    "In the picture frame is a dried flower.",
    "The video camera is on a tripod.",
    "The hair clip is a red one.",
    "The paper clip opens.",
    "The clip is removed from her hair.",
    "The clip is red.",
    "A woman turns to the camera.",
    "He puts the camera on the table.",
    "The camera pans to the left.",
    "The camera does not move.",
    "A boy can see the sea from here.",
    "They watch what we see in a mirror.",
    "A dog waits so that people can see it.",
    "This is a small kitchen.",
    "Here is a red door.",
    "The frame of the bike is bent.",
    "At the right half of the picture a man stands.",
    "She opens the scene book on the table.",
    "He wears overalls, and a hat.",
    "A dancer creates a wide circle.",
    "The tone of the trumpet rises.",
    "He makes sure, then leaves.",
    "A witness gives a speech at the general assembly.",
)


@pytest.mark.parametrize("sentence", STOCK)
def test_stock_phrases(sentence: str) -> None:
    assert facts(sentence).boilerplate == 1
    assert facts(f"{sentence} A man cuts wood.").boilerplate == 0.5


@pytest.mark.parametrize("sentence", CONTENT)
def test_words_of_stock_phrases_alone_are_none(sentence: str) -> None:
    assert facts(sentence).boilerplate == 0


@pytest.mark.slow
def test_few_sentences_of_people_have_a_stock_phrase(shared_data: Path) -> None:
    """Those in VATEX describe a clip in a sentence, and few of them speak of the video or camera."""
    lines = (shared_data / "vatex_eval" / "vatex_eval.jsonl").read_text().splitlines()
    texts = [text for line in lines[::5] for text in texts_in(json.loads(line))]
    assert len(texts) > 2500
    assert 0 < sum(map(has_stock_phrase, texts)) / len(texts) < 0.01


def texts_in(row: Any) -> list[str]:
    if isinstance(row, str):
        return [row] if row.count(" ") > 2 else []
    parts = row.values() if isinstance(row, dict) else row if isinstance(row, list) else ()
    return [text for part in parts for text in texts_in(part)]


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
    assert detect_languages([text]) == [code]


def classify(text: str) -> str | None:
    """The language by the library itself, one text at a time."""
    code, probability = library().classify(text)
    return str(code) if probability >= 0.5 and code != "zxx" else None


@lru_cache
def library() -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


@given(st.lists(st.text(max_size=80) | st.text("aeinrst de", max_size=30), max_size=8))
def test_languages_of_a_batch_are_those_of_the_library(texts: list[str]) -> None:
    assert detect_languages(texts) == [classify(text) for text in texts]


def test_languages_of_real_captions_whole_cut_and_in_capitals_are_those_of_the_library(shared_data: Path) -> None:
    lines = (shared_data / "vatex_eval" / "vatex_eval.jsonl").read_text().splitlines()
    whole = [text for line in lines[::60] for text in texts_in(json.loads(line))]
    texts = ["", *whole, *(text[:9] for text in whole), *(text.upper() for text in whole[:50]), " ".join(whole)]
    detected = detect_languages(texts)
    assert detected == [classify(text) for text in texts]
    assert {None, "en"} <= set(detected)


@given(st.text(max_size=60))
def test_a_word_of_letters_ends_where_a_word_of_its_own_begins(text: str) -> None:
    alone = "[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]"
    letters = rf"(?:(?!{alone})[^\W_])+"
    composed = unicodedata.normalize("NFC", text)
    bare = "".join(character for character in composed if not unicodedata.category(character).startswith("M"))
    assert list_words(text) == re.findall(rf"{alone}|{letters}(?:['’.-]{letters})*", bare)


@given(st.text(max_size=80))
def test_every_text_has_facts_in_range(text: str) -> None:
    found = facts(text)
    assert found.words >= 0
    for share in (found.repetition, found.boilerplate, found.digit_share, found.name_share):
        assert share is None or 0 <= share <= 1
