"""Training trials: planted noise, retrieval, the student, and comparisons against independent computations."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from metrics_core.trial.comparison import compare_arms, compute_detectable_difference
from metrics_core.trial.noise import plant_noise
from metrics_core.trial.student import (
    HeldOutPairs,
    StudentSettings,
    TooFewRows,
    TrainingPairs,
    _compute_loss,
    _list_checks,
    _measure_ranks,
    compute_chance,
    find_best_step,
    measure_retrieval,
    train_student,
)

QUICK = StudentSettings(hidden=32, width=16, max_steps=64, batch=32)


@given(st.lists(st.integers(0, 9), max_size=60), st.floats(0, 1), st.integers(0, 99))
def test_planted_noise_loses_no_text_and_leaves_no_chosen_text_at_its_video(
    videos: list[int], share: float, seed: int
) -> None:
    numbers = np.array(videos, dtype=np.int64)
    source = plant_noise(numbers, share, seed)
    assert sorted(source.tolist()) == list(range(len(videos)))
    moved = source != np.arange(len(videos))
    assert (numbers[source[moved]] != numbers[moved]).all()
    assert moved.sum() <= round(share * len(videos))


def test_planted_noise_has_the_share_asked_for() -> None:
    videos = np.repeat(np.arange(200), 5)
    assert (videos[plant_noise(videos, 0.4, 0)] != videos).mean() == pytest.approx(0.4)
    with pytest.raises(ValueError, match="from 0 to 1"):
        plant_noise(videos, 1.5, 0)


@given(st.integers(1, 12), st.integers(0, 10_000))
def test_ranks_are_those_of_a_walk_through_the_sorted_row(n: int, seed: int) -> None:
    similarities = np.random.default_rng(seed).integers(0, 4, (n, n)).astype(np.float64)
    found = _measure_ranks(similarities)
    for i in range(n):
        ranks = []
        for row in (similarities[i], similarities[:, i]):
            places = [place for place, value in enumerate(sorted(row, reverse=True), 1) if value == row[i]]
            ranks.append(sum(places) / len(places))
        assert found.reciprocal_rank[i] == pytest.approx(sum(1 / rank for rank in ranks) / 2)
        assert found.recall_at_1[i] == sum(rank <= 1 for rank in ranks) / 2
        assert found.recall_at_5[i] == sum(rank <= 5 for rank in ranks) / 2


def test_chance_is_the_mean_reciprocal_rank_of_random_numbers() -> None:
    rng = np.random.default_rng(0)
    drawn = [_measure_ranks(rng.normal(size=(30, 30))).reciprocal_rank.mean() for _ in range(300)]
    assert np.mean(drawn) == pytest.approx(compute_chance(30), abs=0.005)


def test_the_loss_is_info_nce_without_other_captions_of_the_same_video() -> None:
    import torch

    rng = np.random.default_rng(3)
    logits, videos = rng.normal(size=(5, 5)), [0, 1, 0, 2, 2]
    total = 0.0
    for matrix in (logits, logits.T):
        for i in range(5):
            kept = [j for j in range(5) if j == i or videos[j] != videos[i]]
            total -= matrix[i, i] - np.log(sum(np.exp(matrix[i, j]) for j in kept))
    found = _compute_loss(torch.tensor(logits), torch.tensor(videos))
    assert float(found) == pytest.approx(total / 10)


def make_world(n_videos: int, captions: int, noise: float, seed: int) -> tuple[TrainingPairs, np.ndarray, np.ndarray]:
    """Pairs whose captions are a noisy image of their video; the videos' vectors, and a clean text's for each."""
    rng = np.random.default_rng(seed)
    videos = rng.normal(size=(n_videos, 24)).astype(np.float32)
    image = np.random.default_rng(7).normal(size=(24, 40)).astype(np.float32)
    numbers = np.repeat(np.arange(n_videos), captions)
    texts = videos[numbers] @ image + rng.normal(size=(len(numbers), 40)).astype(np.float32)
    clean = videos @ image + 0.5 * rng.normal(size=(n_videos, 40)).astype(np.float32)
    return TrainingPairs(texts[plant_noise(numbers, noise, seed)], numbers), videos, clean


def hold_out(n_videos: int, seed: int) -> HeldOutPairs:
    _, videos, clean = make_world(n_videos, 1, 0.0, seed)
    return HeldOutPairs(clean, videos)


def run_arm(noise: float, seeds: int = 5) -> np.ndarray:
    """Reciprocal ranks (seeds, test videos) of students trained on 300 videos, tested on 80 others."""
    validation, test = hold_out(50, 98), hold_out(80, 99)
    rows = []
    for seed in range(seeds):
        pairs, vectors, _ = make_world(300, 2, noise, 5)
        student = train_student(pairs, vectors, validation, seed, QUICK)
        rows.append(measure_retrieval(student, test).reciprocal_rank)
    return np.array(rows)


def test_a_student_is_its_seed_and_learns() -> None:
    pairs, videos, clean = make_world(200, 2, 0.0, 1)
    first, again, other = (train_student(pairs, videos, hold_out(50, 3), seed, QUICK) for seed in (4, 4, 5))
    assert np.array_equal(first.encode_captions(clean), again.encode_captions(clean))
    assert not np.allclose(first.encode_captions(clean), other.encode_captions(clean))
    assert np.linalg.norm(first.encode_videos(videos), axis=1) == pytest.approx(1, abs=1e-5)
    assert measure_retrieval(first, hold_out(80, 2)).reciprocal_rank.mean() > 5 * compute_chance(80)


def test_a_student_is_the_one_of_its_best_check_and_training_ends_when_none_is_better() -> None:
    """Captions of other videos are learned by heart: the student is best early, and far worse when training ends."""
    pairs, videos, _ = make_world(60, 2, 0.6, 1)
    validation = hold_out(60, 3)
    student = train_student(pairs, videos, validation, 0, StudentSettings(hidden=64, width=16, batch=32))
    checks, best = list(student.curve), find_best_step(student.curve)
    assert checks == _list_checks(4096)[: len(checks)]
    assert len(checks) - 1 - checks.index(best) == 4
    assert measure_retrieval(student, validation).reciprocal_rank.mean() == pytest.approx(student.curve[best])
    stopped = train_student(
        pairs, videos, validation, 0, StudentSettings(hidden=64, width=16, batch=32, max_steps=best)
    )
    assert np.array_equal(stopped.encode_videos(videos), student.encode_videos(videos))


def test_an_arm_smaller_than_a_batch_is_refused() -> None:
    pairs, videos, _ = make_world(10, 1, 0.0, 1)
    with pytest.raises(TooFewRows, match="10 rows are fewer than a batch of 32"):
        train_student(pairs, videos, hold_out(9, 2), 0, QUICK)
    with pytest.raises(ValueError, match="give \\(n, d\\) and \\(n,\\)"):
        TrainingPairs(pairs.captions, pairs.videos[1:])


def test_planted_noise_is_found_in_its_order_and_a_copy_is_not() -> None:
    clean, some, much = (run_arm(noise) for noise in (0.0, 0.4, 0.8))
    found = compare_arms(clean, {"some": some, "much": much, "copy": clean})
    assert [found[name].conclusion for name in ("some", "much")] == ["better", "better"]
    assert found["much"].value > found["some"].value > 0
    assert found["copy"].value == 0
    assert found["copy"].conclusion == "no difference"


def draw_differences(rng: np.random.Generator, of_seeds: float, of_videos: float, of_both: float) -> np.ndarray:
    """Differences (5, 100) of two equal arms, whose noise has a part of seeds, of videos, and of both together."""
    part = of_seeds * rng.normal(size=(5, 1)) + of_videos * rng.normal(size=(1, 100))
    return part + of_both * rng.normal(size=(5, 100))


@pytest.mark.parametrize(
    "noise", [(0.0, 0.0, 0.3), (0.05, 0.0, 0.3), (0.02, 0.1, 0.3), (0.1, 0.1, 0.3), (0.05, 0.0, 0.05)]
)
def test_equal_arms_differ_in_at_most_a_twentieth(noise: tuple[float, float, float]) -> None:
    rng = np.random.default_rng(11)
    null = np.zeros((5, 100))
    wrong = [
        compare_arms(draw_differences(rng, *noise), {"other": null})["other"].conclusion in ("better", "worse")
        for _ in range(1000)
    ]
    # Three standard errors of a share of .05 in 1,000 draws.
    assert np.mean(wrong) <= 0.05 + 3 * (0.05 * 0.95 / 1000) ** 0.5


@pytest.mark.parametrize("noise", [(0.01, 0.0, 0.1), (0.01, 0.1, 0.1), (0.0, 0.2, 0.05)])
def test_a_detectable_difference_is_detected_in_four_of_five(noise: tuple[float, float, float]) -> None:
    """Also where arms differ from video to video in a way that no seed shows."""
    rng = np.random.default_rng(5)
    hits = []
    for _ in range(300):
        random = 0.3 + draw_differences(rng, *noise)
        arm = 0.3 + draw_differences(rng, *noise)
        least = compute_detectable_difference(arm, random)
        third = 0.3 + draw_differences(rng, *noise)
        hits.append(
            compare_arms(0.3 + draw_differences(rng, *noise) + least, {"other": third})["other"].conclusion == "better"
        )
    assert 0.7 < np.mean(hits) < 0.95
    with pytest.raises(ValueError, match="of two or more seeds"):
        compute_detectable_difference(np.zeros((1, 9)), np.zeros((1, 9)))


def test_no_number_of_videos_is_named_where_seeds_vary_too_much() -> None:
    by_seed = np.repeat(np.array([[0.02], [-0.03], [0.06], [-0.05], [0.03]]), 60, axis=1)
    found = compare_arms(0.3 + by_seed, {"other": np.full((5, 60), 0.3)})["other"]
    assert (found.conclusion, found.n_more_videos) == ("open", 0)


def test_an_open_comparison_names_the_videos_that_it_needs() -> None:
    rng = np.random.default_rng(2)
    arm = 0.02 + 0.3 * rng.normal(size=(5, 60))
    found = compare_arms(arm, {"other": np.zeros((5, 60))})["other"]
    assert found.conclusion == "open"
    assert found.n_more_videos > 0
    likely = 0.03 + draw_differences(np.random.default_rng(3), 0.0, 0.0, 0.2)
    null = np.zeros_like(likely)
    alone = compare_arms(likely, {"other": null})["other"]
    among = compare_arms(likely, {str(i): null for i in range(200)})["0"]
    assert (alone.conclusion, among.conclusion, among.n_more_videos) == ("better", "open", 0)
    assert compare_arms(np.ones((5, 9)), {"other": np.ones((5, 9))})["other"].conclusion == "no difference"
    with pytest.raises(ValueError, match="give \\(seeds, videos\\) of both"):
        compare_arms(arm, {"other": arm[:, 1:]})


def test_measures_in_total_are_compared_by_seed() -> None:
    rng = np.random.default_rng(3)
    arm, other = rng.normal(0.5, 0.02, (6, 1)), rng.normal(0.4, 0.02, (6, 1))
    by_hand = stats.ttest_rel(arm[:, 0], other[:, 0])
    found = compare_arms(arm, {"other": other})["other"]
    assert (found.p, found.conclusion) == (pytest.approx(by_hand.pvalue), "better")
    interval = by_hand.confidence_interval()
    assert (found.low, found.high) == (pytest.approx(interval.low), pytest.approx(interval.high))
    near = compare_arms(arm, {"near": arm + rng.normal(0, 0.2, (6, 1))})["near"]
    assert (near.conclusion, near.n_more_videos) == ("open", 0)
