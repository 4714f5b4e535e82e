"""A small run of the simulation of few videos: noise claims nothing, knowledge does, and scales make no difference."""

from __future__ import annotations

import pytest

from benchmarks.few_videos import coverage, false_differences, true_values, with_claims


@pytest.mark.parametrize("n_videos", [2, 3, 9])
def test_below_ten_videos_nothing_is_claimed(n_videos: int) -> None:
    assert with_claims(n_videos, knowledge=3.0, n_reports=5, n_metrics=1) == 0


def test_noise_claims_hardly_ever_and_knowledge_mostly() -> None:
    # Of 30 reports 5 % are 1 or 2, and 6 are beyond three standard errors.
    assert with_claims(10, knowledge=0.0, n_reports=30, n_metrics=1) < 6 / 30
    assert with_claims(20, knowledge=2.0, n_reports=3, n_metrics=1) == 1


def test_intervals_of_three_videos_hold_the_truth() -> None:
    truths = true_values(1.0, 600)
    held = coverage(3, 1.0, 60, truths)
    assert held.keys() == truths.keys()
    assert all(share is not None and share >= 0.8 for share in held.values())


def test_another_scale_is_no_difference() -> None:
    # The swap of Pearson's r called three of four such sets different.
    assert false_differences(8, 20)["tau-b"] <= 2 / 8
