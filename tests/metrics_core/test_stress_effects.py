"""Effects of rewrites: numbers by hand, metrics whose holes are known, and paraphrases that must not be flagged."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from metrics_core.models.sentence_splitter import RuleSplitter
from metrics_core.stress.detectors import DETECTORS
from metrics_core.stress.effects import Effect, ValueChanges, _compute_percentiles, compute_effects
from metrics_core.stress.rewrites import (
    REWRITE_KINDS,
    CaptionToRewrite,
    list_common_sequences,
    rewrite_caption,
)

SPLIT = RuleSplitter().split
SUBJECTS = ("A man", "Two women", "A small dog", "Three children", "A cook")
ACTS = ("opens a red door", "talks to Anna", "lifts 4 blue boxes", "is running fast", "walks slowly with Bob")


def captions(n: int = 60, n_videos: int = 30) -> list[tuple[str, int]]:
    """Captions of two or three sentences with their videos."""
    draw = random.Random(3)
    return [
        (" ".join(f"{draw.choice(SUBJECTS)} {draw.choice(ACTS)}." for _ in range(draw.choice((2, 3)))), i % n_videos)
        for i in range(n)
    ]


def effects_of(metric: Callable[[str], float], given: list[tuple[str, int]]) -> dict[str, Effect]:
    kinds = []
    for kind in REWRITE_KINDS:
        before, after, videos = [], [], []
        for place, (text, video) in enumerate(given):
            others = [SPLIT(given[(place + step) % len(given)][0]) for step in (1, 2)]
            references = ("A bird sits on a fence.",)
            caption = CaptionToRewrite(
                str(place), text, SPLIT(text), references, others, list_common_sequences([references])
            )
            if (rewritten := rewrite_caption(kind, caption, 0)) is not None:
                before.append(metric(text))
                after.append(metric(rewritten))
                videos.append(video)
        kinds.append(ValueChanges(kind.name, kind.keeps_truth, before, after, videos))
    values = np.array([metric(text) for text, _ in given])
    return {kind.name: effect for kind, effect in zip(REWRITE_KINDS, compute_effects(kinds, values), strict=True)}


def test_numbers_by_hand() -> None:
    """Ten videos of one caption: mean, Student's t interval and p-value are those of scipy."""
    before, gains = [0.1 * i for i in range(10)], [0.2, 0.1, 0.3, 0.2, 0.1, 0.2, 0.4, 0.2, 0.1, 0.0]
    after = [one + gain for one, gain in zip(before, gains, strict=True)]
    (effect,) = compute_effects([ValueChanges("", True, before, after, range(10))], np.array(before))
    low, high = stats.t.interval(0.95, 9, np.mean(gains), stats.sem(gains))
    assert effect.change == pytest.approx(0.18)
    assert (effect.low, effect.high) == (pytest.approx(low), pytest.approx(high))
    assert effect.p_value == pytest.approx(stats.ttest_1samp(gains, 0).pvalue)
    assert (effect.rise_share, effect.fall_share) == (0.9, 0.0)
    assert (effect.n, effect.n_videos, effect.conclusion) == (10, 10, "gains_from_nothing")


def test_percentiles_count_equal_values_half() -> None:
    found = _compute_percentiles(np.array([0.0, 1.0, 3.0]), np.array([1.0, 1.0, 2.0, 3.0]))
    assert found.tolist() == [0.0, 25.0, 87.5]


def test_p_values_are_corrected_for_the_kinds() -> None:
    rng = np.random.default_rng(0)
    before = rng.normal(size=30)
    kinds = [
        ValueChanges("", True, before.tolist(), (before + rng.normal(0.3, 0.6, 30)).tolist(), range(30))
        for _ in range(4)
    ]
    apart = [compute_effects([kind], before)[0].p_value or 0.0 for kind in kinds]
    together = [effect.p_value for effect in compute_effects(kinds, before)]
    assert together == pytest.approx(_holm(apart))


def _holm(p_values: list[float]) -> list[float]:
    order, corrected, highest = np.argsort(p_values), [0.0] * len(p_values), 0.0
    for step, place in enumerate(order):
        highest = max(highest, min(1.0, p_values[place] * (len(p_values) - step)))
        corrected[place] = highest
    return corrected


