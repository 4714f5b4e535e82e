"""Reelsieve's definitions beside somebody else's, and its component: names that meet, and attributes that are wrong."""

from __future__ import annotations

from typing import Any

import dagster as dg
import pytest

import reelsieve as rs
from assets.definitions.partitions import DATASETS
from orchestration.definitions import build_dataset_definitions
from reelsieve.dagster import definitions


@dg.asset
def model() -> None:
    """Somebody else's asset."""


def of_job(name: str) -> dg.Definitions:
    return dg.Definitions(assets=[model], jobs=[dg.define_asset_job(name, "model")])


def test_both_are_there() -> None:
    mine = dg.Definitions(
        assets=[model],
        resources={"mine": 1},
        loggers={"mine": dg.colored_console_logger},
        executor=dg.in_process_executor,
    )
    for merged in (definitions(mine), dg.Definitions.merge(mine, definitions())):
        keys = {key.to_user_string() for key in merged.resolve_all_asset_keys()}
        assert {"model", "vcs_score", "dataset_report"} <= keys
        assert {"mine", "curation"} <= set(merged.resources or {})
        names = {job.name for job in merged.resolve_all_job_defs()}
        assert "scoring_job" in names
        # It prunes an instance, which here is somebody else's.
        assert "prune_job" not in names
        assert all(sensor.name != "failures" for sensor in merged.sensors or ())


def test_jobs_keep_models_loaded_where_your_executor_is_another() -> None:
    merged = definitions(dg.Definitions(jobs=of_job("mine").jobs, assets=[model], executor=dg.multiprocess_executor))
    executors = {job.name: job.executor_def.name for job in merged.resolve_all_job_defs()}
    assert executors["mine"] == "multiprocess"
    jobs = [job.name for job in build_dataset_definitions().jobs or ()]
    assert "scoring_job" in jobs
    assert {executors[name] for name in jobs} == {"in_process"}


@pytest.mark.parametrize(
    ("mine", "sentence"),
    [
        (
            dg.Definitions(assets=[dg.AssetSpec("video")]),
            "asset video is in your definitions and Reelsieve's: rename yours, or give",
        ),
        (of_job("scoring_job"), "job scoring_job is in your definitions and Reelsieve's: rename yours"),
        (
            dg.Definitions(schedules=[dg.ScheduleDefinition(name="score_missing", cron_schedule="@daily", target="*")]),
            "schedule score_missing is in your definitions",
        ),
        (
            dg.Definitions(sensors=[dg.AutomationConditionSensorDefinition("inbox", target="*")]),
            "sensor inbox is in your definitions",
        ),
        (
            dg.Definitions(resources={"curation": 1}),
            "resource curation is in your definitions and Reelsieve's: rename yours",
        ),
        (
            dg.Definitions(
                assets=[dg.AssetSpec("mine", partitions_def=dg.DynamicPartitionsDefinition(name=DATASETS.name))]
            ),
            "dynamic partition set dataset is in your definitions",
        ),
        (definitions(), "asset agreement is in these definitions already: merge Reelsieve's only once"),
    ],
)
def test_a_name_that_both_have_is_one_sentence(mine: dg.Definitions, sentence: str) -> None:
    with pytest.raises(rs.ReelsieveError, match=r"^[^\n]*$") as error:
        definitions(mine)
    assert str(error.value).startswith(sentence)


ATTRIBUTES: dict[str, Any] = {
    "dataset": "my-clips.v2", "folder": "manifest", "metrics": ["ecs", "vcs"], "recipe": {"by": "vcs"}
}  # fmt: skip


def built(**attributes: Any) -> dg.Definitions:
    component = rs.Dataset.from_attributes_dict(attributes={**ATTRIBUTES, **attributes})
    return component.build_defs(dg.ComponentTree.for_test().load_context)


def test_a_dataset_is_assets_behind_its_name() -> None:
    graph = built().resolve_asset_graph()
    keys = {key.to_user_string().partition("/")[2] for key in graph.get_all_asset_keys()}
    scores = {"ecs_score", "vcs_score", "words_in_common_score", "cosine_score"}
    assert keys == {"sample", "text_embedding", "ecs_verdict", "training_subset"} | scores
    of = {name: graph.get(dg.AssetKey(["my-clips.v2", name])) for name in keys}
    assert {key.path[1] for key in of["ecs_score"].parent_keys} == {"sample", "ecs_verdict"}
    assert {key.path[1] for key in of["training_subset"].parent_keys} == scores
    assert {key.name for key in of["vcs_score"].check_keys} == {"coverage", "in_range", "not_constant", "inputs_fresh"}
    assert not any(each.is_partitioned for each in of.values())
    without = built(recipe=None).resolve_asset_graph()
    assert "training_subset" not in {key.path[1] for key in without.get_all_asset_keys()}


@pytest.mark.parametrize(
    ("attributes", "sentence"),
    [
        ({"metrics": ["vsc"]}, "there is no metric 'vsc', did you mean 'vcs'?"),
        ({"dataset": "my clips"}, "dataset name 'my clips': use letters, digits"),
        ({"recipe": {"by": "vcs", "kep": 1}}, "the recipe has no field 'kep', did you mean 'keep'?"),
    ],
)
def test_a_wrong_attribute_is_one_sentence(attributes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(rs.ReelsieveError, match=r"^[^\n]*$") as error:
        built(**attributes)
    assert str(error.value).startswith(sentence)
