"""Many pairs at once, and one pair at several tolerances: the numbers of one call per pair, bit for bit."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import metrics_core.arrays
from metrics_core.vcs import vcs_from_embeddings, vcs_from_similarity
from metrics_core.vcs.batch import vcs_batch, vcs_per_tolerance
from metrics_core.vcs.checks import VCSWarning
from metrics_core.vcs.embeddings import compute_pair_similarities, compute_similarities
from tests.metrics_core.test_vcs import differences

pytestmark = pytest.mark.filterwarnings("ignore::metrics_core.vcs.checks.VCSWarning")

CUTOFFS, CONTROLS = [0.0, 0.3, 0.6, 0.8, 1.0], [0.0, 0.5, 1.0, 4.0, 20.0]


@st.composite
def batches(draw: st.DrawFn) -> list[tuple[np.ndarray, float]]:
    """Pairs of few distinct shapes, in mixed order, so that stacks of one, two and more pairs occur."""
    shapes = draw(st.lists(st.tuples(st.integers(1, 12), st.integers(1, 12)), min_size=1, max_size=4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    low, high = draw(st.sampled_from([(0.0, 1.0), (-1.0, 1.0), (-1.0, -0.1), (0.85, 1.0), (0.5, 1.2)]))
    decimals = draw(st.sampled_from([0, 1, 2, 17]))
    n_pairs = draw(st.integers(1, 12))
    return [
        (np.round(rng.uniform(low, high, shapes[rng.integers(len(shapes))]), decimals), float(rng.uniform(-0.2, 1)))
        for _ in range(n_pairs)
    ]


parameters = st.fixed_dictionaries(
    {
        "lct": st.sampled_from([0, 0.1, 0.5, 1, 2, 3]),
        "context_cutoff": st.sampled_from(CUTOFFS),
        "context_window_control": st.sampled_from(CONTROLS),
        "short_text": st.booleans(),
    }
)


@given(batches(), parameters)
def test_a_batch_equals_single_pairs(pairs: list[tuple[np.ndarray, float]], chosen: dict[str, Any]) -> None:
    assert vcs_batch(pairs, **chosen) == [vcs_from_similarity(*pair, **chosen) for pair in pairs]


@given(batches(), st.lists(st.sampled_from([0, 0.1, 1, 2, 3.5]), max_size=4), parameters)
def test_a_sweep_equals_single_tolerances(
    pairs: list[tuple[np.ndarray, float]], lcts: list[float], chosen: dict[str, Any]
) -> None:
    del chosen["lct"]
    for pair in pairs[:2]:
        assert vcs_per_tolerance(*pair, lcts, **chosen) == [
            vcs_from_similarity(*pair, lct=lct, **chosen) for lct in lcts
        ]


def golden_groups(folder: Path) -> Iterator[tuple[dict[str, float], list[dict[str, Any]]]]:
    """The golden cases grouped by their parameters."""
    groups = defaultdict(list)
    with (folder / "golden" / "vcs.jsonl").open(encoding="utf-8") as lines:
        for case in map(json.loads, lines):
            groups[tuple(case["params"].items())].append(case)
    for key, cases in groups.items():
        names = {"context_cutoff_value": "context_cutoff"}
        yield {names.get(name, name): value for name, value in key}, cases


def test_every_golden_case_in_batches(shared_data: Path) -> None:
    n_cases = 0
    for chosen, cases in golden_groups(shared_data):
        pairs = [(np.array(case["sim"]), case["gas"]) for case in cases]
        results = vcs_batch(pairs, **chosen)
        assert results == [vcs_from_similarity(*pair, **chosen) for pair in pairs]
        for case, result in zip(cases, results, strict=True):
            expected = {name: value for name, value in case["expected"].items() if not isinstance(value, dict | list)}
            actual = {name: getattr(result, name) for name in expected}
            assert not differences(actual, expected, case["id"])
        n_cases += len(cases)
    assert n_cases == 270


def test_stacks_are_cut_without_a_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    pairs = [(rng.uniform(0, 1, shape), 0.9) for shape in [(5, 4)] * 11 + [(4, 5)] * 7]
    whole = vcs_batch(pairs)
    for cells in (1, 40, 79):  # one, two and three pairs of a shape to a stack
        monkeypatch.setattr(metrics_core.arrays, "STACK_CELLS", cells)
        assert vcs_batch(pairs) == whole


def embeddings_of(rng: np.random.Generator, n_ref: int, n_gen: int) -> tuple[np.ndarray, ...]:
    return tuple(rng.normal(size=size) for size in ((n_ref, 8), (n_gen, 8), (6,), (6,)))


def test_pairs_may_come_from_embeddings(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    embeddings = [embeddings_of(rng, *shape) for shape in [(5, 4), (3, 3), (5, 4), (4, 5), (5, 4)]]
    embeddings[2][0][1] = 0.0  # a zero vector has cosine 0
    for cells in (1, 200, 10_000):
        monkeypatch.setattr(metrics_core.arrays, "STACK_CELLS", cells)
        pairs = compute_pair_similarities(iter(embeddings))
        for (similarity, gas), each in zip(pairs, embeddings, strict=True):
            single, single_gas = compute_similarities(*each)
            np.testing.assert_allclose(similarity, single, rtol=0, atol=1e-14)
            assert gas == pytest.approx(single_gas, abs=1e-14)
        for result, each in zip(vcs_batch(pairs), embeddings, strict=True):
            assert not differences(asdict(result), asdict(vcs_from_embeddings(*each)))
    assert not pairs[2][0][1].any()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e200])
@pytest.mark.parametrize(
    ("position", "name"), enumerate(["reference_chunks", "generated_chunks", "reference_text", "generated_text"])
)
def test_unusable_embeddings_are_named(bad: float, position: int, name: str) -> None:
    good, broken = (embeddings_of(np.random.default_rng(5), 3, 4) for _ in range(2))
    broken[position].flat[-1] = bad
    with pytest.raises(ValueError, match=f"{name} of pair 1 holds NaN"):
        compute_pair_similarities([good, broken, good])
    with pytest.raises(ValueError, match=f"{name} holds NaN"):
        vcs_from_embeddings(*broken)


def test_embeddings_of_unequal_dimensions_are_named() -> None:
    good = embeddings_of(np.random.default_rng(5), 3, 4)
    with pytest.raises(ValueError, match="texts of pair 1 have 6 and 5 dimensions"):
        compute_pair_similarities([good, (*good[:3], np.ones(5))])


def test_nothing_in_nothing_out() -> None:
    assert vcs_batch([]) == []
    assert compute_pair_similarities([]) == []
    assert vcs_per_tolerance(np.eye(3), 1.0, []) == []


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        (([[np.nan]], 1.0), "similarity of pair 1 holds NaN"),
        ((np.empty((0, 3)), 1.0), "similarity of pair 1 is empty"),
        (([0.5], 1.0), "similarity of pair 1 has shape"),
        (([[0.5]], np.inf), "gas of pair 1 is inf"),
    ],
)
def test_an_unusable_pair_is_named(pair: tuple[Any, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        vcs_batch([(np.eye(3), 1.0), pair])


def test_unusable_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="lct is -1"):
        vcs_per_tolerance(np.eye(3), 1.0, [0, -1])
    with pytest.raises(ValueError, match="context_window_control is -1"):
        vcs_batch([], context_window_control=-1)
    with pytest.raises(ValueError, match="gas is nan"):
        vcs_per_tolerance(np.eye(3), np.nan, [0])


@pytest.mark.filterwarnings("default::metrics_core.vcs.checks.VCSWarning")
class TestWarnings:
    """Each comes once per call and points at the caller's line."""

    def test_similarities_that_are_no_cosines(self) -> None:
        pairs = [(np.full((3, 3), 1.5), 1.0), (np.full((4, 5), -1.5), 1.0)]
        for call in (
            lambda: vcs_batch(pairs),
            lambda: vcs_from_similarity(*pairs[1]),
            lambda: vcs_per_tolerance(*pairs[0], [0, 1]),
        ):
            with pytest.warns(VCSWarning, match=r"outside \[-1, 1\]") as caught:
                call()
            assert [warning.filename for warning in caught] == [__file__]

    def test_a_tolerance_between_0_and_1(self) -> None:
        for call in (
            lambda: vcs_batch([(np.eye(3), 1.0)] * 3, lct=0.1),
            lambda: vcs_from_similarity(np.eye(3), 1.0, lct=0.1),
            lambda: vcs_from_embeddings(np.eye(3), np.eye(3), [1.0], [1.0], lct=0.1),
            lambda: vcs_per_tolerance(np.eye(3), 1.0, [0.1, 0.5, 1]),
        ):
            with pytest.warns(VCSWarning, match="backward") as caught:
                call()
            assert [warning.filename for warning in caught] == [__file__]

    @pytest.mark.filterwarnings("error")
    def test_no_warning_of_rounding_whole_tolerances_and_always_zero_shapes(self) -> None:
        vcs_batch([(np.eye(3) * 1.004, 1.0), (np.eye(2), 1.0)], lct=2)
        vcs_per_tolerance(np.eye(1), 1.0, [0, 1])


