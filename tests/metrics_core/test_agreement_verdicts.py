"""Plain sentences on agreement: every rule by an example, and what no example may break."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from metrics_core.agreement.same_items import Coefficient, SameItems
from metrics_core.agreement.verdicts import Level, chance_of_order, system_verdict, verdict

N = 90
RATER = Coefficient("one rater", 0.62, 0.6, 0.64, N)


def number(
    value: float, low: float | None = None, high: float | None = None, name: str = "x", n: int = N
) -> Coefficient:
    """A coefficient with the interval value ± 0.04 unless another one is given."""
    return Coefficient(name, value, value - 0.04 if low is None else low, value + 0.04 if high is None else high, n)


def same(
    found: Coefficient,
    ceiling: Coefficient | None = RATER,
    more: tuple[float, float] | None = (0.05, 0.15),
) -> SameItems:
    """The metric, with a baseline that it beats by an interval `more`; None for no baseline."""
    if more is None:
        return SameItems(found, ceiling, None, None)
    difference = Coefficient("words in common", sum(more) / 2, *more, N)
    return SameItems(found, ceiling, number(0.5, name="words in common"), difference)


@pytest.mark.parametrize(
    ("given_", "level", "sentence"),
    [
        (
            same(number(0.6)),
            "ceiling",
            "ECS orders captions by coverage about as well as one more rater, and clearly better than words in common.",
        ),
        (
            same(number(0.8)),
            "ceiling",
            "ECS orders captions by coverage better than one more rater, and clearly better than words in common.",
        ),
        (
            same(number(0.4)),
            "above baseline",
            "ECS orders captions by coverage less well than one more rater, and clearly better than words in common.",
        ),
        (
            same(number(0.4), None),
            "above baseline",
            "ECS orders captions by coverage clearly better than words in common.",
        ),
        (
            same(number(0.6), more=(-0.01, 0.1)),
            "baseline",
            "ECS orders captions by coverage about as well as one more rater, but not clearly better than words in "
            "common alone.",
        ),
        (
            same(number(0.4), more=(-0.2, -0.01)),
            "below baseline",
            "ECS orders captions by coverage, but worse than words in common alone.",
        ),
        (same(number(0.4), None, None), "above baseline", "ECS orders captions by coverage."),
        (same(number(0.03)), "nothing", "ECS says nothing about coverage."),
        (same(number(0.04, low=0.0)), "nothing", "ECS says nothing about coverage."),
        (same(number(-0.3)), "against", "ECS goes against coverage: better captions score lower."),
        (
            same(number(0.5, 0.1, 0.8)),
            "open",
            "ECS orders captions by coverage, but how well is open: it takes more rated videos.",
        ),
        (
            same(Coefficient("x", 0.5, None, None, N)),
            "open",
            "Whether ECS orders captions by coverage is open: it takes the ratings of several videos.",
        ),
        (
            same(Coefficient("x", None, None, None, N)),
            "undefined",
            "ECS cannot be compared by coverage: its values or the ratings are all equal.",
        ),
        (
            same(Coefficient("x", None, None, None, 0)),
            "undefined",
            "ECS cannot be compared by coverage: none of the rated captions has a score.",
        ),
    ],
)
def test_each_rule(given_: SameItems, level: Level, sentence: str) -> None:
    found = verdict("ECS", "coverage", given_)
    assert (found.level, found.sentence) == (level, sentence)


intervals = st.tuples(*[st.floats(-1, 1)] * 3).map(sorted)


@given(intervals, intervals, st.tuples(*[st.floats(-1, 1)] * 2).map(sorted), st.booleans())
def test_no_claim_without_an_interval_above_0_and_above_the_baseline(
    found: list[float], rater: list[float], more: list[float], has_rater: bool
) -> None:
    low, value, high = found
    ceiling = Coefficient("one rater", rater[1], rater[0], rater[2], N) if has_rater else None
    level = verdict("m", "a", same(Coefficient("m", value, low, high, N), ceiling, (more[0], more[1]))).level
    if level in ("above baseline", "ceiling"):
        assert low > 0
        assert more[0] > 0
    if level == "ceiling":
        assert has_rater
        assert high >= rater[1]
    if low <= 0 <= high:
        assert level == "nothing"


@pytest.mark.parametrize("n", [2, 3, 4])
def test_of_fewer_than_five_systems_nothing_is_claimed(n: int) -> None:
    assert system_verdict("ECS", "coverage", Coefficient("x", 1.0, 1.0, 1.0, n)).startswith(f"{n} systems are too few")


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (Coefficient("x", 1.0, 0.9, 1.0, 5), "ECS orders the 5 systems by coverage."),
        (Coefficient("x", -1.0, -1.0, -0.9, 5), "ECS orders the 5 systems against coverage."),
        # Of five systems only the very same order is more than chance.
        (Coefficient("x", 0.8, 0.6, 1.0, 5), "Whether ECS orders the 5 systems by coverage is open: it may be chance."),
        (
            Coefficient("x", 0.9, -0.1, 1.0, 9),
            "Whether ECS orders the 9 systems by coverage is open: it may be chance.",
        ),
        (Coefficient("x", None, None, None, 6), "ECS gives the 6 systems no order by coverage that could be compared."),
        (
            Coefficient("x", None, None, None, 1),
            "There is no order of systems by coverage: it takes several systems with scores and ratings.",
        ),
    ],
)
def test_systems(found: Coefficient, sentence: str) -> None:
    assert system_verdict("ECS", "coverage", found) == sentence


@pytest.mark.parametrize("n", [4, 5, 6, 7])
def test_the_chance_of_an_order_is_that_of_scipys_exact_test(n: int) -> None:
    for order in itertools.islice(itertools.permutations(range(n)), 0, None, 7):
        test = stats.kendalltau(range(n), order, method="exact")
        assert chance_of_order(test.statistic, n) == pytest.approx(test.pvalue)
