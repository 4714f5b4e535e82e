"""Promises about finite sets: the exact sequence against hand-computed values and all cases of small sets."""

from __future__ import annotations

import itertools
import math
import warnings
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrics_core.promise import (
    Prior,
    collect_set_answers,
    compute_attempt_level,
    compute_error_bounds,
    compute_least_log_evidence,
    count_allowed_errors,
    count_needed_answers,
    walk_sets,
)
from metrics_core.promise.sequence import compute_log_evidence
from metrics_core.promise.walk import SetState

FLAT = Prior(1, 1)
PRIORS = [FLAT, Prior(2, 14), Prior(0.5, 3.5)]


def _compute_evidence_by_counting(size: int, errors: int, asked: int, wrong: int) -> Fraction | None:
    """The evidence under a flat prior, as the prior's chance over the posterior's, by whole numbers."""
    likelihoods = {
        k: math.comb(k, wrong) * math.comb(size - k, asked - wrong)
        for k in range(size + 1)
        if k >= wrong and size - k >= asked - wrong
    }
    if errors not in likelihoods:
        return None
    return Fraction(sum(likelihoods.values()), (size + 1) * likelihoods[errors])


def test_the_example_of_twelve_by_hand() -> None:
    evidence = np.exp(compute_log_evidence(12, 4, [6, 7, 8], 0, FLAT))
    # posterior(4) = C(8, n) / C(13, n + 1), prior 1/13
    by_hand = [math.comb(13, n + 1) / math.comb(8, n) / 13 for n in (6, 7, 8)]
    assert evidence == pytest.approx(by_hand)
    assert evidence == pytest.approx([4.714, 12.375, 55.0], abs=0.001)
    assert math.isinf(compute_log_evidence(12, 4, 9, 0, FLAT))
    assert [walk_sets([12], [[False] * n], 0.25, 0.05, FLAT)[0].is_confirmed for n in (7, 8)] == [False, True]


@pytest.mark.parametrize("size", [1, 5, 12])
def test_evidence_is_the_prior_over_the_posterior(size: int) -> None:
    for asked in range(1, size + 1):
        for wrong, errors in itertools.product(range(asked + 1), range(size + 1)):
            expected = _compute_evidence_by_counting(size, errors, asked, wrong)
            evidence = float(np.exp(compute_log_evidence(size, errors, asked, wrong, FLAT)))
            assert evidence == (math.inf if expected is None else pytest.approx(float(expected)))


@pytest.mark.parametrize(("limit", "answers"), [(0.05, 158), (0.10, 69)])
def test_so_many_answers_without_an_error_confirm_a_large_set(limit: float, answers: int) -> None:
    size = 10_000_000
    evidence = compute_least_log_evidence(
        size, count_allowed_errors(size, limit) + 1, np.arange(1, 300), np.zeros(299, dtype=int), FLAT
    )
    assert int(np.flatnonzero(evidence >= math.log(20))[0]) + 1 == answers


@pytest.mark.parametrize("prior", PRIORS)
def test_one_number_has_the_least_evidence_of_all(prior: Prior) -> None:
    size = 30
    for asked in range(1, size + 1):
        for wrong, least in itertools.product(range(asked + 1), range(0, size + 1, 3)):
            among_all = compute_log_evidence(size, np.arange(least, size + 1), asked, wrong, prior).min()
            assert compute_least_log_evidence(size, least, asked, wrong, prior) == pytest.approx(among_all)


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("level", [0.05, 0.2])
def test_bounds_of_small_sets_fail_at_most_with_their_level(prior: Prior, level: float) -> None:
    """Exact chances over all orders of asking: of every number of errors, that any bound is ever below it."""
    size = 14
    for errors in range(size + 1):
        # chances of (asked, wrong) on the way, as long as the true number is not refuted
        alive = {0: 1.0}
        failed = 0.0
        for asked in range(1, size + 1):
            following: dict[int, float] = {}
            for wrong, chance in alive.items():
                is_error = (errors - wrong) / (size - asked + 1)
                for more, part in ((1, is_error), (0, 1 - is_error)):
                    if part > 0:
                        following[wrong + more] = following.get(wrong + more, 0.0) + chance * part
            refuted = {
                wrong
                for wrong in following
                if compute_least_log_evidence(size, errors, asked, wrong, prior) >= -math.log(level)
            }
            failed += sum(following[wrong] for wrong in refuted)
            alive = {wrong: chance for wrong, chance in following.items() if wrong not in refuted}
        assert failed <= level + 1e-12


