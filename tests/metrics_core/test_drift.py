"""Shifts between groups, against SciPy's test and by counting pairs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import mannwhitneyu

from metrics_core.arithmetic import correct_p_values
from metrics_core.drift import measure_shifts

VALUES = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 3)), min_size=4, max_size=60)


@given(VALUES)
def test_each_group_is_compared_as_scipy_does(drawn: list[tuple[int, int]]) -> None:
    values, groups = np.array(drawn, dtype=float).T
    found = measure_shifts(values, groups.astype(int), least_size=2)
    p_values = []
    for shift in found:
        inside, outside = values[groups == shift.group], values[groups != shift.group]
        signs = np.sign(inside[:, np.newaxis] - outside)
        assert shift.delta == pytest.approx(signs.mean())
        assert shift.n == len(inside)
        result = mannwhitneyu(inside, outside, method="asymptotic", use_continuity=False)
        p_values.append(1.0 if len(set(values)) == 1 else float(result.pvalue))
    assert [shift.p for shift in found] == pytest.approx(list(correct_p_values(p_values)))
    sizes = {group: int((groups == group).sum()) for group in range(4)}
    assert [shift.group for shift in found] == [group for group, n in sizes.items() if n >= 2 and len(values) - n >= 2]


def test_a_large_group_that_hardly_differs_is_no_shift() -> None:
    random = np.random.default_rng(0)
    values = random.normal(size=40_000)
    groups = np.repeat([0, 1], 20_000)
    values[groups == 1] += 0.1
    assert [(shift.p < 0.01, shift.is_shifted) for shift in measure_shifts(values, groups)] == [(True, False)] * 2


def test_what_cannot_be_compared() -> None:
    assert measure_shifts([], []) == []
    assert measure_shifts([1.0] * 19 + [2.0] * 30, [0] * 19 + [1] * 30) == []
    with pytest.raises(ValueError, match="give finite values"):
        measure_shifts([1.0, np.nan], [0, 1])
    with pytest.raises(ValueError, match="give finite values"):
        measure_shifts([1.0], [0, 1])
