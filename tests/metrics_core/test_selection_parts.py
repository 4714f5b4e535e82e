"""Combined values, places, near-duplicates and diversity, against brute force and by hand."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrics_core.selection import cells, diversity, duplicates
from metrics_core.selection.diversity import choose_diverse_rows
from metrics_core.selection.duplicates import estimate_missed, find_originals, mark_distinct_rows
from metrics_core.selection.strata import choose_first_per_stratum, divide_places
from metrics_core.selection.weighted_means import weighted_mean, weighted_mean_rank

# Imported here and not in the first test, whose time hypothesis would take.
pytest.importorskip("scipy.stats")
SMALL_ROWS = st.integers(0, 40).flatmap(lambda n: st.tuples(st.just(n), st.integers(2, 4), st.integers(0, 2**32 - 1)))


def units(n: int, dimensions: int, seed: int) -> npt.NDArray[np.float32]:
    """Random unit rows, a third of them close to another one."""
    random = np.random.default_rng(seed)
    rows = random.normal(size=(n, dimensions))
    for place in range(0, n, 3):
        rows[place] = rows[random.integers(n)] + random.normal(scale=0.1, size=dimensions)
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), dtype=np.float32)


@given(st.lists(st.tuples(st.integers(-5, 5), st.integers(-5, 5)), min_size=1, max_size=30))
def test_a_mean_rank_counts_the_values_below_and_half_of_the_equal_ones(values: list[tuple[int, int]]) -> None:
    def rank(column: list[int], value: int) -> float:
        return (sum(other < value for other in column) + 0.5 * sum(other == value for other in column)) / len(column)

    columns = [list(column) for column in zip(*values, strict=True)]
    expected = [(2 * rank(columns[0], a) + rank(columns[1], b)) / 3 for a, b in values]
    np.testing.assert_allclose(weighted_mean_rank(values, [2, 1]), expected)


def test_a_mean_rank_does_not_see_the_range_of_a_metric() -> None:
    values = np.array([[0.1, 7.0], [0.9, 3.0], [0.5, 5.0]])
    np.testing.assert_array_equal(
        weighted_mean_rank(values, [1, 2]), weighted_mean_rank(np.exp(values) * [1, 1000], [1, 2])
    )
    assert weighted_mean_rank(np.empty((0, 2)), [1, 1]).shape == (0,)


@given(st.integers(0, 2**32 - 1), st.integers(2, 5), st.integers(1, 40), st.sampled_from([1, 0.1, 0.3, 1 / 3]))
def test_equal_rows_have_equal_means_wherever_they_and_their_columns_stand(
    seed: int, m: int, n: int, unit: float
) -> None:
    random = np.random.default_rng(seed)
    values, weights = random.normal(size=(n, m)), random.integers(1, 9, m) * unit
    twice, columns = np.concatenate([values, values]), random.permutation(m)
    for combine in (weighted_mean_rank, weighted_mean):
        # Candidates come column by column.
        means = combine(np.asfortranarray(twice), weights)
        np.testing.assert_array_equal(means[:n], means[n:])
        np.testing.assert_array_equal(means, combine(twice[:, columns], weights[columns]))


@given(st.permutations(range(1, 8)), st.permutations(range(1, 8)), st.sampled_from([(0.1, 0.2, 0.3), (1e-6, 0.7, 2)]))
def test_equal_mean_ranks_are_equal_to_the_last_digit(a: list[int], b: list[int], weights: tuple[float, ...]) -> None:
    rows = list(zip(range(1, 8), a, b, strict=True))
    exact = [sum(Fraction(str(w)) * value for w, value in zip(weights, row, strict=True)) for row in rows]
    found = weighted_mean_rank(rows, weights)
    for (mean, first), (other, second) in combinations(zip(exact, found, strict=True), 2):
        assert (first < second, first == second) == (mean < other, mean == other)


@pytest.mark.parametrize("combine", [weighted_mean_rank, weighted_mean])
@pytest.mark.parametrize(
    ("values", "weights"), [([[1.0, np.nan]], [1, 1]), ([[1.0]], [0]), ([[1.0]], [-1]), ([[1.0]], [1, 1]), ([1.0], [1])]
)
def test_values_that_cannot_be_combined_are_refused(combine: object, values: object, weights: object) -> None:
    with pytest.raises(ValueError, match=r"give|must be|leave"):
        combine(values, weights)  # type: ignore[operator]  # either function


@given(st.lists(st.integers(0, 50), min_size=1, max_size=8), st.floats(0, 1))
def test_places_are_the_quota_rounded_down_or_up(sizes: list[int], share: float) -> None:
    count = int(share * sum(sizes))
    places = divide_places(count, sizes)
    assert sum(places) == count
    for place, size in zip(places, sizes, strict=True):
        quota = Fraction(count * size, sum(sizes)) if sum(sizes) else Fraction(0)
        assert int(quota) <= place <= min(size, int(quota) + 1)


def test_the_largest_remainders_get_the_places_that_are_left() -> None:
    assert divide_places(10, [47, 16, 15, 22]) == [5, 2, 1, 2]
    assert divide_places(1, [1, 1, 1]) == [1, 0, 0]
    with pytest.raises(ValueError, match="4 places cannot be divided over 3 samples"):
        divide_places(4, [1, 2])


@given(st.lists(st.integers(0, 3), max_size=30), st.lists(st.integers(0, 9), min_size=4, max_size=4))
def test_the_first_of_each_stratum(strata: list[int], places: list[int]) -> None:
    expected, left = [], list(places)
    for position, stratum in enumerate(strata):
        if left[stratum]:
            left[stratum] -= 1
            expected.append(position)
    assert choose_first_per_stratum(np.array(strata, dtype=np.intp), places).tolist() == expected


def plain_walk(rows: npt.NDArray[np.float32], at_least: float) -> list[int]:
    """The rows that stay, one after the other, by cosines in float64."""
    exact, kept = rows.astype(np.float64), list[int]()
    for position in range(len(rows)):
        if all(exact[position] @ exact[other] < at_least - 1e-6 for other in kept):
            kept.append(position)
    return kept


@given(SMALL_ROWS, st.sampled_from([0.3, 0.9, 0.99, 1.0]))
def test_near_duplicates_are_those_of_a_plain_walk(shape: tuple[int, int, int], at_least: float) -> None:
    rows = units(*shape)
    assert np.flatnonzero(mark_distinct_rows(rows, at_least)).tolist() == plain_walk(rows, at_least)


@pytest.mark.parametrize("dense", [1, 128, 10**9], ids=["each pair", "as it is", "whole rows"])
@pytest.mark.parametrize("at_least", [0.2, 0.5, 0.9, 0.95, 1.0])
def test_bounds_drop_no_near_duplicate(monkeypatch: pytest.MonkeyPatch, at_least: float, dense: int) -> None:
    """Rows long enough for bounds, around a few directions of which one holds nearly all of their length."""
    random = np.random.default_rng(int(at_least * 100))
    centres = random.normal(size=(20, 60)) + 5 * np.eye(60)[0]
    noisy = centres[random.integers(20, size=300)] + random.normal(scale=0.3, size=(300, 60)) * random.random((300, 1))
    rows = np.asarray(noisy / np.linalg.norm(noisy, axis=1, keepdims=True), dtype=np.float32)
    rows[200:230] = rows[:30]
    monkeypatch.setattr(duplicates, "_HEAD", 8)
    monkeypatch.setattr(duplicates, "_DENSE", dense)
    monkeypatch.setattr(duplicates, "_BLOCK", 64)
    monkeypatch.setattr(duplicates, "_OTHERS", 50)
    monkeypatch.setattr(duplicates, "_PAIRS", 100)
    assert np.flatnonzero(mark_distinct_rows(rows, at_least)).tolist() == plain_walk(rows, at_least)


def test_near_duplicates_are_the_same_over_any_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = units(500, 3, 1)
    expected = mark_distinct_rows(rows, 0.98)
    monkeypatch.setattr(duplicates, "_BLOCK", 7)
    monkeypatch.setattr(duplicates, "_OTHERS", 5)
    np.testing.assert_array_equal(mark_distinct_rows(rows, 0.98), expected)
    assert 10 < expected.sum() < 490


@pytest.mark.parametrize("above", [True, False])
def test_a_cosine_at_the_limit_is_that_of_float64(above: bool) -> None:
    """By the next number of float32, and whatever the products of blocks round to."""
    rows = units(2, 384, 9)
    cosine = float(rows[0].astype(float) @ rows[1].astype(float))
    at_least = abs(cosine) + duplicates.TOLERANCE * (1 - 1e-6 if above else 1 + 1e-6)
    rows[1] *= np.sign(cosine)
    assert mark_distinct_rows(rows, at_least).tolist() == [True, not above]


def test_equal_rows_are_near_duplicates_at_a_cosine_of_one() -> None:
    rows = np.repeat(units(20, 7, 3), 2, axis=0)
    assert mark_distinct_rows(rows, 1.0).tolist() == [True, False] * 20
    with pytest.raises(ValueError, match="above 0 and at most 1"):
        mark_distinct_rows(rows, 1.01)


@pytest.mark.parametrize("in_cell", [1, 256], ids=["cells of one row", "one cell"])
def test_cells_drop_all_equal_rows_but_the_first(monkeypatch: pytest.MonkeyPatch, in_cell: int) -> None:
    equal, pairs = np.repeat(units(1, 32, 5), 300, axis=0), np.concatenate([units(40, 32, 6)] * 2)
    exact = mark_distinct_rows(pairs, 0.99)
    monkeypatch.setattr(duplicates, "EXACT_UP_TO", 10)
    monkeypatch.setattr(duplicates, "_STRETCH", 16)
    monkeypatch.setattr(cells, "_ROWS_PER_CELL", in_cell)
    assert mark_distinct_rows(equal, 1.0).tolist() == [True, *[False] * 299]
    assert mark_distinct_rows(pairs, 0.99).tolist() == exact.tolist()
    assert not exact[40:].any()


def test_cells_find_nearly_all_near_duplicates_and_their_misses_are_estimated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows around many directions, with near-duplicates of known cosines; more of them than are compared exactly."""
    random = np.random.default_rng(4)
    rows = random.normal(size=(6000, 32)).astype(np.float32) + 2 * random.normal(size=(60, 32))[np.arange(6000) % 60]
    rows = np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), dtype=np.float32)
    noise = random.normal(size=(600, 32)).astype(np.float32) * 0.02
    rows[5400:] = rows[:600] + noise
    rows[3000:3010] = rows[0]
    rows = np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), dtype=np.float32)
    exact = mark_distinct_rows(rows, 0.97)
    assert estimate_missed(rows, exact, 0.97) is None
    monkeypatch.setattr(duplicates, "EXACT_UP_TO", 100)
    monkeypatch.setattr(duplicates, "_STRETCH", 256)
    monkeypatch.setattr(cells, "_ROWS_PER_CELL", 20)
    found = mark_distinct_rows(rows, 0.97)
    assert found.tolist() == mark_distinct_rows(rows, 0.97).tolist()
    assert (~exact).sum() > 500
    assert not found[3000:3010].any()
    # A row goes only because of a row that stays.
    (dropped,), (kept,) = np.nonzero(~found), np.nonzero(found)
    for row in dropped.tolist():
        before = kept[kept < row]
        assert (rows[before] @ rows[row]).max() >= 0.97 - 1e-5
    assert (~found).sum() >= 0.98 * (~exact).sum()
    monkeypatch.setattr(cells, "PROBED", 1)
    worse = mark_distinct_rows(rows, 0.97)
    estimate = estimate_missed(rows, worse, 0.97, n_sampled=6000)
    assert estimate is not None
    alike = rows[worse] @ rows[worse].T >= 0.97 - 1e-6
    n_missed = int(np.tril(alike, -1).any(axis=1).sum())
    assert (estimate.n_sampled, estimate.n_missed) == (int(worse.sum()), n_missed)
    assert n_missed > 0
    assert estimate.share == pytest.approx(n_missed / (n_missed + (~worse).sum()))
    assert estimate.share < estimate.high < 1


