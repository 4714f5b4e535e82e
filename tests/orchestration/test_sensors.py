"""The sensors at work on Dagster's real storage: what they ask for, when, and what they leave alone."""

from __future__ import annotations

import os
import shutil
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import sqlalchemy as sa

from assets.datasets.lookup import BadDatasetName, require_dataset
from assets.definitions.partitions import build_range_tags
from db.selection.recipes import SizeMissing
from db.server.engine import open_engine
from db.server.urls import DAGSTER, build_sibling_url
from orchestration.attempts import FIRST_PAUSE, MAX_RUN_ATTEMPTS
from orchestration.conclusions import load_current_conclusions
from orchestration.installation import get_installation
from orchestration.jobs import CONCLUSION_ASSETS
from orchestration.launch import run_conclusions, run_ingest, run_scoring, run_subset
from orchestration.runs import get_definitions, run_job
from orchestration.sensors.conclusions import conclusions
from orchestration.sensors.inbox import SETTLED_AFTER_S, inbox
from tests.assets.manifests import candidate, write_clip
from tests.assets.manifests import write_manifest as tables
from tests.orchestration.conftest import Installation, write_manifest

pytestmark = pytest.mark.slow

NOTHING_NEWER = "no dataset has scores that are newer than its conclusions"


@pytest.fixture(autouse=True)
def _here(installation: Installation) -> None:
    """Every test works on the installation."""


def settle(folder: Path, seconds_ago: float = 2 * SETTLED_AFTER_S) -> None:
    """Let every file below a folder look as if it was written that long ago."""
    then = time.time() - seconds_ago
    for path in folder.rglob("*"):
        os.utime(path, (then, then))


def tick(sensor: dg.SensorDefinition) -> tuple[list[dg.RunRequest], str | None]:
    with (
        dg.build_sensor_context(
            get_installation().instance,
            resources={"curation": get_installation().curation},
            definitions=get_definitions(),
        ) as context,
        dg.partition_loading_context(dynamic_partitions_store=get_installation().instance),
    ):
        found = sensor.evaluate_tick(context)
    return list(found.run_requests or []), found.skip_message


def carry_out(job: str, request: dg.RunRequest) -> dg.ExecuteInProcessResult:
    """Run what a sensor asked for, as Dagster's daemon does."""
    return (
        get_definitions()
        .resolve_job_def(job)
        .execute_in_process(
            run_config=request.run_config,
            instance=get_installation().instance,
            partition_key=request.partition_key,
            tags=request.tags,
            raise_on_error=False,
        )
    )


def stored(dataset: str) -> dict[str, dict[str, Any]] | None:
    return load_current_conclusions(get_installation().instance, require_dataset(get_installation().engine, dataset))


def let_pass(pause: timedelta) -> None:
    """Date all runs back by so much."""
    storage = open_engine(build_sibling_url(get_installation().database_url, DAGSTER))
    with storage.begin() as connection:
        connection.execute(
            sa.text("UPDATE runs SET update_timestamp = update_timestamp - CAST(:pause AS interval)"),
            {"pause": f"{pause.total_seconds()} seconds"},
        )
    storage.dispose()


def rejects(dataset: str) -> list[str]:
    query = "SELECT code FROM ingest_reject JOIN dataset USING (dataset_id) WHERE name = :name ORDER BY code"
    with get_installation().engine.connect() as connection:
        return list(connection.scalars(sa.text(query), {"name": dataset}))


# Inbox


@pytest.fixture
def folder(installation: Installation) -> Path:
    """An inbox that is empty but for one folder without tables."""
    inside = installation.home / "inbox"
    shutil.rmtree(inside, ignore_errors=True)
    (inside / "posted").mkdir(parents=True)
    return inside / "posted"


def test_inbox_asks_once_for_a_settled_folder_and_again_when_it_changed(folder: Path) -> None:
    write_manifest(folder, n_videos=2, prefix="posted")
    # However slow the machine, it was written just now.
    settle(folder, -60)
    assert tick(inbox) == ([], "no folder in the inbox has changed, or the changes are less than 10 seconds old")

    settle(folder)
    (first,), _ = tick(inbox)
    assert first.partition_key == "posted"
    assert carry_out("ingest_job", first).success
    assert tick(inbox)[0] == []

    # A table that is put back from a copy changes although it is older than the others.
    os.utime(folder / "captions.jsonl", (0, 0))
    (changed,), _ = tick(inbox)
    assert changed.run_key != first.run_key
    # Keypoints are refused or not by the list of dimensions, so it counts as a table.
    (folder / "dimensions.json").write_text('["mood"]')
    os.utime(folder / "dimensions.json", (0, 0))
    (listed,), _ = tick(inbox)
    assert listed.run_key != changed.run_key


