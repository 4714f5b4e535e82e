"""Means corrected by a cheap value: oracles, and the coverage of intervals over repeated draws."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrics_core.promise import count_further_answers, estimate_mean


def test_a_perfect_helper_leaves_no_width() -> None:
    expensive = np.arange(60) / 60
    made = estimate_mean(expensive, expensive, 0.4, size=1000)
    assert made.value == pytest.approx(0.4)
    assert made.low == made.high == pytest.approx(0.4)
    assert made.slope == pytest.approx(1.0)


def test_a_helper_that_fits_few_values_hides_rare_differences() -> None:
    expensive = np.arange(60) % 2
    # Nothing in the part shows how often yes and no differ from it elsewhere.
    made = estimate_mean(expensive, expensive, 0.4, size=1000)
    assert (made.value, made.slope, made.gain) == (0.5, 0.0, 1.0)
    assert made == estimate_mean(expensive, size=1000)


def test_without_a_helper_it_is_the_plain_mean_with_its_finite_variance() -> None:
    expensive = np.random.default_rng(1).normal(size=300)
    made = estimate_mean(expensive, size=1000)
    error = expensive.std(ddof=1) * np.sqrt((1 - 0.3) / 300)
    assert made.value == made.plain == pytest.approx(expensive.mean())
    # Student's t on 299 degrees of freedom: 1.96793
    assert made.high - made.value == pytest.approx(1.96793 * error, rel=1e-5)
    assert (made.slope, made.gain) == (0.0, pytest.approx(1.0))


def test_slopes_are_those_of_the_other_half() -> None:
    random = np.random.default_rng(2)
    expensive, cheap = random.normal(size=250), random.normal(size=250)
    made = estimate_mean(expensive, cheap, 0.3, size=5000, seed=4)
    is_first = np.random.default_rng(4).permutation(250) % 2 == 0
    parts = []
    for half in (is_first, ~is_first):
        slope = np.polyfit(cheap[~half], expensive[~half], 1)[0]
        parts.append(expensive[half] - slope * (cheap[half] - 0.3))
    assert made.value == pytest.approx(np.concatenate(parts).mean())


def test_asking_everybody_leaves_no_doubt() -> None:
    expensive = np.array([0.0] * 30 + [1.0] * 3)
    made = estimate_mean(expensive, size=33)
    assert made.low == made.high == made.value == pytest.approx(1 / 11)
    values, helper = np.random.default_rng(8).normal(size=(2, 60))
    made = estimate_mean(values, values + helper, float((values + helper).mean()), size=60)
    assert made.low == made.high == made.value == pytest.approx(values.mean())


def test_few_errors_have_the_interval_of_a_share() -> None:
    made = estimate_mean([0.0] * 100, size=10**9)
    # Without an event the limit p solves (1 - p)^100 = .025.
    assert (made.value, made.low) == (0.0, 0.0)
    assert made.high == pytest.approx(1 - 0.025 ** (1 / 100), abs=1e-6)


def test_equal_answers_on_an_unknown_scale_have_no_interval() -> None:
    made = estimate_mean([3.0] * 50, size=1000)
    assert (made.value, made.low, made.high) == (3.0, None, None)


def test_without_answers_there_is_no_number() -> None:
    made = estimate_mean([], size=10)
    assert (made.value, made.low, made.plain, made.gain) == (None, None, None, None)
    assert count_further_answers(made, 0.1) is None


def test_wrong_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="11 answers about 10 items"):
        estimate_mean([0.0] * 11, size=10)
    with pytest.raises(ValueError, match="3 values and 2 cheap values"):
        estimate_mean([0, 1, 2], [1, 2], 1.5, size=10)
    with pytest.raises(ValueError, match="half width"):
        count_further_answers(estimate_mean([0, 1] * 20, size=100), 0)


def test_the_further_answers_give_the_width() -> None:
    expensive = np.random.default_rng(3).normal(size=400)
    made = estimate_mean(expensive, size=20_000)
    more = count_further_answers(made, 0.03)
    n = 400 + more
    assert 1.96 * made.spread * np.sqrt((1 - n / 20_000) / n) == pytest.approx(0.03, rel=0.001)
    assert count_further_answers(made, 10.0) == 0


@given(st.lists(st.floats(0, 1), min_size=10, max_size=60), st.integers(0, 100))
def test_limits_surround_the_value(values: list[float], unasked: int) -> None:
    made = estimate_mean(values, size=len(values) + unasked)
    if made.low is not None:
        assert made.low <= made.value + 1e-9
        assert made.value <= made.high + 1e-9


@pytest.mark.parametrize("n", [50, pytest.param(100, marks=pytest.mark.expensive)])
@pytest.mark.parametrize("rate", [0.02, 0.1, 0.5])
@pytest.mark.parametrize("cheap", ["good", "useless", "adverse", "equal but for 1 %", "equal but for 10 %"])
def test_intervals_cover_the_mean(n: int, rate: float, cheap: str) -> None:
    random = np.random.default_rng(5)
    expensive = np.repeat(random.random(500) < rate, 4) & (random.random(2000) < 0.9)
    noise = random.normal(size=2000)
    helper = {
        "good": expensive + 0.3 * noise,
        "useless": noise,
        "adverse": -2 * expensive + noise,
        "equal but for 1 %": expensive ^ (random.random(2000) < 0.01),
        "equal but for 10 %": expensive ^ (random.random(2000) < 0.1),
    }[cheap]
    truth, covered, draws = expensive.mean(), 0, 400
    for seed in range(draws):
        part = random.choice(2000, n, replace=False)
        made = estimate_mean(expensive[part], helper[part], helper.mean(), size=2000, seed=seed)
        covered += made.low <= truth <= made.high
    assert covered / draws >= 0.93 - 2 * np.sqrt(0.05 * 0.95 / draws)


@pytest.mark.parametrize("n", [10, 25])
@pytest.mark.parametrize("values", ["ratings", "skewed", "scores"])
def test_intervals_of_few_answers_cover_the_mean(n: int, values: str) -> None:
    random = np.random.default_rng(9)
    expensive = {
        "ratings": random.choice([1.0, 2, 3, 4, 5], 2000, p=[0.05, 0.1, 0.2, 0.3, 0.35]),
        "skewed": random.gamma(2, size=2000),
        "scores": random.beta(5, 2, size=2000),
    }[values]
    helper, draws = expensive + expensive.std() * 3 * random.normal(size=2000), 200
    covered = 0
    for seed in range(draws):
        part = random.choice(2000, n, replace=False)
        made = estimate_mean(expensive[part], helper[part], helper.mean(), size=2000, seed=seed)
        covered += made.low <= expensive.mean() <= made.high
    assert covered / draws >= 0.95 - 2 * np.sqrt(0.05 * 0.95 / draws)


def test_a_useful_helper_narrows_the_interval_and_a_useless_one_costs_little() -> None:
    random = np.random.default_rng(6)
    expensive = random.random(2000)
    part = random.choice(2000, 300, replace=False)
    gains = {}
    for name, share in itertools.product(["good", "useless"], [0.3]):
        helper = expensive + share * random.random(2000) if name == "good" else random.random(2000)
        gains[name] = estimate_mean(expensive[part], helper[part], helper.mean(), size=2000).gain
    assert gains["good"] > 5
    assert gains["useless"] > 0.97
