"""Plain sentences on agreement: every rule by an example, and what no example may break."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from metrics_core.agreement.coefficients import KENDALL, kendall_p_value
from metrics_core.agreement.conclusions import (
    CLAIMS,
    Conclusion,
    SystemOrder,
    TrustLevel,
    correct_p_values_of_claims,
    explain_agreement,
    explain_few_systems,
    explain_system_order,
    find_least_tau,
)
from metrics_core.agreement.row import (
    DIFFERENCE,
    ONE_RATER,
    PEOPLE,
    RIVAL,
    AgreementRow,
    Over,
    index_comparisons,
)
from metrics_core.arithmetic import correct_p_values

N = 90


def make_row(
    value: float | None,
    low: float | None = None,
    high: float | None = None,
    p: float | None = 0.001,
    *,
    n: int = N,
    n_videos: int = 30,
    over: Over = "captions",
    against: str = PEOPLE,
    statistic: str = KENDALL,
) -> AgreementRow:
    return AgreementRow("x", "coverage", over, against, statistic, value, low, high, p, n, n_videos, 0, 0, False)


def number(value: float, low: float | None = None, high: float | None = None, p: float = 0.001) -> AgreementRow:
    """A tau-b with the interval value ± 0.04 unless another one is given."""
    return make_row(value, value - 0.04 if low is None else low, value + 0.04 if high is None else high, p)


def same(
    found: AgreementRow,
    rater: tuple[float, float] | None = (-0.06, 0.02),
    more: float | None = 0.1,
    p: float = 0.001,
    n_videos: int = 30,
) -> dict[tuple[str, str], AgreementRow]:
    """The metric, above one more rater by the interval `rater`, and above words in common by `more`; None for none."""
    rows = [replace(found, n_videos=n_videos)]
    if rater:
        rows.append(make_row(sum(rater) / 2, *rater, 0.5, against=ONE_RATER, statistic=DIFFERENCE))
    if more is not None:
        above = make_row(more, more - 0.04, more + 0.04, p, against="words in common", statistic=DIFFERENCE)
        rows += [make_row(0.5, 0.46, 0.54, against="words in common", statistic=RIVAL), above]
    return index_comparisons(rows)


def order_of(
    value: float | None, low: float | None, high: float | None, n: int, p: float | None = None, n_videos: int = 30
) -> AgreementRow:
    return make_row(value, low, high, p, n=n, n_videos=n_videos, over="systems")


@pytest.mark.parametrize(
    ("given_", "level", "sentence", "short"),
    [
        (
            same(number(0.6)),
            "ceiling",
            "ECS orders captions by coverage about as well as one more rater, and clearly better than words in common.",
            "like one more rater",
        ),
        (
            same(number(0.8), (0.01, 0.2)),
            "ceiling",
            "ECS orders captions by coverage better than one more rater, and clearly better than words in common.",
            "like one more rater",
        ),
        (
            same(number(0.4), (-0.3, -0.01)),
            "above baseline",
            "ECS orders captions by coverage less well than one more rater, and clearly better than words in common.",
            "better than simple scores",
        ),
        # An interval as wide as this does not compare with a rater.
        (
            same(number(0.4), (-0.2, 0.1)),
            "above baseline",
            "ECS orders captions by coverage clearly better than words in common.",
            "better than simple scores",
        ),
        (
            same(number(0.4), None),
            "above baseline",
            "ECS orders captions by coverage clearly better than words in common.",
            "better than simple scores",
        ),
        (
            same(number(0.6), p=0.06),
            "baseline",
            "ECS orders captions by coverage about as well as one more rater, but not clearly better than words in "
            "common, a simple score.",
            "like a simple score",
        ),
        (
            same(number(0.4), more=-0.1),
            "below baseline",
            "ECS orders captions by coverage better than chance, but worse than words in common, a simple score.",
            "worse than a simple score",
        ),
        (same(number(0.4), None, None), "above baseline", "ECS orders captions by coverage.", "orders as people do"),
        (
            same(number(0.03)),
            "nothing",
            "ECS orders captions by coverage no better than chance.",
            "no better than chance",
        ),
        (
            same(number(0.04, low=0.0)),
            "nothing",
            "ECS orders captions by coverage no better than chance.",
            "no better than chance",
        ),
        (
            same(number(0.2, -0.1, 0.5)),
            "open",
            "Whether ECS orders captions by coverage is open: rate more videos.",
            "open: more videos needed",
        ),
        (
            same(number(0.3, p=0.06)),
            "open",
            "Whether ECS orders captions by coverage is open: with so many comparisons, such a result may be chance.",
            "open: may be chance",
        ),
        (
            same(number(-0.3)),
            "against",
            "ECS goes against coverage: better captions score lower.",
            "against people",
        ),
        (
            same(number(0.5, 0.1, 0.8)),
            "open",
            "ECS orders captions by coverage, but how well is open: rate more videos.",
            "open: how well",
        ),
        (
            same(number(0.6), n_videos=3),
            "open",
            "Whether ECS orders captions by coverage is open: 3 videos, 10 needed.",
            "open: 3 videos, 10 needed",
        ),
        (
            same(make_row(0.5), n_videos=1),
            "open",
            "Whether ECS orders captions by coverage is open: 1 video, 10 needed.",
            "open: 1 video, 10 needed",
        ),
        (
            same(make_row(0.5)),
            "open",
            "Whether ECS orders captions by coverage is open: rate more videos.",
            "open: more videos needed",
        ),
        (
            same(make_row(None)),
            "undefined",
            "ECS cannot be compared by coverage: its values or the ratings are all equal.",
            "cannot be compared: its values or the ratings are all equal",
        ),
        (
            same(make_row(None, n=0)),
            "undefined",
            "ECS cannot be compared by coverage: none of the rated captions has a score.",
            "cannot be compared: none of the rated captions has a score",
        ),
    ],
)
def test_each_rule(given_: dict[tuple[str, str], AgreementRow], level: TrustLevel, sentence: str, short: str) -> None:
    assert explain_agreement("ECS", "coverage", given_) == Conclusion(level, sentence, short)


intervals = st.tuples(*[st.floats(-1, 1)] * 3).map(sorted)
chances = st.floats(0, 1)


@given(intervals, chances, intervals, intervals, chances, st.integers(1, 20))
def test_no_claim_without_videos_and_more_than_chance(
    found: list[float], p: float, rater: list[float], more: list[float], p_more: float, n_videos: int
) -> None:
    low, value, high = found
    given_ = same(make_row(value, low, high, p), (rater[0], rater[2]), more[1], p_more, n_videos)
    level = explain_agreement("m", "a", given_).level
    if level in CLAIMS:
        assert n_videos >= 10
        assert p <= 0.05
        assert not low <= 0 <= high
    if level in ("above baseline", "ceiling"):
        assert low > 0
        assert more[1] >= 0
        assert p_more <= 0.05
    if level == "ceiling":
        assert rater[0] > -0.1
        assert rater[2] >= 0


@given(st.lists(chances, min_size=1, max_size=6), st.lists(st.none() | chances, max_size=3))
def test_the_claims_of_a_page_are_one_family(own: list[float], leads: list[float | None]) -> None:
    rows = [row for p in own for row in same(number(0.3, p=p), p=p / 2).values()]
    # Simple scores and one more rater make no claim.
    rows += [replace(number(0.3), baseline=True), replace(number(0.3), metric=ONE_RATER)]
    corrected, after = correct_p_values_of_claims(rows, leads)
    family = correct_p_values([*own, *(lead for lead in leads if lead is not None)])
    claims = [row.p for row in corrected[:-2] if row.statistic == KENDALL]
    assert claims == pytest.approx(family[: len(own)])
    assert [lead for lead in after if lead is not None] == pytest.approx(family[len(own) :])
    assert [lead is None for lead in after] == [lead is None for lead in leads]
    beside = [row.p for row in corrected if row.statistic == DIFFERENCE and row.against != ONE_RATER]
    assert beside == pytest.approx(correct_p_values([p / 2 for p in own]))
    rest = [i for i, row in enumerate(rows) if row.statistic == RIVAL or row.against == ONE_RATER]
    assert all(corrected[i] == rows[i] for i in (*rest, -1, -2))


def test_orders_of_systems_are_in_the_family_of_claims() -> None:
    rows = [number(0.3, p=0.01), order_of(1.0, 0.9, 1.0, 6, 0.02), order_of(1.0, 0.9, 1.0, 4)]
    assert [row.p for row in correct_p_values_of_claims(rows)[0]] == [0.02, 0.02, None]


@pytest.mark.parametrize(("n", "p"), [(2, "1"), (3, "0.33"), (4, "0.083")])
def test_of_fewer_than_five_systems_nothing_is_claimed(n: int, p: str) -> None:
    words = f"ranks {n} systems, too few for a claim: even people's own order has p {p}"
    assert explain_system_order(order_of(1.0, 1.0, 1.0, n)) == Conclusion("open", f"x {words}.", words)


NOT_SHOWN = "is not shown to rank the {} systems as people do: {}"
COMPARISONS = "with so many comparisons, such a result may be chance"


@pytest.mark.parametrize(
    ("found", "order", "words"),
    [
        (order_of(1.0, 0.9, 1.0, 5, 0.017), "alike", "ranks the 5 systems as people do"),
        (order_of(-1.0, -1.0, -0.9, 5, 0.017), "against", "ranks the 5 systems against people's order"),
        # Of five systems only the very same order is more than chance.
        (
            order_of(0.8, 0.6, 1.0, 5, 0.083),
            "open",
            NOT_SHOWN.format(5, "such an order may be chance"),
        ),
        (
            order_of(0.73, 0.6, 1.0, 6, 0.056),
            "open",
            NOT_SHOWN.format(6, "such an order may be chance"),
        ),
        (order_of(0.3, 0.1, 0.5, 9, 0.36), "open", NOT_SHOWN.format(9, "such an order may be chance")),
        (order_of(0.9, -0.1, 1.0, 9, 0.001), "open", NOT_SHOWN.format(9, "rate more videos")),
        (order_of(1.0, 0.9, 1.0, 5, 0.06), "open", NOT_SHOWN.format(5, COMPARISONS)),
        (order_of(1.0, 0.9, 1.0, 5, 0.017, n_videos=9), "open", NOT_SHOWN.format(5, "9 videos, 10 needed")),
        (
            order_of(None, None, None, 6),
            "open",
            "cannot be compared by its order of 6 systems: its means or people's are equal",
        ),
        (order_of(None, None, None, 1), "open", "ranks no systems: only one has scores and ratings"),
        (order_of(None, None, None, 0), "open", "ranks no systems: none has scores and ratings"),
    ],
)
def test_systems(found: AgreementRow, order: SystemOrder, words: str) -> None:
    assert explain_system_order(found) == Conclusion(order, f"x {words}.", words)


@given(intervals, chances, st.integers(0, 12), st.integers(1, 20))
def test_no_claim_on_systems_without_videos_systems_and_more_than_chance(
    found: list[float], p: float, n: int, n_videos: int
) -> None:
    low, value, high = found
    order = explain_system_order(order_of(value, low, high, n, p, n_videos)).level
    if order != "open":
        assert n >= 5
        assert n_videos >= 10
        assert p <= 0.05
        assert not low <= 0 <= high
        assert (order == "alike") == (value > 0)
        assert kendall_p_value(value, n) <= 0.05


@pytest.mark.parametrize("n", [3, 4, 5, 6])
def test_the_least_order_that_is_more_than_chance_is_that_of_all_orders(n: int) -> None:
    taus = [stats.kendalltau(range(n), order).statistic for order in itertools.permutations(range(n))]
    shown = [tau for tau in set(taus) if tau > 0 and np.mean(np.abs(taus) >= tau - 1e-9) <= 0.05]
    assert find_least_tau(n) == (pytest.approx(min(shown)) if shown else None)


def test_few_systems_show_little_and_many_need_no_note() -> None:
    four = "4 systems are too few to show whether a metric ranks them as people do"
    assert explain_few_systems(4) == f"{four}: people's own order has p 0.083."
    little = "With {} systems, a τ-b below {} may be chance; people's own order has p {}."
    assert explain_few_systems(5) == little.format(5, "1.00", "0.017")
    assert explain_few_systems(7) == little.format(7, "0.71", "0.0004")
    assert explain_few_systems(8) is None


@pytest.mark.parametrize("n", [4, 5, 6, 7])
def test_the_chance_of_an_order_is_that_of_scipys_exact_test(n: int) -> None:
    for order in itertools.islice(itertools.permutations(range(n)), 0, None, 7):
        test = stats.kendalltau(range(n), order, method="exact")
        assert kendall_p_value(test.statistic, n) == pytest.approx(test.pvalue)
