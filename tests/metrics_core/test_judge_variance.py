"""The parts of a judge's variance against the analysis of variance by hand, other ways to write it, and simulations."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrics_core.judge import JudgeVariance, compute_judge_variance

Design = list[tuple[str, str, str]]
"""Text, video and system of every answer."""


def compute(values: Any, design: Design) -> JudgeVariance:
    texts, videos, systems = zip(*design, strict=True)
    found = compute_judge_variance(values, texts, videos, systems)
    assert found is not None
    return found


def crossed(n_systems: int, n_videos: int, n_answers: int, n_texts: int = 1) -> Design:
    """Every system writes `n_texts` texts about every video, and every one is answered `n_answers` times."""
    cells = itertools.product(range(n_systems), range(n_videos), range(n_texts), range(n_answers))
    return [(f"{system} {video} {text}", f"v{video}", f"s{system}") for system, video, text, _ in cells]


def test_four_texts_by_hand() -> None:
    """Two systems on two videos, two answers about each text. Means of the texts are 80, 60 and 50, 40; of the systems
    70, 45; of the videos 65, 50; of all 57.5.
    """
    values = [78, 82, 61, 59, 53, 47, 40, 40]
    found = compute(values, crossed(2, 2, 2))
    within = (4 + 4 + 1 + 1 + 9 + 9) / 4
    system = 4 * (12.5**2 + 12.5**2)
    video = 4 * (7.5**2 + 7.5**2)
    # 80 - 70 - 65 + 57.5 = 2.5, and the same for the others but for the sign.
    both = 2 * 4 * 2.5**2
    assert found.variances == pytest.approx(
        {
            "system": (system - both) / 4,
            "video": (video - both) / 4,
            "text": (both - within) / 2,
            "answer": within,
        }
    )
    assert list(found.variances) == ["system", "video", "text", "answer"]
    assert found.mean_difference == pytest.approx((4 + 2 + 6 + 0) / 4)
    assert found.deviation == pytest.approx(math.sqrt(7))
    assert found.shares is not None
    assert sum(found.shares.values()) == pytest.approx(1)
    assert (found.n_answers, found.n_texts) == (8, 4)


def test_equal_numbers_are_the_analysis_of_variance() -> None:
    """Systems and videos crossed, two texts a cell, three answers a text: mean squares by loops."""
    a, b, t, k = 3, 5, 2, 3
    rng = np.random.default_rng(3)
    cube = rng.normal(size=(a, 1, 1, 1)) + rng.normal(size=(1, b, 1, 1)) + rng.normal(size=(a, b, t, 1))
    cube = cube + rng.normal(size=(a, b, t, k))
    found = compute(cube.reshape(-1), crossed(a, b, k, t))
    mean, texts = cube.mean(), cube.mean(axis=3)
    systems, videos = cube.mean(axis=(1, 2, 3)), cube.mean(axis=(0, 2, 3))
    within = ((cube - texts[..., None]) ** 2).sum() / (a * b * t * (k - 1))
    of_system = b * t * k * ((systems - mean) ** 2).sum()
    of_video = a * t * k * ((videos - mean) ** 2).sum()
    of_text = k * ((texts - mean) ** 2).sum() - of_system - of_video
    residual = of_text / (a * b * t - a - b + 1)
    assert found.variances == pytest.approx(
        {
            "system": (of_system / (a - 1) - residual) / (b * t * k),
            "video": (of_video / (b - 1) - residual) / (a * t * k),
            "text": (residual - within) / k,
            "answer": within,
        }
    )


def test_unequal_numbers_give_the_true_parts_on_average() -> None:
    """Systems that lack videos, texts with one to four answers; the mean of 300 worlds is the truth."""
    rng = np.random.default_rng(8)
    design = [
        (text, video, system)
        for text, video, system in crossed(6, 15, 1, 2)
        if rng.random() < 0.7
        for _ in range(rng.integers(1, 5))
    ]
    true = {"system": 4.0, "video": 3.0, "text": 2.0, "answer": 1.0}
    codes = [np.unique(names, return_inverse=True)[1] for names in zip(*design, strict=True)]
    by_part = dict(zip(("text", "video", "system"), codes, strict=True))
    found = []
    for _ in range(300):
        values = rng.normal(scale=1.0, size=len(design))
        for part, code in by_part.items():
            values += rng.normal(scale=math.sqrt(true[part]), size=code.max() + 1)[code]
        found.append(list(compute(values, design).variances.values()))
    # Few systems make theirs uncertain: its standard deviation is some 2.6.
    for part, mean, error in zip(true, np.mean(found, axis=0), np.std(found, axis=0) / math.sqrt(300), strict=True):
        assert abs(mean - true[part]) < 4 * error, part


def test_a_part_that_the_texts_do_not_show_is_left_out() -> None:
    rng = np.random.default_rng(1)
    one_system = crossed(1, 6, 3, 2)
    assert list(compute(rng.random(len(one_system)), one_system).variances) == ["video", "text", "answer"]
    one_text_a_video = crossed(1, 6, 3)
    assert list(compute(rng.random(len(one_text_a_video)), one_text_a_video).variances) == ["text", "answer"]
    # One text a video, by two systems.
    apart = [(text, text, system) for text, _, system in crossed(2, 6, 3)]
    assert list(compute(rng.random(len(apart)), apart).variances) == ["system", "text", "answer"]
    # A video a system: which of them it is cannot be known.
    same = [(text, system, system) for text, _, system in crossed(4, 2, 3)]
    assert list(compute(rng.random(len(same)), same).variances) == ["video", "text", "answer"]


@pytest.mark.parametrize("value", [90.0, 0.9, 0.1, 1 / 3])
def test_a_judge_that_answers_always_the_same_has_no_shares(value: float) -> None:
    found = compute([value] * 18, crossed(2, 3, 3))
    assert set(found.variances.values()) == {0.0}
    assert (found.shares, found.mean_difference, found.deviation) == (None, 0.0, 0.0)


def test_too_few_answers_give_nothing() -> None:
    assert compute_judge_variance([], [], [], []) is None
    assert compute_judge_variance([1, 2, 3], ["a", "b", "c"], "vvw", "sts") is None
    assert compute_judge_variance([1, 2], ["a", "a"], "vv", "ss") is None


@pytest.mark.parametrize(("values", "names"), [([0.5, math.nan, 0.5], "aab"), ([0.5, 0.5], "aab")])
def test_what_is_no_answer_is_refused(values: list[float], names: str) -> None:
    with pytest.raises(ValueError, match=r"no finite number|unequal lengths"):
        compute_judge_variance(values, names, names, names)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4), st.floats(0, 1)), min_size=6, max_size=40),
    st.floats(-2, 2),
    st.floats(0.5, 3),
    st.randoms(use_true_random=False),
)
def test_order_and_zero_of_the_scale_change_nothing(
    rows: list[tuple[int, int, float]], shift: float, factor: float, random: Any
) -> None:
    def parts(rows: list[tuple[int, int, float]]) -> JudgeVariance | None:
        values = [value for *_, value in rows]
        texts = [f"{system} {video}" for system, video, _ in rows]
        return compute_judge_variance(values, texts, [row[1] for row in rows], [row[0] for row in rows])

    found = parts(rows)
    moved = [(system, video, shift + factor * value) for system, video, value in rows]
    random.shuffle(moved)
    again = parts(moved)
    if found is None or again is None:
        assert found is again
        return
    assert min(found.variances.values()) >= 0
    assert set(again.variances) == set(found.variances)
    # Parts that are hardly told apart have few digits.
    expected = {part: variance * factor**2 for part, variance in found.variances.items()}
    assert again.variances == pytest.approx(expected, rel=1e-4, abs=1e-4)
    assert again.mean_difference == pytest.approx(found.mean_difference * factor, rel=1e-6, abs=1e-9)
