"""Dependencies between assets: which asset holds an input of scores, and how datasets depend on their shards."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import dagster as dg

from db.schema.inputs import Input

# The asset that holds an input, by the name of the input.
_ASSETS = {
    "text": "sample",
    "references": "reference",
    "video": "video",
    "segments": "reference",
    "keypoints": "keypoint",
    "thresholds": "ecs_thresholds",
    # Commands draw, and no asset.
    "draw": "sample",
}
# Made for a whole dataset, not for a shard.
_DATASET_ASSETS = frozenset({"ecs_thresholds"})


def list_input_assets(inputs: Collection[Input[Any]]) -> list[str | dg.AssetDep]:
    """List the assets that hold these inputs, once each, as Dagster's dependencies in the order of the inputs. An input
    without a table of ours is held by the asset of its own name. An asset of whole datasets comes as a dependency on
    all its partitions.
    """
    names = dict.fromkeys(_ASSETS.get(needed.name, needed.name) for needed in inputs)
    return [depend_on_all_partitions(name) if name in _DATASET_ASSETS else name for name in names]


def depend_on_all_partitions(asset: str) -> dg.AssetDep:
    """Build a dependency on all partitions of an asset, since a dataset and its shards have different partition keys.

    Dagster has no mapping from one dynamic set to another, and its interface ignores mappings of others' making. So the
    graph says that a dataset needs all shards; the sensor `conclusions` knows which are its own.
    """
    return dg.AssetDep(asset, partition_mapping=dg.AllPartitionMapping())
