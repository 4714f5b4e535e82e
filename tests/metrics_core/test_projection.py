"""Places of vectors in two dimensions: against a singular value decomposition, and where there are none."""

from __future__ import annotations

import tracemalloc
from contextlib import nullcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrics_core.projection import NothingToProject, project_vectors, require_projectable


def drawn(seed: int, n: int, size: int) -> np.ndarray:
    """Vectors with a different spread in every direction, and a mean far from zero."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, size)) * np.linspace(3, 0.2, size) + rng.standard_normal(size)


@given(st.integers(0, 10_000), st.integers(3, 40), st.integers(2, 60))
def test_places_are_those_of_the_singular_values(seed: int, n: int, size: int) -> None:
    vectors = drawn(seed, n, size)
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    centred = units - units.mean(axis=0)
    _, lengths, components = np.linalg.svd(centred, full_matrices=False)
    projection = project_vectors(vectors)
    # Distances do not depend on the signs, and neither do the shares of the variance.
    expected = centred @ components[:2].T
    assert np.abs(projection.coordinates) == pytest.approx(np.abs(expected), abs=1e-6)
    gaps = np.linalg.norm(projection.coordinates[:, None] - projection.coordinates, axis=2)
    assert gaps == pytest.approx(np.linalg.norm(expected[:, None] - expected, axis=2), abs=1e-6)
    assert projection.shares == pytest.approx(lengths[:2] ** 2 / (lengths**2).sum(), abs=1e-9)


@given(st.integers(0, 10_000), st.sampled_from([1e-200, 0.01, 1000.0, 1e200]))
def test_only_directions_count(seed: int, factor: float) -> None:
    vectors = drawn(seed, 20, 6)
    factors = np.where(np.arange(20) % 2, factor, 1.0)[:, None]
    assert project_vectors(vectors * factors).coordinates == pytest.approx(
        project_vectors(vectors).coordinates, abs=1e-9
    )


def test_the_largest_weight_is_positive_and_lots_do_not_matter() -> None:
    """More vectors than are multiplied at once: two clouds along the first axis, spread along the second."""
    rng = np.random.default_rng(0)
    side = np.where(np.arange(20_000) < 10_000, -1.0, 1.0)
    vectors = np.stack([side, rng.uniform(-0.3, 0.3, 20_000), np.full(20_000, 0.01)], axis=1).astype(np.float32)
    projection = project_vectors(vectors)
    assert (np.sign(projection.coordinates[:, 0]) == side).all()
    assert np.corrcoef(projection.coordinates[:, 1], vectors[:, 1])[0, 1] > 0.99
    assert sum(projection.shares) == pytest.approx(1, abs=1e-3)
    assert (project_vectors(vectors).coordinates == projection.coordinates).all()


def test_few_long_vectors_need_a_matrix_of_their_number_only() -> None:
    """The products of 16,000 numbers would fill 2 GB."""
    short, size = drawn(0, 40, 20), 16_000
    long = np.zeros((40, size), np.float32)
    long[:, :: size // 20] = short
    before, expected = long.copy(), project_vectors(short)
    tracemalloc.start()
    projection = project_vectors(long)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100e6
    assert (long == before).all()
    assert projection.coordinates == pytest.approx(expected.coordinates, abs=1e-6)
    assert projection.shares == pytest.approx(expected.shares, abs=1e-6)


@pytest.mark.parametrize(("n", "size", "is_refused"), [(10**6, 4096, False), (4096, 16_000, False), (4097, 4097, True)])
def test_what_would_take_minutes_is_refused(n: int, size: int, is_refused: bool) -> None:
    with pytest.raises(NothingToProject, match="not 4,097 of 4,097 numbers") if is_refused else nullcontext():
        require_projectable(n, size)


def test_a_vector_without_a_direction_has_no_place() -> None:
    vectors = np.array([[1.0, 0, 0], [0, 0, 0], [0, 1, 0], [np.nan, 1, 0], [0, 0, 1], [np.inf, 0, 0]])
    projection = project_vectors(vectors)
    assert np.isnan(projection.coordinates).all(axis=1).tolist() == [False, True, False, True, False, True]
    assert projection.coordinates[[0, 2, 4]] == pytest.approx(project_vectors(vectors[[0, 2, 4]]).coordinates)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_vectors_on_a_line_have_one_dimension(size: int) -> None:
    """Two directions only: their second coordinate is zero, and no rounding that fills the picture."""
    vectors = np.ones((9, size), np.float32)
    vectors[:4] *= -1
    projection = project_vectors(vectors)
    assert projection.shares == (pytest.approx(1), 0)
    assert (projection.coordinates[:, 1] == 0).all()
    assert len(np.unique(projection.coordinates[:, 0].round(6))) == 2


@pytest.mark.parametrize(
    ("vectors", "reason"),
    [
        (np.empty((0, 4)), "needs 3 different vectors that are not zero, not 0"),
        ([[1.0, 0], [0, 1], [0, 0]], "needs 3 different vectors that are not zero, not 2"),
        ([[0.1, 0.7]] * 5, "all 5 vectors are equal"),
        ([[1.0, 2], [2, 4], [0.3, 0.6]], "all 3 vectors are equal"),
    ],
)
def test_where_there_is_no_map_a_sentence_says_why(vectors: object, reason: str) -> None:
    with pytest.raises(NothingToProject, match=reason):
        project_vectors(np.asarray(vectors, dtype=np.float64))
