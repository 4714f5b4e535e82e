"""The shards that a run works on: one, or a range of them. Both look the same to an asset and to a check."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import dagster as dg
from sqlalchemy.engine import Engine

from assets.datasets import RunShard, dataset_of_key
from assets.partitions import SHARDS, shards_between

# Shards named where a check fails; the log of the run has more.
NAMED = 10


def shards_of_run(context: dg.AssetExecutionContext | dg.AssetCheckExecutionContext, engine: Engine) -> list[RunShard]:
    """Return the shards of the run in order; all shards for a check that was started without any.

    Raises UnknownDataset.
    """
    known = context.instance.get_dynamic_partitions(str(SHARDS.name))
    keys = shards_between(context.run.tags, {key: place for place, key in enumerate(known)})
    named = [key.rpartition(":") for key in keys or known]
    datasets = {name: dataset_of_key(engine, name) for name in dict.fromkeys(name for name, _, _ in named)}
    return [RunShard(f"{name}:{number}", datasets[name], int(number)) for name, _, number in named]


def check_result(
    asset: str,
    check: str,
    failed: Sequence[str],
    n_shards: int,
    *,
    warns: bool,
    metadata: Mapping[str, int | float | None],
) -> dg.AssetCheckResult:
    """The result of a check over all shards of a run: it passes where it fails in none, and names the first that fail.

    One result for the run: a result for each shard would be most of what Dagster stores.
    """
    named = ", ".join(failed[:NAMED]) + (", ..." if len(failed) > NAMED else "")
    return dg.AssetCheckResult(
        asset_key=asset,
        check_name=check,
        passed=not failed,
        severity=dg.AssetCheckSeverity.WARN if warns else dg.AssetCheckSeverity.ERROR,
        description=f"fails in {len(failed)} of {n_shards} shards: {named}" if failed else None,
        metadata={"shards": n_shards, **metadata},
    )
