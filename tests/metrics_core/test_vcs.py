"""VCS against the authors' recorded results, a second implementation, hand-made cases and its symmetry."""

from __future__ import annotations

import json
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import metrics_core.vcs
from metrics_core.vcs import (
    VCSResult,
    choose_best_reference,
    chunk_segments,
    vcs_from_embeddings,
    vcs_from_similarity,
)
from metrics_core.vcs.geometry import build_geometry
from tests.metrics_core import vcs_oracle


def differences(actual: dict[str, Any], expected: dict[str, Any], where: str = "") -> list[str]:
    """Fields that differ: real numbers by more than 1e-9, everything else at all."""
    found = [f"{where}: fields {set(actual) ^ set(expected)}"] if set(actual) != set(expected) else []
    for name in actual.keys() & expected.keys():
        mine, theirs = actual[name], expected[name]
        if isinstance(theirs, dict):
            found += differences(mine, theirs, f"{where}.{name}")
        elif isinstance(theirs, float):
            found += [] if abs(mine - theirs) <= 1e-9 else [f"{where}.{name}: {mine!r}, expected {theirs!r}"]
        elif np.shape(mine) != np.shape(theirs) or not np.array_equal(mine, theirs):
            found.append(f"{where}.{name}: {mine!r}, expected {theirs!r}")
    return found


def test_equals_the_authors_code_on_every_golden_case(shared_data: Path) -> None:
    found, n_cases = [], 0
    with (shared_data / "golden" / "vcs.jsonl").open(encoding="utf-8") as lines:
        for case in map(json.loads, lines):
            given_parameters = case["params"]
            result = vcs_from_similarity(
                case["sim"],
                case["gas"],
                lct=given_parameters["lct"],
                context_cutoff=given_parameters["context_cutoff_value"],
                context_window_control=given_parameters["context_window_control"],
            )
            del case["expected"]["warnings"]
            found += differences(asdict(result), case["expected"], case["id"])
            n_cases += 1
    assert n_cases == 270
    assert not found, "\n".join(found[:20])


