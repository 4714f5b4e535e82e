"""Rewrites of captions: cases by hand, what every rewrite keeps or changes, and signs of captions that look alike."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrics_core.facts.texts import has_stock_phrase, list_words
from metrics_core.models.sentence_splitter import RuleSplitter
from metrics_core.stress.detectors import DETECTORS
from metrics_core.stress.rewrites import (
    REWRITE_KINDS,
    CaptionToRewrite,
    list_common_sequences,
    list_nouns,
    rewrite_caption,
)
from metrics_core.stress.tables import COLOURS, GENERIC_SENTENCES, NAMES, NUMBER_WORDS, STOCK_OPENINGS

KINDS = {kind.name: kind for kind in REWRITE_KINDS}
SPLIT = RuleSplitter().split
STORY = "A man in a red coat opens a door. Two dogs are running to Anna."


def caption(text: str, references: tuple[str, ...] = (), others: tuple[str, ...] = ()) -> CaptionToRewrite:
    return CaptionToRewrite(
        "c1", text, SPLIT(text), references, [SPLIT(other) for other in others], list_common_sequences([references])
    )


def rewrite(
    name: str, text: str, seed: int = 0, references: tuple[str, ...] = (), others: tuple[str, ...] = ()
) -> str | None:
    return rewrite_caption(KINDS[name], caption(text, references, others), seed)


def test_kinds_have_names_and_labels_of_their_own() -> None:
    assert len(KINDS) == len(REWRITE_KINDS) == len({kind.label for kind in REWRITE_KINDS})
    assert [kind.keeps_truth for kind in REWRITE_KINDS] == [True] * 13 + [False] * 6
    assert set(DETECTORS) <= {kind.name for kind in REWRITE_KINDS if kind.keeps_truth}


def test_sentences_come_twice() -> None:
    assert rewrite("doubled_sentences", "A dog runs. It barks") == "A dog runs. A dog runs. It barks. It barks."


def test_sentences_are_restated() -> None:
    assert rewrite("restated_sentences", "A dog runs. Anna waves") == (
        "A dog runs. In other words, a dog runs. Anna waves. In other words, Anna waves."
    )


def test_captions_of_two_other_videos_are_added() -> None:
    others = ("Rain falls. It is cold", "A bell rings.")
    assert rewrite("other_captions", "A dog runs", others=others) == (
        "A dog runs. Rain falls. It is cold. A bell rings."
    )
    assert rewrite("other_captions", "A dog runs", others=others[:1]) is None


def test_nouns_of_references_are_doubted_denied_and_asked_for() -> None:
    forms = {
        "doubted_words": "Perhaps {} can be seen.",
        "denied_words": "No {} can be seen.",
        "asked_words": "Can {} be seen?",
    }
    for name, form in forms.items():
        added = f"{form.format('dog')} {form.format('park')}"
        assert rewrite(name, "A man walks", references=("A man walks a dog in the park.",)) == f"A man walks. {added}"
        assert rewrite(name, "A man walks a dog.", references=("A dog and a man.",)) is None


def test_the_commonest_sequences_are_those_of_the_most_videos() -> None:
    references = [["A man is here. A man is", "a man is late"], ["There a man is."], ["A bus, a man is", "No."], []]
    found = list_common_sequences(references)
    assert found[0] == "a man is"
    assert found[1:] == ["a bus a", "bus a man", "here a man", "is here a", "man is here"]
    assert list_common_sequences([["Two words"]]) == []
    assert rewrite("common_sequences", "Rain", references=("A man is here",)) == "Rain. A man is, man is here."
    assert rewrite("common_sequences", "Rain", references=("Two words",)) is None


def test_nouns_are_listed_behind() -> None:
    assert list_nouns(STORY) == ["man", "coat", "door", "dogs", "Anna"]
    assert rewrite("noun_list", STORY) == f"{STORY} Man, coat, door, dogs, Anna."
    assert list_nouns("Her mother weighs her words. The clip shows 3 boxes on the wall.") == [
        "mother",
        "words",
        "boxes",
        "wall",
    ]
    assert rewrite("noun_list", "They run.") is None


def test_only_nouns_that_the_caption_lacks_come_from_references() -> None:
    references = ("A man walks a dog in the park.", "A bench is in the park.")
    assert rewrite("reference_words", "A man walks", references=references) == "A man walks. Dog, park, bench."
    assert rewrite("reference_words", "A man walks a dog.", references=("A dog and a man.",)) is None


def test_synonyms_are_longer_and_fit_their_article() -> None:
    assert rewrite("longer_synonyms", "A man sees a dog.") == "An adult male person sees a domestic canine."
    assert rewrite("longer_synonyms", "Rain falls.") is None


def test_openings_and_generic_sentences_are_stock_phrases() -> None:
    assert all(map(has_stock_phrase, GENERIC_SENTENCES))
    assert all(has_stock_phrase(f"{opening}A dog runs.") for opening in STOCK_OPENINGS)


@pytest.mark.parametrize(
    ("text", "negated"),
    [
        ("A dog is running.", "A dog is not running."),
        ("The dogs have been fed", "The dogs have not been fed."),
        ("Two men talk. Anna waves.", "It is not true that two men talk. It is not true that Anna waves."),
        ("Nobody talks. It is late.", "Nobody talks. It is not late."),
        ("It does not rain.", None),
        ("The dog isn't there.", None),
        ("", None),
    ],
)
def test_negation(text: str, negated: str | None) -> None:
    assert rewrite("negation", text) == negated


def test_colours_numbers_and_names_are_replaced_by_others() -> None:
    coloured = rewrite("swapped_colours", "A red car and a Red bus, gray as a bored cat.") or ""
    match = re.fullmatch(r"A (\w+) car and a (\w+) bus, (\w+) as a bored cat\.", coloured)
    assert match
    assert match[1] in COLOURS
    assert match[1] != "red" != match[3]
    assert match[2] == match[1].capitalize()
    counted = re.fullmatch(
        r"(\w+) cars, (\d+) buses, one bike\.", rewrite("swapped_numbers", "Two cars, 7 buses, one bike.") or ""
    )
    assert counted
    assert counted[1].lower() in NUMBER_WORDS
    assert counted[1] != "Two"
    assert counted[2] != "7"
    named = re.fullmatch(
        r"The man greets (\w+)\. (\w+) thanks (\w+)'s dog\.",
        rewrite("swapped_names", "The man greets Ann. Ann thanks Bob's dog.") or "",
    )
    assert named
    assert named[1] == named[2] != named[3]
    assert {named[1], named[3]} <= set(NAMES)


@pytest.mark.parametrize(
    "name", ["swapped_colours", "swapped_numbers", "swapped_names", "reversed_order", "other_sentence"]
)
def test_rewrites_without_anything_to_change_do_not_apply(name: str) -> None:
    assert rewrite(name, "The dog runs.") is None


def test_sentences_are_reversed() -> None:
    assert rewrite("reversed_order", "A. dog runs. It barks. It sleeps") == "It sleeps. It barks. A. dog runs."
    assert rewrite("reversed_order", "It barks. It barks") is None


def test_one_sentence_is_of_another_video() -> None:
    outcomes = {rewrite("other_sentence", "A dog runs. It barks.", seed, others=("Rain falls.",)) for seed in range(20)}
    assert outcomes == {"Rain falls. It barks.", "A dog runs. Rain falls."}
    assert rewrite("other_sentence", "Rain falls.", others=("Rain falls.",)) is None


words = st.sampled_from(
    ["a", "red", "two", "man", "dog", "Anna", "is", "runs", "not", "7", "big", "the", "é", "犬", "-"]
)
texts = st.lists(st.lists(words, max_size=7).map(" ".join), max_size=4).map(". ".join) | st.text(max_size=60)


@given(texts, st.integers(0, 50))
def test_what_is_kept_and_what_changes(text: str, seed: int) -> None:
    given_caption = caption(text, ("A woman eats a cake.",), ("Snow falls on a barn. Cows sleep.", "Rain falls."))
    for each in REWRITE_KINDS:
        rewritten = rewrite_caption(each, given_caption, seed)
        assert rewritten == rewrite_caption(each, given_caption, seed)
        if rewritten is None:
            continue
        assert list_words(rewritten) != list_words(text)
        if each.name == "longer_synonyms":
            assert len(rewritten) > len(text)
        elif each.keeps_truth:
            assert text.rstrip() in rewritten or all(sentence in rewritten for sentence in given_caption.sentences)
            assert len(list_words(rewritten)) > len(list_words(text))


def test_rewrites_are_recognised_and_plain_captions_are_not() -> None:
    for name, looks_alike in DETECTORS.items():
        assert not looks_alike(SPLIT(STORY)), name
        for seed in range(6):
            rewritten = rewrite(name, STORY, seed)
            assert rewritten
            assert looks_alike(SPLIT(rewritten)), rewritten
        assert not looks_alike([])