def test_a_failed_ingest_is_tried_again_after_a_growing_pause_and_not_for_ever(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tables(folder, ["late"], captions=[candidate("of late", "late", "A red ball rolls.")])
    # The list of dimensions is read as a whole, so a fault in it fails the ingest.
    (folder / "dimensions.json").write_text("{")
    settle(folder)
    keys = set()
    for failures in range(1, MAX_RUN_ATTEMPTS + 1):
        (request,), _ = tick(inbox)
        keys.add(request.run_key)
        assert not carry_out("ingest_job", request).success
        assert tick(inbox)[0] == [], "not at once"
        if failures < MAX_RUN_ATTEMPTS:
            let_pass(FIRST_PAUSE * 4 ** (failures - 1) - timedelta(minutes=1))
            assert tick(inbox)[0] == [], "not before the pause is over"
            let_pass(timedelta(minutes=1))
    assert len(keys) == MAX_RUN_ATTEMPTS, "Dagster starts no second run of a key"
    let_pass(timedelta(days=9))
    assert tick(inbox)[0] == []
    assert (
        f"the ingest of inbox folder 'posted' failed {MAX_RUN_ATTEMPTS} times: it is tried again once a file in the "
        "folder has changed" in capsys.readouterr().err
    )

    (folder / "dimensions.json").unlink()
    (mended,), _ = tick(inbox)
    assert carry_out("ingest_job", mended).success
    assert tick(inbox)[0] == []


def test_media_that_arrive_later_are_ingested_and_their_rejects_withdrawn(installation: Installation) -> None:
    inside = installation.home / "inbox"
    shutil.rmtree(inside, ignore_errors=True)
    folder = inside / "filmed"
    folder.mkdir(parents=True)
    videos = [{"video_id": "ball", "path": "videos/ball.avi"}]
    tables(folder, videos, captions=[candidate("of ball", "ball", "A red ball rolls.")])
    settle(folder)
    (early,), _ = tick(inbox)
    assert carry_out("ingest_job", early).success
    assert "file_missing" in rejects("filmed")
    assert tick(inbox)[0] == []

    (folder / "videos").mkdir()
    write_clip(folder / "videos" / "ball.avi")
    settle(folder / "videos", -60)
    assert tick(inbox)[0] == [], "the clip may still be on its way"
    settle(folder / "videos")
    (late,), _ = tick(inbox)
    assert carry_out("ingest_job", late).success
    assert rejects("filmed") == []
    assert tick(inbox)[0] == []


def test_no_other_folder_is_ingested_as_the_demo(installation: Installation) -> None:
    """Whoever starts the ingest, since the demo's encoder gives every dataset of this name a score."""
    with pytest.raises(BadDatasetName, match=r"'demo' is reserved for the videos of `reelsieve demo`: use another"):
        run_ingest(get_installation(), installation.manifest, "demo", None, None)


def test_inbox_warns_of_folders_that_are_no_data_sets(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inside = folder.parent
    (inside / "no table").mkdir()
    (inside / "piped").mkdir()
    write_manifest(inside / "piped", n_videos=1, prefix="piped")
    os.mkfifo(inside / "piped" / "qa.jsonl")
    (inside / "demo").mkdir()
    write_manifest(inside / "demo", n_videos=1, prefix="foreign")
    assert tick(inbox)[0] == []
    warnings = capsys.readouterr().err
    assert "inbox folder 'no table' is not ingested" in warnings
    assert "inbox folder 'demo' is not ingested: dataset name 'demo' is reserved" in warnings
    assert "table videos is missing" in warnings
    assert "qa.jsonl: it is a folder, a pipe or a device" in warnings


# Conclusions


def asked() -> set[str]:
    """The datasets whose conclusions the sensor asks for."""
    requests, _ = tick(conclusions)
    return {str(request.partition_key) for request in requests}


def test_conclusions_follow_the_scores_of_their_own_data_set(tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        run_ingest(get_installation(), write_manifest(tmp_path / name, n_videos=2, prefix=name), name, None, 1)
    assert tick(conclusions) == ([], NOTHING_NEWER), "without a score there is nothing to conclude"

    list(run_scoring(get_installation(), "first", ["vcs"]))
    assert asked() == {"first"}
    (request,), _ = tick(conclusions)
    assert carry_out("dataset_job", request).success
    assert tick(conclusions) == ([], NOTHING_NEWER)

    list(run_scoring(get_installation(), "second", ["vcs"]))
    assert asked() == {"second"}
    assert stored("second") is None
    drawn = run_conclusions(get_installation(), "second")
    assert asked() == set()
    assert stored("second") is None, "nobody has frozen a subset"
    subset = run_subset(get_installation(), "second", {"by": "vcs", "keep": 0.5})
    assert asked() == set()
    assert stored("second") == {**drawn, **subset}

    # New scores are waited for while a run of the dataset has not ended.
    list(run_scoring(get_installation(), "first", ["vcs_short"]))
    assert asked() == {"first"}
    assert stored("first") is None, "they are older than a score"
    run = get_installation().instance.create_run_for_job(
        get_definitions().resolve_job_def("scoring_job"), tags=build_range_tags(*["first:0000"] * 2)
    )
    assert asked() == set()
    get_installation().instance.report_run_canceled(run)
    assert asked() == {"first"}

    Path(drawn["dataset_report"]["path"]).unlink()
    assert stored("second") is None, "the page is gone"


def test_conclusions_follow_what_comes_while_they_are_drawn_and_trials(tmp_path: Path) -> None:
    run_ingest(get_installation(), write_manifest(tmp_path, n_videos=2, prefix="fourth"), "fourth", None, 1)
    list(run_scoring(get_installation(), "fourth", ["vcs"]))
    made(CONCLUSION_ASSETS[:1], "fourth")
    made(["vcs_score"], "fourth:0000")
    made(CONCLUSION_ASSETS[1:], "fourth")
    assert "fourth" in asked()
    made(CONCLUSION_ASSETS, "fourth")
    assert "fourth" not in asked()
    made(["selection_trial"], "fourth")
    assert "fourth" in asked(), "the report shows it"
    made(CONCLUSION_ASSETS, "fourth")
    assert "fourth" not in asked()


def made(assets: list[str], partition: str) -> None:
    """Tell Dagster that these assets were made, in this order."""
    for asset in assets:
        get_installation().instance.report_runless_asset_event(dg.AssetMaterialization(asset, partition=partition))


def test_conclusions_that_fail_are_tried_again_after_a_pause(tmp_path: Path) -> None:
    run_ingest(get_installation(), write_manifest(tmp_path, n_videos=2, prefix="third"), "third", None, 1)
    list(run_scoring(get_installation(), "third", ["vcs"]))
    (request,) = (each for each in tick(conclusions)[0] if each.partition_key == "third")
    job = get_definitions().resolve_job_def("dataset_job")
    get_installation().instance.report_run_failed(
        get_installation().instance.create_run_for_job(job, tags={**request.tags, **build_range_tags("third", "third")})
    )
    assert "third" not in asked()
    let_pass(FIRST_PAUSE)
    (again,) = (each for each in tick(conclusions)[0] if each.partition_key == "third")
    assert again.run_key != request.run_key


def test_a_data_set_without_scores_is_no_failure(tmp_path: Path) -> None:
    run_ingest(get_installation(), write_manifest(tmp_path, n_videos=2, prefix="bare"), "bare", None, 1)
    found = run_conclusions(get_installation(), "bare")
    assert set(found) == set(CONCLUSION_ASSETS)
    subset = run_subset(get_installation(), "bare", {"by": "vcs", "keep": 0.5})
    assert subset["training_subset"]["dagster/row_count"] == 0


def test_a_subset_without_a_size_is_refused_with_what_each_share_keeps(tmp_path: Path) -> None:
    """A job that nobody configured freezes nothing, and no conclusion waits for it."""
    run_ingest(get_installation(), write_manifest(tmp_path, n_videos=2, prefix="sized"), "sized", None, 1)
    list(run_scoring(get_installation(), "sized", ["vcs"]))
    assert "training_subset" not in run_conclusions(get_installation(), "sized")
    for config in ({}, {"ops": {"training_subset": {"config": {"recipe": {"by": "vcs"}}}}}):
        with pytest.raises(SizeMissing, match=r"the recipe has no size: of the .* samples of sized with vcs, a"):
            run_job(get_installation(), "subset_job", "sized", config)
    with get_installation().engine.connect() as connection:
        named = sa.text("SELECT count(*) FROM selection WHERE dataset_name = 'sized'")
        assert connection.scalar(named) == 0