@given(SMALL_ROWS, st.floats(0, 1))
def test_each_pick_is_the_farthest_from_those_before(shape: tuple[int, int, int], share: float) -> None:
    rows = units(*shape)
    picks = choose_diverse_rows(rows, int(share * len(rows))).tolist()
    assert len(set(picks)) == len(picks)
    assert picks[:1] == [0][: len(picks)]
    for place in range(1, len(picks)):
        others = [position for position in range(len(rows)) if position not in picks[:place]]
        nearest = {position: float((rows[picks[:place]] @ rows[position]).max()) for position in others}
        assert nearest[picks[place]] <= min(nearest.values()) + 1e-6


@pytest.mark.parametrize("pool", [1, 2, 7, 64, 10_000])
def test_picks_do_not_depend_on_the_pool(monkeypatch: pytest.MonkeyPatch, pool: int) -> None:
    """Whole numbers as rows, whose products no order of sums can change, and a plain walk over them."""
    rows = np.random.default_rng(pool).integers(-4, 5, size=(400, 6)).astype(np.float32)
    nearest, expected = np.full(400, -np.inf), []
    for _ in range(150):
        expected.append(int(np.argmin(nearest)))
        nearest = np.maximum(nearest, rows @ rows[expected[-1]])
        nearest[expected] = np.inf
    monkeypatch.setattr(diversity, "_POOL", pool)
    monkeypatch.setattr(diversity, "_ROWS", 33)
    told: list[int] = []
    assert choose_diverse_rows(rows, 150, told.append).tolist() == expected
    assert told == sorted(set(told))
    assert told[-1] == 150


