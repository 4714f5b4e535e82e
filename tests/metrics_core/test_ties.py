"""Where the best samples of each stratum end, against a walk over lists."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from metrics_core.selection.ties import ends_of

SAMPLES = st.lists(st.tuples(st.sampled_from([-1.0, 0.0, 0.5, 1.0]), st.integers(0, 4)), max_size=30)


@given(samples=SAMPLES, shares=st.lists(st.floats(0, 1), min_size=5, max_size=5))
def test_the_ends_of_strata_are_those_by_hand(samples: list[tuple[float, int]], shares: list[float]) -> None:
    samples.sort(key=lambda sample: -sample[0])
    of = [[value for value, stratum in samples if stratum == number] for number in range(5)]
    places = [round(share * len(values)) for share, values in zip(shares, of, strict=True)]
    values, strata = np.array([sample[0] for sample in samples]), np.array([sample[1] for sample in samples], np.intp)
    found = ends_of(values, strata, places)
    expected = [
        (number, of[number][n - 1], sum(v > of[number][n - 1] for v in of[number]), of[number].count(of[number][n - 1]))
        for number, n in enumerate(places)
        if n
    ]
    assert list(zip(*[part.tolist() for part in found], strict=True)) == expected