@given(st.integers(0, 2**32 - 1), st.integers(1, 9), st.integers(1, 9), st.integers(1, 5))
def test_chunks_that_repeat_are_alike_to_the_last_bit(seed: int, n_reference: int, n_generated: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    words = rng.normal(size=(4, 384)).astype(np.float32)
    pairs = [
        (words[rng.integers(4, size=n_reference)], words[rng.integers(4, size=n_generated)], words[0], words[1])
        for _ in range(n)
    ]
    for (reference, generated, *_), (similarity, _) in zip(pairs, compute_pair_similarities(pairs), strict=True):
        for i, j in combinations(range(n_reference), 2):
            if (reference[i] == reference[j]).all():
                assert (similarity[i] == similarity[j]).all()
        for i, j in combinations(range(n_generated), 2):
            if (generated[i] == generated[j]).all():
                assert (similarity[:, i] == similarity[:, j]).all()
        np.testing.assert_allclose(similarity, unit(reference) @ unit(generated).T, atol=1e-6)


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_a_zero_vector_of_single_precision_has_cosine_0() -> None:
    chunks, text = np.array([[0, 0], [3, 4]], np.float32), np.array([1, 0], np.float32)
    similarity, gas = compute_similarities(chunks, chunks, text, text)
    assert similarity.dtype == np.float64
    assert similarity[0].tolist() == similarity[:, 0].tolist() == [0, 0]
    assert (similarity[1, 1], gas) == (pytest.approx(1, abs=1e-6), 1.0)
