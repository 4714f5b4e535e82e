"""The plan: what can be made of counts, by every metric as the default settings make it."""

from __future__ import annotations

import pytest

from assets.holdings import Holdings
from assets.home import DEMO_DATASET
from assets.plan import Plan, make_plan
from assets.scores.base import Scorer
from assets.scores.registry import METRICS, SCORERS
from orchestration.settings import settings


@pytest.fixture(scope="module")
def scorers() -> dict[str, Scorer]:
    settings.cache_clear()
    return {metric: SCORERS[metric].from_settings(settings()) for metric in METRICS}


def needs(plan: Plan, metric: str) -> str:
    """The line about what a metric lacks."""
    (line,) = (line for line in plan.lines() if line.startswith(f"{metric} needs "))
    return line


def test_of_bare_captions_no_metric_can_say_anything(scorers: dict[str, Scorer]) -> None:
    plan = make_plan(Holdings(videos=2, files=2, captions=2), scorers)
    assert plan.metrics == ()
    assert set(plan.needs) == set(METRICS)
    assert needs(plan, "vcs") == "vcs needs references: none found"
    assert "REELSIEVE_IMAGE_TEXT_ENCODER" in needs(plan, "evqa")
    assert needs(plan, "qeva").startswith("qeva needs references or keypoints or another model than ")
    assert "REELSIEVE_QEVA_VIDEO_MODEL" in needs(plan, "qeva")


@pytest.mark.parametrize(
    ("holdings", "metrics"),
    [
        (Holdings(1, 0, 1, references=1), {"vcs", "vcs_short", "qeva"}),
        (Holdings(1, 0, 1, keypoints=1), {"ecs", "qeva"}),
        (Holdings(1, 1, 0, references=1, keypoints=1), set()),
        (Holdings(1, 1, 1, 1, 1, dataset="mine"), {"vcs", "vcs_short", "ecs", "qeva"}),
        (Holdings(1, 1, 1, 1, 1, dataset=DEMO_DATASET), set(METRICS)),
    ],
)
def test_a_metric_can_score_where_its_inputs_are(
    scorers: dict[str, Scorer], holdings: Holdings, metrics: set[str]
) -> None:
    plan = make_plan(holdings, scorers)
    assert set(plan.metrics) == metrics
    assert set(plan.needs) == set(METRICS) - metrics


def test_a_model_that_sees_videos_needs_videos_too(scorers: dict[str, Scorer]) -> None:
    plan = make_plan(Holdings(videos=1, files=0, captions=1), scorers)
    assert needs(plan, "evqa").startswith("evqa needs videos and another model than 'demo encoder', ")
    assert needs(plan, "qeva").startswith("qeva needs references or keypoints or videos and another model than ")
    assert "facts: 7 of texts, without a model" in list(plan.lines())


def test_the_time_grows_with_what_is_to_be_read_and_scored(scorers: dict[str, Scorer]) -> None:
    def seconds(holdings: Holdings) -> float:
        plan = make_plan(holdings, scorers)
        assert plan.seconds is not None
        assert list(plan.lines())[-1].startswith("time: about ")
        return plan.seconds

    small = seconds(Holdings(2, 2, 2, size_bytes=10**6))
    assert small < seconds(Holdings(2, 2, 2, size_bytes=10**8))
    assert small < seconds(Holdings(2, 2, 2, references=2, size_bytes=10**6))
    assert make_plan(Holdings(2, 2, 2), scorers).seconds is None
