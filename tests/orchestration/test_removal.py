"""Dropping a dataset by the command line: what goes, what stays, and what Dagster knows afterwards."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import sqlalchemy as sa

from assets.definitions.partitions import DATASETS, SHARDS, build_range_tags
from db import schema
from db.manifest.datasets import find_dataset
from orchestration.installation import get_installation
from orchestration.launch import run_conclusions, run_ingest, run_scoring, run_subset
from orchestration.runs import get_definitions
from tests.command_line import run_command
from tests.orchestration.conftest import Installation, write_manifest

pytestmark = pytest.mark.slow

# What is known of texts, models and scorers belongs to no dataset.
OF_NO_DATASET = {
    *("model", "scorer", "text_embedding", "entailment", "keyword_set", "chat_reply", "chat_call", "view_definition"),
    "vector_file",
    *("selection", "selection_item", "selection_trial", "text_fact"),
}
METRICS = ["vcs", "ecs"]


@pytest.fixture(scope="module")
def scored(installation: Installation, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """Two scored datasets, the first with conclusions and a subset; the second one stays as it is."""
    other = write_manifest(tmp_path_factory.mktemp("other"), n_videos=3, prefix="other")
    for name, folder in (("first", installation.manifest), ("other", other)):
        run_ingest(get_installation(), folder, name, None, 2)
        list(run_scoring(get_installation(), name, METRICS))
    run_conclusions(get_installation(), "first")
    run_subset(get_installation(), "first", {"by": "vcs", "keep": 0.125})
    return installation


def counts() -> dict[str, int]:
    """The rows of all tables."""
    with get_installation().engine.connect() as connection:
        return {
            table.name: connection.scalar(sa.select(sa.func.count()).select_from(table)) or 0
            for table in schema.METADATA.sorted_tables
        }


def partitions() -> set[str]:
    return {
        key for each in (DATASETS, SHARDS) for key in get_installation().instance.get_dynamic_partitions(str(each.name))
    }


def newest(asset: str) -> dict[str, int]:
    made = dg.DagsterEventType.ASSET_MATERIALIZATION
    return dict(
        get_installation().instance.event_log_storage.get_latest_storage_id_by_partition(dg.AssetKey(asset), made)
    )


def exported(selection_id: int, path: Path) -> list[dict[str, Any]]:
    done = run_command("export", str(selection_id), "--to", str(path))
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in path.read_text().splitlines()]


def selection_of(name: str) -> int:
    query = sa.select(schema.selection.c.selection_id).where(schema.selection.c.dataset_name == name)
    with get_installation().engine.connect() as connection:
        return connection.execute(query).scalars().first() or 0


def test_a_dataset_at_work_is_not_dropped(scored: Installation) -> None:
    before = counts()
    job = get_definitions().resolve_job_def("scoring_job")
    run = get_installation().instance.create_run_for_job(job, tags=build_range_tags("other:0001", "other:0001"))
    done = run_command("dataset", "drop", "other", "--yes")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "a run of dataset 'other' has not ended: wait for it" in done.stderr
    get_installation().instance.delete_run(run.run_id)
    assert counts() == before


def test_drop_says_what_would_go_and_takes_yes(scored: Installation, tmp_path: Path) -> None:
    name = "first"
    selection, before = selection_of(name), counts()
    frozen = exported(selection, tmp_path / "before.jsonl")
    said = run_command("dataset", "drop", name)
    assert said.returncode == 0, said.stderr
    assert "12" in said.stdout
    assert "nothing was dropped: add --yes to drop dataset first" in said.stdout
    assert counts() == before
    done = run_command("dataset", "drop", "--dataset", name, "--yes", "--json")
    answer = json.loads(done.stdout)
    assert (answer["dropped"], answer["selections_stay"]) == (True, 1)
    assert answer["goes"]["videos"] == 12
    after = counts()
    with get_installation().engine.connect() as connection:
        other = find_dataset(connection, "other")
        assert other is not None
        for table, n in after.items():
            if table in OF_NO_DATASET:
                assert n == before[table], table
        assert connection.scalar(sa.select(sa.func.count()).select_from(schema.dataset)) == 1
        assert set(connection.scalars(sa.select(schema.sample.c.dataset_id))) == {other.dataset_id}
        assert set(connection.scalars(sa.select(schema.shard_count.c.dataset_id))) <= {other.dataset_id}
    assert after["score"] > 0
    assert partitions() == {"other", "other:0000", "other:0001"}
    of_dataset = {"duration_s", "collected_at", "opt_out", "segments", "references", "tags", "extra", "video_extra"}
    assert exported(selection, tmp_path / "after.jsonl") == [
        {name: None if name in of_dataset else value for name, value in row.items()} for row in frozen
    ]
    listed = json.loads(run_command("selections", "--dataset", name, "--json").stdout)["selections"]
    assert [row["selection"] for row in listed] == [selection]
    assert f"{name} (dropped)" in " ".join(run_command("selections").stdout.split())
    assert list(run_scoring(get_installation(), "other", METRICS)) == []
    assert run_command("dataset", "drop", name, "--yes").returncode == 1


def test_a_dropped_dataset_can_be_ingested_again(scored: Installation) -> None:
    run_command("dataset", "drop", "first", "--yes")
    report = run_ingest(get_installation(), scored.manifest, "first", None, 2)
    assert report.accepted["videos"] == 12
    assert sum(written["vcs"] for _, written in run_scoring(get_installation(), "first", ["vcs"])) > 0