@given(st.lists(st.booleans(), max_size=40), st.integers(0, 60), st.sampled_from(PRIORS))
def test_bounds_are_the_greatest_numbers_not_refuted(wrong: list[bool], unasked: int, prior: Prior) -> None:
    size, level = len(wrong) + unasked, 0.05
    bounds = compute_error_bounds(size, wrong, level, prior)
    lowest = size
    for n, bound in enumerate(bounds.tolist(), start=1):
        k = sum(wrong[:n])
        evidence = compute_log_evidence(size, np.arange(size + 1), n, k, prior)
        lowest = max(k, min(lowest, int(np.flatnonzero(evidence < -math.log(level)).max())))
        assert bound == lowest
    if not unasked and wrong:
        assert bounds[-1] == sum(wrong)


def test_limits_are_decimal_numbers() -> None:
    assert [count_allowed_errors(100, limit) for limit in (0.29, 0.07, 0.05)] == [29, 7, 5]
    assert count_allowed_errors(19, 0.05) == 0


def test_attempts_never_use_more_than_the_level() -> None:
    assert compute_attempt_level(0.05, 2000) == 0
    assert sum(compute_attempt_level(0.05, attempt) for attempt in range(1, 60)) <= 0.05


def test_answers_after_a_gap_do_not_count() -> None:
    draws = [0.5, 0.1, 0.3, 0.2, 0.4]
    answers = [1, 0, 0, -1, 0]
    strict, loose = collect_set_answers(draws, answers, [0, 0, 0, 1, 1], 2)
    assert strict.tolist() == [False, False, True]
    assert loose.tolist() == [False]


def test_the_walk_ends_at_the_first_set_that_is_not_confirmed() -> None:
    right = [False] * 60
    states = walk_sets([1000, 2000, 4000], [right, [True, *right], right], 0.1, 0.05)
    assert [state.is_confirmed for state in states] == [True, False]
    assert (states[1].n_asked, states[1].n_wrong, states[1].n_allowed) == (61, 1, 200)


def test_a_set_without_answers_is_not_confirmed_unless_errors_are_allowed_everywhere() -> None:
    (state,) = walk_sets([10], [[]], 0.5, 0.05)
    assert (state.n_asked, state.bound, state.is_confirmed) == (0, 10, False)


@given(st.integers(0, 3), st.integers(40, 200))
def test_needed_answers_suffice(wrong: int, asked: int) -> None:
    state = SetState(5000, asked, wrong, 5000, 500)
    needed = count_needed_answers(state, 0.1, 0.05)
    assert needed.least is not None
    further = max(0, needed.least - asked)
    answers = [True] * wrong + [False] * (asked - wrong + further)
    assert walk_sets([5000], [answers], 0.1, 0.05)[0].is_confirmed
    assert needed.likely is None or needed.likely >= needed.least


def test_a_set_with_too_many_errors_is_past_help() -> None:
    needed = count_needed_answers(SetState(100, 40, 20, 60, 10), 0.1, 0.05)
    assert (needed.least, needed.likely) == (None, None)


@pytest.mark.parametrize("size", [1, 2, 5, 12, 60])
def test_a_set_with_all_answers_is_counted_without_a_warning(size: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (state,) = walk_sets([size], [[False] * size], 0.05, 0.05)
        assert state.is_confirmed
        assert count_needed_answers(state, 0.05, 0.05).least is not None
