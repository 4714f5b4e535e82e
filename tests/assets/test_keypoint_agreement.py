"""Decisions on keypoints in table agreement: held-out labels alone, beside answers that ignore the caption."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from assets.agreement.keypoints import KEYPOINTS_ASPECT, compute_keypoint_rows
from assets.definitions.agreement import format_agreement
from assets.scores.pending import store_scorer
from db import schema
from db.reports.judgements import LABELS_ASPECT
from db.scores.keypoint_decisions import KeypointDecision
from db.scores.store import activate_scorer
from metrics_core.agreement import AgreementRow
from tests.assets.reporting import agree
from tests.assets.test_calibrate import CHOSEN_ON, EVENTS, ITEMS, VIDEOS, calibrated, fill, idle
from tests.assets.verifying import Bench, filled_bench

Rows = dict[tuple[str, str, str], AgreementRow]
OTHERS = [video for video in VIDEOS if video not in CHOSEN_ON]


def activate(bench: Bench) -> None:
    """The captions of the thresholds' tests, with their scorer as the active one of ECS."""
    fill(bench, n_shards=1)
    with bench.engine.begin() as connection:
        activate_scorer(connection, store_scorer(bench.engine, idle()), [bench.dataset.dataset_id])


template = filled_bench(activate)


@pytest.fixture
def bench(engine: Engine, tmp_path: Path) -> Bench:
    return Bench(engine, tmp_path)


def stored(bench: Bench) -> Rows:
    rows = agree(bench.engine, bench.dataset, ["ecs"])
    return {(row.metric, row.aspect, row.statistic): row for row in rows if row.aspect.startswith("keypoints")}


def accuracy(videos: list[str], threshold: float) -> float:
    return statistics.fmean((p >= threshold) == covered for video, _, p, covered in ITEMS if video in videos)


def test_default_thresholds_are_tested_on_all_labels(bench: Bench) -> None:
    rows = stored(bench)
    found = rows["ecs", KEYPOINTS_ASPECT, "accuracy"]
    assert found.value == pytest.approx(accuracy(VIDEOS, 0.5))
    assert (found.n, found.n_undefined, found.n_stale, found.over) == (len(ITEMS), 0, 0, "keypoints")
    assert found.scorer_id == store_scorer(bench.engine, idle())
    assert found.low is not None
    assert found.low < found.value < found.high
    majority = rows["majority label", KEYPOINTS_ASPECT, "accuracy"]
    share = statistics.fmean(covered for *_, covered in ITEMS)
    assert (majority.value, majority.baseline) == (pytest.approx(max(share, 1 - share)), True)
    assert rows["always yes", KEYPOINTS_ASPECT, "f1"].value == pytest.approx(2 * share / (1 + share))
    events = [item for item in ITEMS if item[1] == EVENTS]
    assert rows["ecs", f"keypoints: {EVENTS} (labels)", "accuracy"].n == len(events)


def test_labels_that_chose_thresholds_are_left_out(bench: Bench) -> None:
    values = {name: found.at_least for name, found in calibrated(bench)[0].items()}
    bench.score(idle())
    right = [(p >= values[dimension]) == covered for video, dimension, p, covered in ITEMS if video in OTHERS]
    found = stored(bench)["ecs", KEYPOINTS_ASPECT, "accuracy"]
    assert (found.value, found.n) == (pytest.approx(statistics.fmean(right)), len(right))


def test_thresholds_chosen_on_all_labels_leave_none_to_test_on(bench: Bench) -> None:
    calibrated(bench, part="all")
    bench.score(idle())
    assert stored(bench) == {}


def test_stale_decisions_are_left_out_and_counted(bench: Bench) -> None:
    changed = sa.update(schema.keypoint).where(schema.keypoint.c.key == "v00 a")
    with bench.engine.begin() as connection:
        connection.execute(changed.values(text="something else"))
    found = stored(bench)["ecs", KEYPOINTS_ASPECT, "accuracy"]
    # All five decisions on the caption rest on the checklist that changed; the label on the text that changed is old.
    assert (found.n, found.n_undefined, found.n_stale) == (len(ITEMS) - 5, 4, 4)


def test_the_asset_shows_a_table_of_each_aspect(bench: Bench) -> None:
    shown = format_agreement(agree(bench.engine, bench.dataset, ["ecs"]))
    aspects = [name.removeprefix("aspect: ") for name in shown if name.startswith("aspect: ")]
    assert aspects == [
        LABELS_ASPECT,
        KEYPOINTS_ASPECT,
        "keypoints: camera_state (labels)",
        f"keypoints: {EVENTS} (labels)",
    ]
    table = str(shown[f"aspect: {KEYPOINTS_ASPECT}"].value)
    assert table.startswith("| decided by | statistic | value | 95 % interval over videos | answers |")
    assert f"| ecs | accuracy | {accuracy(VIDEOS, 0.5):.3f} |" in table
    assert format_agreement([])["agreement"].value == "no ratings and no labels"


def test_without_a_decision_rows_have_no_number() -> None:
    undecided = [KeypointDecision("ecs", 1, "v", "events", None, True, False, None)] * 3
    rows = compute_keypoint_rows(undecided, seed=0)
    assert {(row.value, row.low, row.n, row.n_undefined) for row in rows} == {(None, None, 0, 3)}
    assert compute_keypoint_rows([], seed=0) == []
