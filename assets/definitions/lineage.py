"""Dependencies between assets and between their columns: which asset holds an input of scores, from which columns a
score is made, and how datasets depend on their shards.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import dagster as dg

from assets.scores.base import Scorer
from assets.sources.base import Source
from db.schema import sample
from db.schema.inputs import Input

# The columns that hold an input, by asset, by the name of the input.
_INPUT_COLUMNS: dict[str, dict[str, tuple[str, ...]]] = {
    "text": {"sample": ("kind", "text", "question", "answer")},
    "references": {"reference": ("key", "text")},
    "video": {"video": ("content_sha256", "status", "error")},
    "segments": {"sample": ("segments", "extra"), "reference": ("key", "segments")},
    "keypoints": {"keypoint": ("key", "dimension", "text", "segment_index")},
    "thresholds": {"ecs_thresholds": ("dimension", "threshold")},
    # Commands draw, and no asset.
    "draw": {"sample": ()},
}
# Ends of the names of columns that tell how a row of evidence was made, and hold no evidence.
_RECORD_ENDS = ("_id", "_sha256", "_at", "place")
# Made for a whole dataset, not for a shard.
_DATASET_ASSETS = frozenset({"ecs_thresholds"})


def list_input_assets(inputs: Collection[Input[Any]]) -> list[str | dg.AssetDep]:
    """List the assets that hold these inputs, once each, as Dagster's dependencies in the order of the inputs. An input
    without a table in the database is held by the asset of its own name. An asset of whole datasets comes as a
    dependency on all its partitions.
    """
    names = dict.fromkeys(name for needed in inputs for name in _INPUT_COLUMNS.get(needed.name, [needed.name]))
    return [depend_on_all_partitions(name) if name in _DATASET_ASSETS else name for name in names]


def build_score_lineage(scorer: type[Scorer]) -> dg.TableColumnLineage:
    """Build the lineage of column `value` of table `score` for one metric: the columns of assets that hold its inputs
    and its evidence. An input that an installed package brings along is left out, since its columns are not known.

    The other columns are made together with the value, and Dagster stores the lineage with every shard.
    """
    held = [
        *(item for needed in scorer.inputs for item in _INPUT_COLUMNS.get(needed.name, {}).items()),
        *((kind.asset, _list_evidence_columns(kind)) for kind in scorer.rests_on),
    ]
    columns = dict.fromkeys(dg.TableColumnDep(asset, column) for asset, columns in held for column in columns)
    return dg.TableColumnLineage({"value": [*columns]})


def _list_evidence_columns(source: type[Source[Any]]) -> list[str]:
    """List the columns with evidence of the table that has the name of a source's asset; none without such a table."""
    tables = {table.name: table for table in (*sample.metadata.sorted_tables, *source.tables)}
    columns = tables[source.asset].columns if source.asset in tables else ()
    return [column.name for column in columns if not (column.primary_key or column.name.endswith(_RECORD_ENDS))]


def depend_on_all_partitions(asset: str) -> dg.AssetDep:
    """Build a dependency on all partitions of an asset, since a dataset and its shards have different partition keys.

    Dagster has no mapping from one dynamic set to another, and its daemon and interface ignore a mapping of our own. So
    the graph says that a dataset needs all shards; the sensor `conclusions` knows which are its own.
    """
    return dg.AssetDep(asset, partition_mapping=dg.AllPartitionMapping())