def test_of_equally_far_rows_the_better_comes_first_and_a_subset_begins_a_larger_one() -> None:
    square = np.array([[1, 0], [0, 1], [-1, 0], [0, -1]], dtype=np.float32)
    assert choose_diverse_rows(square, 4).tolist() == [0, 2, 1, 3]
    rows = units(60, 4, 5)
    assert choose_diverse_rows(rows, 30)[:10].tolist() == choose_diverse_rows(rows, 10).tolist()
    with pytest.raises(ValueError, match="5 of 4 rows"):
        choose_diverse_rows(square, 5)


def test_the_original_of_a_near_duplicate_is_the_kept_row_before_it_that_is_most_like_it() -> None:
    rows = np.random.default_rng(6).normal(size=(60, 3)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    keep = mark_distinct_rows(rows, 0.8)
    dropped, originals = find_originals(rows, keep)
    assert dropped.tolist() == np.flatnonzero(~keep).tolist()
    assert 10 < len(dropped) < 60
    for row, original in zip(dropped.tolist(), originals.tolist(), strict=True):
        before = [other for other in range(row) if keep[other]]
        assert original == max(before, key=lambda other: float(rows[other] @ rows[row]))
        assert rows[original] @ rows[row] >= 0.8 - 1e-6
    none = find_originals(rows, np.ones(60, dtype=np.bool_))
    assert [len(part) for part in none] == [0, 0]
