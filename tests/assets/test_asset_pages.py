"""Sentences on the pages of assets, and what checks say: grammar, numbers, and remedies."""

from __future__ import annotations

from dataclasses import replace

import pytest
from markdown_it import MarkdownIt

from assets.definitions.score_checks import format_check_sentences
from assets.scores.sentences import format_mean, format_score_counts
from assets.words.labels import format_models
from db.scores.quality import MeanScore, ShardQuality, StatusCount

FINE = ShardQuality(
    n_samples=40,
    n_not_applicable=0,
    n_qa=0,
    n_unscored=0,
    n_failed=0,
    n_ok=40,
    n_distinct=9,
    n_stale=0,
    minimum=0.125,
    maximum=1.0,
)
PARTLY = replace(FINE, n_ok=30)
RANGE = (0.0, 1.0)


def test_all_samples_with_a_score_take_one_line() -> None:
    assert format_score_counts([StatusCount("caption", "ok", 40, None)]) == "All 40 captions have a score."


def test_every_status_without_a_score_has_a_line_with_its_reason() -> None:
    counts = [
        StatusCount("qa", "not_applicable", 60, "this is a question-answer pair"),
        StatusCount("caption", "ok", 30, None),
        StatusCount("caption", "too_short", 9, "texts of this shape score 0"),
        StatusCount("caption", "unscored", 1, None),
    ]
    assert format_score_counts(counts).splitlines() == [
        "30 of 40 captions have a score.",
        "",
        "- 9 captions have none, too short: texts of this shape score 0",
        "- 1 caption has none, unscored",
        "- 60 question-answer pairs have none, not applicable: this is a question-answer pair",
    ]


def test_a_shard_without_a_sample_for_the_metric_says_so() -> None:
    pairs = StatusCount("qa", "not_applicable", 1, "no caption")
    assert format_score_counts([pairs]).splitlines() == [
        "The metric applies to no sample here.",
        "",
        "- 1 question-answer pair has none, not applicable: no caption",
    ]


def test_a_reason_is_text_whatever_is_in_it() -> None:
    hostile = StatusCount("caption", "failed", 1, "<img src=x> [a](b)\n\n# title " + "x" * 500)
    tokens = MarkdownIt("commonmark").parse(format_score_counts([hostile]))
    inline = [token for token in tokens if token.type == "inline"]
    assert [child.type for token in inline for child in token.children or []] == ["text"] * len(inline)
    assert len(format_score_counts([hostile])) < 400


@pytest.mark.parametrize(
    ("mean", "said"),
    [
        (
            MeanScore("caption", 8, 4, 0.5, True, 0.1),
            "0.500 from 8 scores of 4 videos; 95 % interval 0.182 to 0.818 (cluster-robust)",
        ),
        (
            MeanScore("qa", 8, 2, -0.5, True, 0.1),
            "−0.500 from 8 scores of 2 videos; 95 % interval −1.000 to 0.771 (cluster-robust)",
        ),
        (
            MeanScore("caption", 8, 1, 0.5, True, None),
            "0.500 from 8 scores of 1 video; no interval: it takes at least 2 videos",
        ),
        (
            MeanScore("caption", 1, 1, 0.5, False, None),
            "0.500 from 1 score of 1 video; no interval: it takes at least 2 videos",
        ),
        (MeanScore("qa", 8, 4, 1.0, False, 0.0), "1.000 from 8 scores of 4 videos; no interval: all scores are equal"),
        (
            MeanScore("caption", 8, 4, 0.5, True, 1e-18),
            "0.500 from 8 scores of 4 videos; no interval: every video has the same mean",
        ),
    ],
)  # fmt: skip
def test_a_mean_has_an_interval_or_words_for_why_not(mean: MeanScore, said: str) -> None:
    assert format_mean(mean, (-1.0, 1.0)) == said


def test_models_have_names_short_revisions_and_a_caution_where_they_stand_in_for_real_ones() -> None:
    models = {
        "text_encoder": {"model_id": "org/minilm", "revision": "0123456789abcdef0123"},
        "image_text_encoder": {"model_id": "demo encoder", "revision": "sha256:fedcba9876543210"},
    }
    real, demo = format_models(models).split("; ")
    assert real == "text encoder org/minilm (revision 0123456789ab)"
    assert demo == ("image text encoder demo encoder (revision fedcba987654, a stand-in: it only works on the demo)")


# Checks


def said(quality: ShardQuality) -> dict[str, tuple[str, str]]:
    return format_check_sentences(quality, RANGE, "text or reference")


def test_what_passed_checks_say() -> None:
    assert {name: good for name, (good, _) in said(FINE).items()} == {
        "coverage": "All 40 captions have a score",
        "in_range": "All 40 scores lie between 0 and 1: the lowest is 0.125, the highest 1.000",
        "not_constant": "Scores differ",
        "inputs_fresh": "None of 40 captions was scored before its text or reference changed",
    }
    few = replace(FINE, n_samples=3, n_qa=1, n_ok=0, n_distinct=0, minimum=None, maximum=None)
    assert {name: good for name, (good, _) in said(few).items()} == {
        "coverage": "None of 3 samples has a score, and 3 cannot have one for a known reason",
        "in_range": "There is no score",
        "not_constant": "Too few scores to check: fewer than 20",
        "inputs_fresh": "None of 3 samples was scored before its text or reference changed",
    }
    pairs = replace(PARTLY, n_qa=40)
    assert said(pairs)["coverage"][0] == (
        "30 of 40 question-answer pairs have a score, and 10 cannot have one for a known reason"
    )


def test_what_failed_checks_say() -> None:
    broken = replace(FINE, n_failed=1, n_unscored=2, n_ok=37, n_stale=2, maximum=1.5)
    assert {name: bad for name, (_, bad) in said(broken).items()} == {
        "coverage": "1 of 40 captions failed and 2 of 40 captions lack a score",
        "in_range": "Scores lie outside 0 to 1 (the lowest is 0.125, the highest 1.500)",
        "not_constant": "All scores are the same: the model may be broken, or all captions equal",
        "inputs_fresh": "2 of 40 captions were scored before their text or reference changed "
        "(run `reelsieve score` to score them again)",
    }