@st.composite
def problems(draw: st.DrawFn) -> tuple[np.ndarray, float, dict[str, float]]:
    """Matrices up to 14 x 14, many with ties (coarse values) and with negative similarities."""
    shape = (draw(st.integers(1, 14)), draw(st.integers(1, 14)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    low, high = draw(st.sampled_from([(0.0, 1.0), (-1.0, 1.0), (-1.0, -0.1), (0.85, 1.0), (0.0, 0.5), (0.5, 1.2)]))
    matrix = rng.uniform(low, high, shape)
    if draw(st.booleans()):
        pull = draw(st.sampled_from([0.3, 1.0]))
        order = np.arange(shape[0]) if draw(st.booleans()) else rng.permutation(shape[0])
        along = np.minimum(order * shape[1] // shape[0], shape[1] - 1)
        matrix[np.arange(shape[0]), along] += pull * (1.0 - matrix[np.arange(shape[0]), along])
    decimals = draw(st.sampled_from([0, 1, 2, 17]))
    parameters = {
        "lct": draw(st.sampled_from([0, 0.1, 0.5, 1, 2, 3])),
        "context_cutoff": draw(st.sampled_from([0.0, 0.3, 0.6, 0.8, 1.0])),
        "context_window_control": draw(st.sampled_from([0.0, 0.5, 1.0, 4.0, 20.0])),
    }
    return np.round(matrix, decimals), draw(st.sampled_from([-0.3, 0.0, 0.5, 0.9, 1.0])), parameters


@given(problems())
def test_equals_the_plain_second_implementation(problem: tuple[np.ndarray, float, dict[str, float]]) -> None:
    matrix, gas, parameters = problem
    result = vcs_from_similarity(matrix, gas, **parameters)
    # Where precision and recall of LAS all but cancel, the last bit of their sums decides LAS and SAS.
    total = result.las_precision + result.las_recall
    assume(total == result.las_precision == 0.0 or (abs(total) > 1e-3 and abs(result.las) > 1e-5))
    expected = vcs_oracle.vcs(matrix.tolist(), gas, **parameters)
    assert not differences(asdict(result), expected)


@given(problems())
def test_swapping_the_texts_swaps_precision_and_recall(
    problem: tuple[np.ndarray, float, dict[str, float]],
) -> None:
    matrix, gas, parameters = problem
    result = asdict(vcs_from_similarity(matrix, gas, **parameters))
    swapped = asdict(vcs_from_similarity(matrix.T, gas, **parameters))
    exchange = {"precision": "recall", "recall": "precision"}
    renamed = {"_".join(exchange.get(part, part) for part in name.split("_")): value for name, value in swapped.items()}
    assert not differences(renamed, result)


@pytest.mark.parametrize("shape", [(30, 22), (22, 30), (58, 50), (45, 33), (60, 7), (3, 40), (40, 1)])
def test_larger_and_rounding_sensitive_shapes(shape: tuple[int, int]) -> None:
    matrix = np.random.default_rng(7).uniform(0, 1, shape)
    expected = vcs_oracle.vcs(matrix.tolist(), 0.9, lct=1, context_cutoff=0.6, context_window_control=4.0)
    assert not differences(asdict(vcs_from_similarity(matrix, 0.9, lct=1)), expected)


def test_window_start_follows_the_float_product() -> None:
    assert build_geometry(30, 22).precision.window_pairs[11] == (14, 16)  # exact division would give 15


@pytest.mark.parametrize(
    ("n", "vcs", "always_zero"), [(1, 0.0, True), (2, 0.0, True), (3, 1.0, False), (10, 1.0, False)]
)
def test_identical_stories(n: int, vcs: float, always_zero: bool) -> None:
    result = vcs_from_similarity(np.eye(n), 1.0)
    assert (result.vcs, result.las, result.nas_l) == (vcs, 1.0, 1.0)
    assert result.match_precision == result.match_recall == tuple(range(n))
    assert result.always_zero is always_zero


def test_two_by_two_by_hand() -> None:
    """Both generated chunks match reference chunk 1: offset 1 of at most 2, line 1 against sqrt 2."""
    result = vcs_from_similarity([[0.0, 0.0], [1.0, 1.0]], 1.0)
    assert result.match_precision == (1, 1)
    assert result.match_recall == (0, 1)  # a constant row keeps each chunk in its window
    assert result.las_precision == 1.0
    assert result.las_recall == 0.5
    assert result.las == pytest.approx(2 / 3)
    assert (result.nas_d_precision, result.nas_d_recall) == (0.5, 1.0)
    assert result.nas_l_precision == pytest.approx(1 / 2**0.5)
    assert result.vcs == 0.0


@pytest.mark.parametrize(
    ("lct", "nas_l", "vcs", "step_rule"),
    [(0, 0.0, 0.0, "-" * 9), (0.1, 1.0, 4 / 9, "s" * 9), (1, 1.0, 11 / 23, "s" * 9)],
)
def test_reversed_story(lct: float, nas_l: float, vcs: float, step_rule: str) -> None:
    """10 chunks told backwards: offsets 9 7 5 3 1 1 3 5 7 9 sum to 50, the worst possible to 70.

    NAS-D = 2/7 at lct 0.1, and 1 - 48/70 = 11/35 at lct 1, which forgives the two offsets of 1. With NAS-L 1
    the F1 are 4/9 and 11/23.
    """
    result = vcs_from_similarity(np.eye(10)[::-1], 1.0, lct=lct)
    assert result.nas_l == pytest.approx(nas_l)
    assert result.vcs == pytest.approx(vcs)
    assert result.nas_l_detail_recall.step_rule == step_rule


def test_nearer_match_is_taken_only_above_the_cutoff() -> None:
    """Column 0: maximum 0.9 leaves room 0.3, so the context is 0.3 / 0.9 / 4 = 0.0833: 0.82 in, 0.81 out."""
    inside, outside = np.eye(3), np.eye(3)
    inside[:, 0], outside[:, 0] = (0.82, 0.0, 0.9), (0.81, 0.0, 0.9)
    assert vcs_from_similarity(inside, 1.0).match_precision[0] == 0
    assert vcs_from_similarity(outside, 1.0).match_precision[0] == 2
    assert vcs_from_similarity(outside, 1.0, context_cutoff=0.95).match_precision[0] == 2
    assert vcs_from_similarity(outside, 1.0, context_window_control=0).match_precision[0] == 0


def test_equally_distant_candidates_go_to_the_more_similar_then_to_the_lower() -> None:
    matrix = np.eye(3)
    matrix[:, 1] = (0.88, 0.0, 0.9)
    assert vcs_from_similarity(matrix, 1.0).match_precision[1] == 2
    matrix[:, 1] = (0.9, 0.0, 0.9)
    assert vcs_from_similarity(matrix, 1.0).match_precision[1] == 0


def test_shapes_that_are_always_zero() -> None:
    zero = {(r, g) for r in range(1, 13) for g in range(1, 13) if vcs_from_similarity(np.ones((r, g)), 1.0).always_zero}
    assert zero == {(r, g) for r in range(1, 13) for g in range(1, 13) if min(r, g) <= 2} | {(3, 4), (4, 3)}


@given(problems())
def test_always_zero_means_zero(problem: tuple[np.ndarray, float, dict[str, float]]) -> None:
    matrix, gas, parameters = problem
    result = vcs_from_similarity(matrix, gas, **parameters)
    if result.always_zero:  # SAS may exceed 1 by rounding, the more the smaller LAS is
        assert result.vcs * max(result.las, 0.0) < 1e-14
    assert result.margin == pytest.approx(result.sas + result.nas - 1)


def test_result_holds_plain_python_values() -> None:
    def plain(value: object) -> bool:
        if isinstance(value, dict):
            return all(map(plain, value.values()))
        if isinstance(value, tuple):
            return all(map(plain, value))
        return type(value) in (float, int, str, type(None))

    result = vcs_from_similarity(np.eye(5, 7, dtype=np.float32), np.float32(0.5))
    assert plain(asdict(result))
    assert all(type(getattr(result, f.name)) is float for f in fields(result) if f.type == "float")
    assert type(result.margin) is float
    assert type(result.always_zero) is bool


def test_float32_input_gives_the_same_score() -> None:
    matrix = np.random.default_rng(3).uniform(0, 1, (20, 13))
    exact, rounded = (vcs_from_similarity(m, 0.95, lct=1) for m in (matrix, matrix.astype(np.float32)))
    assert rounded.vcs == pytest.approx(exact.vcs, abs=1e-6)
    assert rounded.match_precision == exact.match_precision


def test_input_is_left_as_it_was() -> None:
    matrix = np.random.default_rng(3).uniform(0, 1, (6, 4))
    before = matrix.copy()
    vcs_from_similarity(matrix, 0.9)
    assert np.array_equal(matrix, before)


@given(st.integers(0, 2**32), st.floats(0.01, 100))
def test_embeddings_of_any_length_give_cosines(seed: int, scale: float) -> None:
    rng = np.random.default_rng(seed)
    reference, generated = rng.uniform(0.1, 1, (6, 5)), rng.uniform(0.1, 1, (4, 5))
    texts = rng.uniform(0.1, 1, (2, 8))
    cosine = [[float(r @ g) / (sum(r * r) ** 0.5 * sum(g * g) ** 0.5) for g in generated] for r in reference]
    gas = float(texts[0] @ texts[1]) / (sum(texts[0] ** 2) ** 0.5 * sum(texts[1] ** 2) ** 0.5)
    result = vcs_from_embeddings(reference * scale, generated, texts[0], texts[1] / scale, lct=1)
    expected = vcs_from_similarity(cosine, gas, lct=1)
    assert not differences(asdict(result), asdict(expected))


def test_zero_vectors_have_cosine_zero() -> None:
    result = vcs_from_embeddings(np.zeros((3, 4)), np.ones((3, 4)), np.zeros(4), np.ones(4))
    assert (result.gas, result.las, result.vcs) == (0.0, 0.0, 0.0)


def test_identical_embeddings_never_score_above_one() -> None:
    for seed in range(20):
        vectors = np.random.default_rng(seed).normal(size=(8, 33)).astype(np.float32)
        result = vcs_from_embeddings(vectors, vectors, vectors[0], vectors[0])
        assert result.gas <= 1.0
        assert result.las <= 1.0
        assert result.vcs == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("similarity", "gas", "parameters", "message"),
    [
        ([], 1.0, {}, "similarity is empty"),
        (np.empty((0, 3)), 1.0, {}, "at least one chunk"),
        (np.empty((3, 0)), 1.0, {}, "at least one chunk"),
        ([0.5, 0.5], 1.0, {}, "give a matrix"),
        ([[0.5, float("nan")]], 1.0, {}, "NaN or infinite"),
        ([[0.5, float("-inf")]], 1.0, {}, "NaN or infinite"),
        ([[0.5]], float("nan"), {}, "gas is nan"),
        ([[0.5]], 1.0, {"lct": -0.1}, "lct is -0.1"),
        ([[0.5]], 1.0, {"lct": float("nan")}, "lct is nan"),
        ([[0.5]], 1.0, {"context_cutoff": float("inf")}, "context_cutoff is inf"),
        ([[0.5]], 1.0, {"context_window_control": -1.0}, "context_window_control is -1.0"),
    ],
)
def test_unusable_input_is_refused(similarity: Any, gas: float, parameters: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        vcs_from_similarity(similarity, gas, **parameters)


def test_unusable_embeddings_are_refused() -> None:
    chunks, text = np.ones((3, 4)), np.ones(4)
    with pytest.raises(ValueError, match="generated_chunks is empty"):
        vcs_from_embeddings(chunks, np.empty((0, 4)), text, text)
    with pytest.raises(ValueError, match="reference_text has shape"):
        vcs_from_embeddings(chunks, chunks, chunks, text)
    with pytest.raises(ValueError, match="chunks have 4 and 5 dimensions"):
        vcs_from_embeddings(chunks, np.ones((3, 5)), text, text)
    with pytest.raises(ValueError, match="texts have 4 and 5 dimensions"):
        vcs_from_embeddings(chunks, chunks, text, np.ones(5))
    with pytest.raises(ValueError, match="generated_text holds NaN"):
        vcs_from_embeddings(chunks, chunks, text, text * np.nan)


def test_chunks() -> None:
    assert chunk_segments(["a", "b", "c", "d", "e"], 2) == ["a b", "c d", "e"]
    assert chunk_segments(["a", "b"]) == ["a", "b"]
    assert chunk_segments(["a", "b"], 9) == ["a b"]
    assert chunk_segments([]) == []
    for size in (0, -1):
        with pytest.raises(ValueError, match="1 or more"):
            chunk_segments(["a"], size)


def scored(vcs: float, sas: float, nas: float) -> VCSResult:
    return replace(vcs_from_similarity(np.eye(3), 1.0), vcs=vcs, sas=sas, nas=nas)


def test_best_reference() -> None:
    low, high = scored(0.1, 0.6, 0.5), scored(0.4, 0.7, 0.7)
    near, far = scored(0.0, 0.5, 0.4), scored(0.0, 0.2, 0.3)
    assert choose_best_reference([low, high]) == 1
    assert choose_best_reference([far, near, near]) == 1
    assert choose_best_reference([near]) == 0
    with pytest.raises(ValueError, match="at least one reference"):
        choose_best_reference([])


def test_public_surface() -> None:
    assert metrics_core.vcs.__all__ == [
        "DistanceDetail",
        "LineDetail",
        "VCSCaptionResult",
        "VCSResult",
        "VCSWarning",
        "choose_best_reference",
        "chunk_segments",
        "split_content_words",
        "vcs_batch",
        "vcs_captions",
        "vcs_from_embeddings",
        "vcs_from_similarity",
        "vcs_per_tolerance",
        "vcs_short",
    ]
