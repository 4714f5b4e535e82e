"""Checks with one result for every shard of a run, in real runs of Dagster over one shard and over several."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest

from assets.datasets.lookup import RunShard
from assets.definitions.partitions import SHARDS, build_range_tags
from assets.definitions.results import RunResults
from assets.definitions.shards import Finding, build_shard_checks
from db.manifest.datasets import Dataset

ERROR, WARN = dg.AssetCheckSeverity.ERROR, dg.AssetCheckSeverity.WARN
GOOD, BAD = Finding(True, "All is well", {"for vcs": "missing: 0"}), Finding(False, "2 of 9 captions failed")
DATASET = Dataset(dataset_id=1, name="mine", n_shards=3)


def run(found: Mapping[str, Mapping[str, Finding]], stops: bool) -> tuple[dg.ExecuteInProcessResult, RunResults]:
    """Make an asset on the shards, and check what `found` has of them; `rare` only warns."""

    @dg.asset(partitions_def=SHARDS, backfill_policy=dg.BackfillPolicy.single_run())
    def part() -> None:
        """An asset."""

    @dg.asset(partitions_def=SHARDS, deps=[part], backfill_policy=dg.BackfillPolicy.single_run())
    def after() -> None:
        """What waits for the checks."""

    def examine(context: Any, curation: Any) -> Iterator[tuple[RunShard, Mapping[str, Finding]]]:
        yield from ((RunShard(key, DATASET, int(key[-4:])), findings) for key, findings in found.items())

    specs = [
        dg.AssetCheckSpec(name, asset="part", blocking=name == "whole", partitions_def=SHARDS)
        for name in ("whole", "rare")
    ]
    checks = build_shard_checks("part", specs, ["rare"], examine, stops=stops)
    curation = SimpleNamespace(results=RunResults())
    definitions = dg.Definitions([part, after], asset_checks=[checks], resources={"curation": curation})
    job = definitions.resolve_implicit_global_asset_job_def()
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions("shard", [f"mine:{number:04d}" for number in range(3)])
        keys = list(found)
        done = job.execute_in_process(
            instance=instance,
            tags=build_range_tags(keys[0], keys[-1]),
            raise_on_error=False,
        )
        made = {
            record.partition_key: record.storage_id
            for record in instance.fetch_materializations(dg.AssetKey("part"), limit=9).records
        }
        for each in done.get_asset_check_evaluations():
            assert each.target_materialization_data is not None
            assert each.target_materialization_data.storage_id == made[each.partition]
    return done, curation.results


@pytest.mark.parametrize(
    ("whole", "stops", "goes_on", "blocking"),
    [
        ([GOOD], False, True, True),
        ([GOOD, GOOD], True, True, True),
        ([GOOD, BAD, GOOD], False, True, False),
        ([GOOD, BAD, GOOD], True, False, True),
        ([BAD, BAD], False, False, True),
        ([BAD], False, False, True),
    ],
    ids=["one", "good", "some go on", "some stop", "all", "the one"],
)
def test_every_shard_has_a_result_of_its_own(whole: list[Finding], stops: bool, goes_on: bool, blocking: bool) -> None:
    found = {f"mine:{number:04d}": {"whole": each, "rare": BAD} for number, each in enumerate(whole)}
    done, results = run(found, stops)
    seen = {(each.partition, each.check_name): each for each in done.get_asset_check_evaluations()}
    assert list(seen) == [(key, name) for key in found for name in ("whole", "rare")]
    for (key, name), each in seen.items():
        finding = found[key][name]
        assert (each.passed, each.severity) == (finding.passed, ERROR if name == "whole" else WARN)
        assert each.blocking == (blocking if name == "whole" else False)
        assert each.description == (
            f"{finding.sentence}." if finding.passed else f"{finding.sentence}, in shard {key}."
        )
        assert {name: value.value for name, value in each.metadata.items()} == dict(finding.metadata)
    assert done.success == goes_on
    assert bool(done.asset_materializations_for_node("after")) == goes_on
    assert {key: str(error) for key, error in results.collect_errors().items()} == {
        key: f"a blocking check failed, the scores are kept: whole of part in {key}; look at it with reelsieve ui"
        for key, findings in found.items()
        if not findings["whole"].passed
    }
