"""Describes a dataset: runs the assets of facts over all its shards."""

from __future__ import annotations

from assets.datasets import dataset_of_key, shard_keys
from assets.facts.assets import DESCRIBED
from assets.partitions import announce_partitions
from assets.reports.text import number_of
from orchestration.jobs import FACTS
from orchestration.platform import installed
from orchestration.runs import run_job


def run_facts(dataset: str) -> dict[str, int]:
    """Describe what lacks facts; returns how many things each asset described. Raises UnknownDataset."""
    found = dataset_of_key(installed().engine, dataset)
    announce_partitions(installed().instance, found)
    keys = shard_keys(found)
    result = run_job("facts_job", keys[0], {}, FACTS, keys[-1])
    return {
        asset: number_of(str(result.asset_materializations_for_node(asset)[0].metadata[DESCRIBED].value))
        for asset in FACTS
    }
