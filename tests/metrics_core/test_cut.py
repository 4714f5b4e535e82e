"""Where the best samples of each stratum end, against a walk over lists."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from metrics_core.selection.size_threshold import SizeThreshold, find_size_thresholds

SAMPLES = st.lists(st.tuples(st.sampled_from([-1.0, 0.0, 0.5, 1.0]), st.integers(0, 4)), max_size=30)


@given(samples=SAMPLES, shares=st.lists(st.floats(0, 1), min_size=5, max_size=5))
def test_the_ends_of_strata_are_those_by_hand(samples: list[tuple[float, int]], shares: list[float]) -> None:
    samples.sort(key=lambda sample: -sample[0])
    of = [[value for value, stratum in samples if stratum == number] for number in range(5)]
    places = [round(share * len(values)) for share, values in zip(shares, of, strict=True)]
    values, strata = np.array([sample[0] for sample in samples]), np.array([sample[1] for sample in samples], np.intp)
    expected = [
        SizeThreshold(number, worst, n, sum(value > worst for value in of[number]), of[number].count(worst))
        for number, n in enumerate(places)
        if n
        for worst in [of[number][n - 1]]
    ]
    assert find_size_thresholds(values, strata, places) == expected
