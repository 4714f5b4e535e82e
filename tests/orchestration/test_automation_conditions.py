"""Why a sensor starts conclusions, and no automation conditions: how Dagster itself evaluates these.

Where one of these tests fails with a newer Dagster, a reason is gone.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import dagster as dg
import pytest

from assets.definitions.partitions import DATASETS, SHARDS

# No code of ours is tried here: `make attack` does it.
pytestmark = pytest.mark.expensive

GRID = dg.MultiPartitionsDefinition({"dataset": DATASETS, "shard": dg.DynamicPartitionsDefinition(name="number")})
WHEN_READY = dg.AutomationCondition.eager()
# The same, also where some partition was never made.
WHEN_UPDATED = (
    dg.AutomationCondition.any_deps_updated().since_last_handled()
    & ~dg.AutomationCondition.in_progress()
    & ~dg.AutomationCondition.any_deps_in_progress()
)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Dagster warns that parts of this are not final."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)
        yield


class Bench:
    """A score with partitions by shard, and a threshold by dataset that follows it by a condition, on an instance with
    these datasets, given by their numbers of shards.
    """

    def __init__(
        self,
        mapping: dg.PartitionMapping,
        condition: dg.AutomationCondition[dg.AssetKey],
        shards: dg.PartitionsDefinition = SHARDS,
        **n_shards: int,
    ) -> None:
        @dg.asset(partitions_def=shards)
        def score() -> None: ...

        dep = dg.AssetDep(score, partition_mapping=mapping)

        @dg.asset(partitions_def=DATASETS, deps=[dep], automation_condition=condition)
        def threshold() -> None:
            raise ValueError("a threshold that fails")

        self.assets, self.instance = [score, threshold], dg.DagsterInstance.ephemeral()
        self.instance.add_dynamic_partitions("dataset", [*n_shards])
        self.instance.add_dynamic_partitions("shard", [f"{name}:{i}" for name, n in n_shards.items() for i in range(n)])
        self.instance.add_dynamic_partitions("number", [str(i) for i in range(max(n_shards.values()))])
        self._last = dg.evaluate_automation_conditions(self.assets, self.instance)

    def make(self, asset: str, *partitions: str) -> None:
        for partition in partitions:
            self.instance.report_runless_asset_event(dg.AssetMaterialization(asset, partition=partition))

    def tick(self) -> set[str | None]:
        """The datasets whose thresholds Dagster asks for now."""
        self._last = dg.evaluate_automation_conditions(self.assets, self.instance, cursor=self._last.cursor)
        return {*self._last.get_requested_partitions(dg.AssetKey("threshold"))}


def test_with_all_partitions_a_shard_concerns_every_dataset() -> None:
    bench = Bench(dg.AllPartitionMapping(), WHEN_UPDATED, a=2, b=1)
    bench.make("score", "a:0", "a:1")
    assert bench.tick() == {"a", "b"}
    patient = Bench(dg.AllPartitionMapping(), WHEN_READY, a=2, b=1)
    patient.make("score", "a:0", "a:1")
    assert patient.tick() == set(), "a waits for b"


def test_in_a_grid_of_partitions_a_dataset_waits_for_shards_that_only_others_have() -> None:
    bench = Bench(dg.MultiToSingleDimensionPartitionMapping("dataset"), WHEN_READY, GRID, a=2, b=1)
    cells = [dg.MultiPartitionKey({"dataset": name, "shard": shard}) for name, shard in ("a0", "a1", "b0")]
    bench.make("score", *cells)
    assert bench.tick() == {"a"}
    assert len(GRID.get_partition_keys(dynamic_partitions_store=bench.instance)) == 4


def test_dagster_warns_that_a_mapping_of_our_own_does_not_work() -> None:
    methods = dict.fromkeys(dg.PartitionMapping.__abstractmethods__)
    mapping = type("ShardsOfDataset", (dg.PartitionMapping,), methods)()
    with pytest.warns(DeprecationWarning, match="ShardsOfDataset are deprecated and will not work"):
        dg.AssetDep("score", partition_mapping=mapping)


@pytest.mark.parametrize("condition", [WHEN_READY, WHEN_UPDATED])
def test_a_score_that_comes_just_after_the_request_is_forgotten(
    condition: dg.AutomationCondition[dg.AssetKey],
) -> None:
    """With one dataset, so that the mapping is right."""
    bench = Bench(dg.AllPartitionMapping(), condition, a=2)
    bench.make("score", "a:0", "a:1")
    assert bench.tick() == {"a"}
    bench.make("score", "a:1")
    assert bench.tick() == set()
    bench.make("threshold", "a")
    assert [bench.tick() for _ in range(3)] == [set()] * 3


@pytest.mark.parametrize("condition", [WHEN_READY, WHEN_UPDATED])
def test_a_run_that_failed_is_not_tried_again(condition: dg.AutomationCondition[dg.AssetKey]) -> None:
    bench = Bench(dg.AllPartitionMapping(), condition, a=1)
    bench.make("score", "a:0")
    assert bench.tick() == {"a"}
    failed = dg.materialize(
        bench.assets, instance=bench.instance, partition_key="a", selection="threshold", raise_on_error=False
    )
    assert not failed.success
    assert [bench.tick() for _ in range(3)] == [set()] * 3