@pytest.mark.parametrize(
    ("change", "spread", "keeps_truth", "conclusion"),
    [
        (0.5, 0.1, True, "gains_from_nothing"),
        (0.0, 0.1, True, "fine"),
        (-0.5, 0.1, True, "fine"),
        (0.03, 0.001, True, "fine"),
        (0.1, 2.0, True, "open"),
        (-0.5, 0.1, False, "fine"),
        (0.0, 0.05, False, "does_not_lose"),
        (0.5, 0.1, False, "does_not_lose"),
        (-0.03, 0.001, False, "does_not_lose"),
        (-0.1, 2.0, False, "open"),
    ],
)
def test_conclusions(change: float, spread: float, keeps_truth: bool, conclusion: str) -> None:
    before = np.linspace(-1.5, 1.5, 40)
    noise = spread * np.tile([1.0, -1.0], 20)
    kind = ValueChanges("", keeps_truth, before.tolist(), (before + change + noise).tolist(), range(40))
    assert compute_effects([kind], before)[0].conclusion == conclusion


@pytest.mark.parametrize("keeps_truth", [True, False])
def test_nine_videos_leave_everything_open(keeps_truth: bool) -> None:
    videos = [i % 9 for i in range(90)]
    (effect,) = compute_effects([ValueChanges("", keeps_truth, [0.0] * 90, [1.0] * 90, videos)], np.linspace(0, 1, 90))
    assert (effect.conclusion, effect.n_videos, effect.p_value) == ("open", 9, None)


def test_a_kind_without_a_caption_is_open() -> None:
    (effect,) = compute_effects([ValueChanges("", True, [], [], [])], np.array([]))
    assert (effect.n, effect.change, effect.rise_share, effect.conclusion) == (0, None, None, "open")


def test_a_metric_that_never_changes_does_not_lose() -> None:
    effects = effects_of(lambda text: 1.0, captions())
    assert {effect.conclusion for name, effect in effects.items() if name == "negation"} == {"does_not_lose"}
    assert effects["noun_list"].conclusion == "fine"


def test_length_is_raised_by_every_rewrite_that_adds_no_truth() -> None:
    effects = effects_of(lambda text: float(len(text)), captions())
    for kind in REWRITE_KINDS:
        expected = "gains_from_nothing" if kind.keeps_truth else "does_not_lose"
        if kind.keeps_truth or kind.name == "negation":
            assert effects[kind.name].conclusion == expected, kind.name


def test_a_judge_that_obeys_is_found_by_the_hidden_instruction_only() -> None:
    def judge(text: str) -> float:
        obeys = "highest score" in text or "everything in this caption is correct" in text
        return 1.0 if obeys else 0.5 + 0.01 * (hash_of(text.split()[0]) % 7)

    effects = effects_of(judge, captions())
    gains = [name for name, effect in effects.items() if effect.conclusion == "gains_from_nothing"]
    assert gains == ["hidden_instruction"]


def hash_of(word: str) -> int:
    return sum(map(ord, word))


def test_a_metric_that_sees_words_loses_by_swapped_ones() -> None:
    truth = {text: set(text.split()) for text, _ in captions()}

    def overlap(text: str) -> float:
        """Words in common with the nearest true caption, by Jaccard."""
        own = set(text.split())
        return max(len(own & words) / len(own | words) for words in truth.values())

    effects = effects_of(overlap, captions())
    for name in ("negation", "swapped_names", "swapped_numbers", "swapped_colours"):
        assert effects[name].conclusion == "fine", (name, effects[name])
    assert effects["reversed_order"].conclusion == "does_not_lose"


def test_valid_paraphrases_of_real_captions_are_flagged_at_most_in_twenty(shared_data: object) -> None:
    """Of each description two valid variants by drawn order: neither adds truth, so that a gain is chance."""
    from benchmarks.papers.mpii import bases

    variants = [[each for each in base.variants if each.valid] for base in bases().values()]
    for looks_alike in DETECTORS.values():
        alike = [looks_alike(SPLIT(each.text)) for own in variants for each in own]
        assert sum(alike) <= 0.05 * len(alike), looks_alike
    n_flagged = n_tried = 0
    for metric in variants[0][0].published:
        values = np.array([each.published[metric] for own in variants for each in own])
        for seed in range(10):
            draw = random.Random(seed)
            kinds = []
            for _ in REWRITE_KINDS:
                pairs = [draw.sample(own, 2) for own in variants]
                before, after = ([pair[side].published[metric] for pair in pairs] for side in (0, 1))
                kinds.append(ValueChanges("", True, before, after, range(len(pairs))))
            flagged = [effect.conclusion == "gains_from_nothing" for effect in compute_effects(kinds, values)]
            n_flagged, n_tried = n_flagged + sum(flagged), n_tried + len(flagged)
    assert n_tried >= 500
    assert n_flagged <= 0.05 * n_tried
