"""Reading and splitting the training data, and the pairs made from it."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from lab.verifier.data import (
    CHOICE,
    TEST,
    TRAIN,
    Pair,
    Statement,
    contrasts,
    labelled,
    plain,
    realsumm,
    snli,
    split_of,
)
from lab.verifier.generated import altered, lengthened, scenes, unrelated
from lab.verifier.mixture import Shares, Sources, epoch, nearest_sentence, sentence_pairs

PARTS = (TRAIN, CHOICE, TEST)


def test_no_article_is_on_two_sides(shared_data: Path) -> None:
    articles = {part: {each.article for each in found} for part, found in realsumm(shared_data).items()}
    assert sorted(articles) == sorted(PARTS)
    assert sum(map(len, articles.values())) == len(set().union(*articles.values())) == 58
    assert len(articles[TEST]) >= 12


def test_no_snli_premise_is_on_two_sides(shared_data: Path) -> None:
    pairs = snli(shared_data)
    premises = {part: {plain(pair.premise) for pair in found} for part, found in pairs.items()}
    assert sum(map(len, premises.values())) == len(set().union(*premises.values()))
    assert sum(map(len, pairs.values())) == 9842 + 4912
    assert len(pairs[TEST]) == pytest.approx(1475, rel=0.1)
    held_out = pairs[TEST] + pairs[CHOICE]
    assert not {plain(pair.premise) for pair in contrasts(shared_data, held_out)} & (premises[TEST] | premises[CHOICE])


def test_contrasts_leave_out_held_out_premises(shared_data: Path) -> None:
    everything = contrasts(shared_data, [])
    first = everything[0]
    fewer = contrasts(shared_data, [Pair(first.premise.upper(), "Something else.", 0.0)])
    assert fewer == [pair for pair in everything if pair.premise != first.premise]


def test_a_split_depends_on_the_key_alone() -> None:
    keys = [str(number) for number in range(4000)]
    parts = [split_of("x", key, test=0.2, choice=0.1) for key in keys]
    assert parts == [split_of("x", key, test=0.2, choice=0.1) for key in keys]
    assert parts.count(TEST) == pytest.approx(800, abs=120)
    assert parts.count(CHOICE) == pytest.approx(400, abs=100)


def test_an_unknown_label_and_a_missing_file_are_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'maybe' of the hypothesis 'A dog sits'"):
        labelled("A dog.", "A dog sits", "maybe")
    with pytest.raises(FileNotFoundError, match=r"s1\.dev is missing"):
        snli(tmp_path)


def test_altered_pairs_by_hand() -> None:
    pairs = altered("Two dogs near a red car are running .", Random(1))
    found = {(pair.premise, pair.hypothesis): pair for pair in pairs}
    premise = "Two dogs near a red car are running ."
    assert found[premise, "Two dogs near a car are running ."].label == "entailment"
    assert found["Two dogs near a car are running .", premise].entailed == 0
    assert found[premise, "Two dogs near a red car are not running ."].label == "contradiction"
    recoloured = [
        text for _, text in found if "Two dogs near a" in text and " red " not in text and "a car" not in text
    ]
    assert [found[premise, text].label for text in recoloured] == ["contradiction"]
    recounted = [text for _, text in found if "dogs near a red car are running" in text and not text.startswith("Two")]
    assert [found[premise, text].label for text in recounted] == ["contradiction"]


def test_longer_premises_hold_the_old_one_and_keep_the_truth() -> None:
    pairs = [labelled(f"Premise {number}.", f"Text {number}.", "entailment") for number in range(9)]
    for old, new in zip(pairs, lengthened(pairs, Random(2)), strict=True):
        assert old.premise in new.premise
        assert len(new.premise) > len(old.premise)
        assert (new.hypothesis, new.entailed) == (old.hypothesis, 1.0)


def test_unrelated_pairs_have_another_premise() -> None:
    pairs = [labelled(f"Premise {number}.", f"Text {number}.", "entailment") for number in range(9)]
    mixed = unrelated(pairs, Random(3))
    assert mixed
    assert all(pair.premise[8:] != pair.hypothesis[5:] and pair.entailed == 0 for pair in mixed)


def test_scenes_hold_every_answer() -> None:
    pairs = scenes(90, Random(4))
    assert len(pairs) == 90
    assert [sum(pair.label == label for pair in pairs) for label in ("entailment", "contradiction", None)] == [30] * 3


def test_a_statement_meets_the_nearest_sentence_and_the_mean_of_its_votes() -> None:
    near, far = "Rose came second at the Masters.", "The weather was fine."
    statements = [
        Statement("a", "one", (far, near), "Rose was second.", True, 1.0),
        Statement("a", "two", (near,), "Rose was second.", False, 0.5),
        Statement("a", "three", (), "Rose was second.", False, 0.0),
    ]
    assert nearest_sentence(statements[0]) == near
    assert sentence_pairs(statements) == [Pair(near, "Rose was second.", 0.75)]


def test_an_epoch_holds_all_of_snli_and_the_shares_of_the_rest() -> None:
    pairs = [labelled(f"Two men and {number} dogs.", f"Text {number}.", "neutral") for number in range(30)]
    news = [Pair(f"News {number}.", "Text.", 0.5) for number in range(30)]
    sources = Sources(pairs, [], news, news[:2])
    shares = Shares(5, altered_premises=0, lengthened=4, unrelated=0, scenes=6, news_sentences=7, news_summaries=5)
    drawn = epoch(sources, shares, Random(5))
    assert set(pairs) <= set(drawn)
    assert len(drawn) == 30 + 4 + 6 + 7 + 2
    assert drawn == epoch(sources, shares, Random(5)) != epoch(sources, shares, Random(6))
