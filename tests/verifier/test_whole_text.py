"""Evidence of the whole text: features, weights, and verdicts by hand."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.verifier.agreement import area, judged_elsewhere
from lab.verifier.regression import (
    PARTS,
    Material,
    Settings,
    fit,
    fit_logistic,
    fit_with,
    held_out_loss,
    part_of,
)
from lab.verifier.whole_text import plain_weights
from metrics_core.ecs import choose_premises, verify_keypoints
from metrics_core.ecs.verifier import make_offline_verifier, read_default_threshold, read_pair_threshold
from metrics_core.ecs.verifier.model import make_minilm_tokenizer
from metrics_core.ecs.verifier.whole_text import (
    WHOLE_TEXT_FEATURES,
    LearnedWholeTextWeigher,
    WholeTextFeatures,
    WordLikeness,
    compute_log_odds,
)

WORDS = WordLikeness()


def told(file: Path, **evidence: float) -> LearnedWholeTextWeigher:
    """A weigher with these weights, slope 0.5 and bias -1."""
    weights = {
        "probability": 0.5,
        "bias": -1.0,
        "threshold": 0.4,
        "evidence": dict.fromkeys(WHOLE_TEXT_FEATURES, 0.0) | evidence,
    }
    file.write_text(json.dumps(weights))
    return LearnedWholeTextWeigher(file)


def test_word_pieces_are_those_of_the_network() -> None:
    tokenizer = make_minilm_tokenizer()
    for word in (*list(tokenizer.get_vocab())[::10], "naïveté", "x" * 3000, "犬が", "don't", "[SEP]", ""):
        assert (
            WORDS._tokenizer.encode(word, add_special_tokens=False).ids
            == tokenizer(word, add_special_tokens=False).input_ids
        ), word


def test_likeness_by_hand() -> None:
    assert WORDS.compute_mean_and_least("Two dogs were running.", "A dog runs.") == (1.0, 1.0)
    assert WORDS.compute_mean_and_least("A dog.", "It is there.") == (1.0, 1.0)
    assert WORDS.compute_mean_and_least("It is there.", "A dog.") == (0.0, 0.0)
    mean, least = WORDS.compute_mean_and_least("A dog and a car.", "A dog and an automobile.")
    assert mean == (1 + least) / 2
    assert least > WORDS.compute_mean_and_least("A dog and a car.", "A dog and a parliament.")[1]


def test_weights_by_hand(tmp_path: Path) -> None:
    """Two of three content words, in two sentences: log-odds 0.5 * log-odds(p) - 1 + 3 * 2/3."""
    weigher = told(tmp_path / "weights", content_recall=3.0)
    found = weigher.weigh([0.5, 0.8], ["A dog barks.", "The man waves."], "The dog and the man leave.")
    expected = [1 / (1 + math.exp(-(0.5 * compute_log_odds(p) - 1 + 2))) for p in (0.5, 0.8)]
    assert found == pytest.approx(expected)
    assert weigher.threshold == 0.4


@given(st.lists(st.floats(0, 1), min_size=2, max_size=5))
def test_a_greater_probability_never_has_a_smaller_result(probabilities: list[float]) -> None:
    ranked = sorted(probabilities)
    weigher = make_offline_verifier().whole_text
    assert weigher is not None
    found = weigher.weigh(ranked, ["A dog runs.", "A cat sleeps."], "A dog and a cat.")
    assert found == sorted(found)
    assert all(0 <= value <= 1 for value in found)


@pytest.mark.parametrize("bad", [math.nan, -0.1, 1.1])
def test_what_is_no_probability_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="it must lie in"):
        compute_log_odds(bad)


def test_a_statement_over_two_sentences_gains_and_pairs_stay() -> None:
    verifier = make_offline_verifier()
    sentences = ["A man in a red coat enters the kitchen.", "He fries two eggs."]
    keypoint = "A man fries two eggs in the kitchen."
    alone = verifier.entailment([(sentence, keypoint) for sentence in sentences]).probabilities
    plans = choose_premises([keypoint], sentences)
    verdict = verify_keypoints(plans, verifier, [read_default_threshold()]).verdicts[0]
    assert verdict.sentence == int(alone.argmax())
    assert verdict.covered
    assert verdict.probability != alone.max()
    # One sentence is retrieved, and the other one still counts.
    nearest = verify_keypoints(
        choose_premises([keypoint], sentences, np.array([[verdict.sentence]])), verifier
    ).verdicts[0]
    assert nearest.probability == pytest.approx(verdict.probability, abs=1e-6)


def test_contradictions_stay_apart_where_words_agree() -> None:
    verifier = make_offline_verifier()
    texts = ["A red car stops at the light. A boy waves.", "A blue car stops at the light. A boy waves."]
    sentences = [[f"{part}." for part in text.rstrip(".").split(". ")] for text in texts]
    plans = [choose_premises(["The car is blue."], each)[0] for each in sentences]
    wrong, right = verify_keypoints(plans, verifier, [read_default_threshold()] * 2).verdicts
    assert (wrong.covered, right.covered) == (False, True)


def test_evidence_has_its_names_and_lies_between_0_and_1() -> None:
    rows = WholeTextFeatures().compute_matrix([("A red car.", "Two blue cars."), ("", "A dog."), ("A dog.", "!")])
    assert rows.shape == (3, len(WHOLE_TEXT_FEATURES))
    assert ((rows >= 0) & (rows <= 1)).all()
    assert rows[0][WHOLE_TEXT_FEATURES.index("colour_conflict")] == 1.0


def test_thresholds_are_the_records() -> None:
    assert 0 < read_default_threshold() < 1
    assert 0 < read_pair_threshold() < 1


def test_logistic_regression_finds_the_optimum() -> None:
    """At the optimum the penalised likelihood has no slope, in the standardised features that the penalty is about."""
    rng = np.random.default_rng(3)
    features, shares, weights = rng.normal(2, 3, (80, 3)), rng.random(80), rng.random(80) + 0.1
    fitted = fit_logistic(features, shares, weights, penalty=2.0)
    spread = features.std(axis=0)
    residual = weights * (shares - 1 / (1 + np.exp(-fitted.log_odds(features))))
    slope = ((features - features.mean(axis=0)) / spread).T @ residual - 2.0 * fitted.weights * spread
    assert np.abs(slope).max() < 1e-9
    assert abs(residual.sum()) < 1e-9


def material(seed: int, n: int = 60) -> Material:
    """Statements of six articles, of which network and words tell something."""
    rng = np.random.default_rng(seed)
    present = rng.random(n) < 0.5
    evidence = rng.random((n, len(WHOLE_TEXT_FEATURES)))
    evidence[:, 0] = (present + rng.random(n)) / 2
    articles = np.array([f"a{i % 6:02d}" for i in range(n)])
    return Material(evidence, rng.normal(0, 2, n) + present, present.astype(float), present, articles)


def test_nothing_that_decides_about_an_article_has_seen_its_votes() -> None:
    """Settings, regression and threshold: with the votes of an article turned round, it is judged as before."""
    news, pairs = material(1), material(2)
    turned = news.groups == "a03"
    present = np.where(turned, ~news.present, news.present)
    other = replace(news, shares=present.astype(float), present=present)
    (values, covered), chosen = judged_elsewhere(news, pairs)
    (again, covered_again), _ = judged_elsewhere(other, pairs)
    assert (values[turned] == again[turned]).all()
    assert (covered[turned] == covered_again[turned]).all()
    assert (values[~turned] != again[~turned]).all()
    assert len(chosen) == 6


def test_a_loss_is_of_articles_that_the_fit_has_not_seen() -> None:
    """A feature that tells the articles apart, whose votes are all alike, explains those of its own article only."""
    rng = np.random.default_rng(4)
    groups = np.repeat([f"a{i}" for i in range(10)], 20)
    present = np.repeat(rng.permutation([True, False] * 5), 20)
    evidence = np.tile(np.repeat(rng.random((10, 1)), 20, axis=0), (1, len(WHOLE_TEXT_FEATURES)))
    news = Material(evidence, np.zeros(200), present.astype(float), present, groups)
    settings = Settings(WHOLE_TEXT_FEATURES, 1e-6, 1.0)
    seen = fit_with(settings, news, news).log_odds(news.columns(WHOLE_TEXT_FEATURES))
    inside = -np.log(1 / (1 + np.exp(-np.where(present, seen, -seen)))).mean()
    assert held_out_loss(settings, news, news) / 2 > inside


def test_the_threshold_says_yes_as_often_as_people_do() -> None:
    news = material(1)
    fitted = fit(news, material(2))
    assert (fitted.probabilities(news) >= fitted.threshold).sum() == news.present.sum()


def test_a_fit_is_repeatable_and_stored_numbers_compute_what_was_fitted() -> None:
    news, pairs = material(1), material(2)
    fitted = fit(news, pairs)
    stored = plain_weights(fitted)
    assert plain_weights(fit(news, pairs)) == stored
    odds = stored["bias"] + stored["probability"] * news.network
    odds = odds + sum(
        weight * news.evidence[:, WHOLE_TEXT_FEATURES.index(name)] for name, weight in stored["evidence"].items()
    )
    assert 1 / (1 + np.exp(-odds)) == pytest.approx(fitted.probabilities(news), abs=1e-3)


@given(st.permutations(range(4)))
def test_the_order_of_the_sentences_changes_nothing(order: list[int]) -> None:
    sentences = ["Two dogs run over the wet lawn.", "A man in red throws a ball.", "Then it rains.", "They go home."]
    weigher = make_offline_verifier().whole_text
    assert weigher is not None
    for hypothesis in ("A man throws a ball to two dogs.", "The dogs run in the rain.", "A woman paints."):
        shuffled = weigher.weigh([0.2, 0.7], [sentences[i] for i in order], hypothesis)
        assert shuffled == weigher.weigh([0.2, 0.7], sentences, hypothesis)


def test_no_article_is_in_two_parts() -> None:
    articles = np.array(["c", "a", "b", "a", "c"])
    assert part_of(articles).tolist() == [2, 0, 1, 0, 2]
    assert part_of(np.array([f"{i:03d}" for i in range(58)])).max() == PARTS - 1


def test_area_by_hand() -> None:
    assert area(np.array([0.1, 0.4, 0.35, 0.8]), [False, False, True, True]) == 0.75
