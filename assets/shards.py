"""The shards that a run works on, one or a range, which look the same to an asset and to a check."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import dagster as dg
from sqlalchemy.engine import Engine

from assets.datasets import RunShard, require_dataset
from assets.partitions import SHARDS, list_tagged_partitions

# Shards named where a check fails; the log of the run has more.
MAX_NAMED_SHARDS = 10


def load_run_shards(
    context: dg.AssetExecutionContext | dg.AssetCheckExecutionContext, engine: Engine
) -> list[RunShard]:
    """Load the shards that the tags of the context's run name, in Dagster's order. Where the tags name none or an
    unknown one, all shards of all datasets come. Reads Dagster's partitions and the curation database. Raises
    UnknownDataset.
    """
    known = context.instance.get_dynamic_partitions(str(SHARDS.name))
    keys = list_tagged_partitions(context.run.tags, {key: place for place, key in enumerate(known)})
    parts = [key.rpartition(":") for key in keys or known]
    datasets = {name: require_dataset(engine, name) for name in dict.fromkeys(name for name, _, _ in parts)}
    return [RunShard(f"{name}:{number}", datasets[name], int(number)) for name, _, number in parts]


def build_check_result(
    asset: dg.AssetKey,
    check: str,
    failed_shards: Sequence[str],
    n_shards: int,
    *,
    warns: bool,
    good: str,
    bad: str,
    metadata: Mapping[str, str] | None = None,
) -> dg.AssetCheckResult:
    """Build the one result of a check over all shards of a run, which passes if `failed_shards`, a list of partition
    keys, is empty. warns: whether a failure is a warning and no error. good, bad: the sentence for either outcome
    without a full stop; the first ten failed shards are added to `bad`.

    One result for the run: a result for each shard would be most of what Dagster stores.
    """
    return dg.AssetCheckResult(
        asset_key=asset,
        check_name=check,
        passed=not failed_shards,
        severity=dg.AssetCheckSeverity.WARN if warns else dg.AssetCheckSeverity.ERROR,
        description=f"{bad}, {format_shards(failed_shards, n_shards)}." if failed_shards else f"{good}.",
        # As text: of numbers the web interface draws plots.
        metadata={"shards": f"{n_shards:,}", **(metadata or {})},
    )


def format_shards(keys: Sequence[str], n_shards: int) -> str:
    """Return text that says in which shards, out of `n_shards`, something holds, such as "in shard mine:0003". Of
    several keys the first ten are named.

    >>> format_shards(["mine:0003", "mine:0017"], 250), format_shards(["mine:0003"], 1)
    ('in 2 of 250 shards: mine:0003, mine:0017', 'in shard mine:0003')
    """
    if n_shards == 1:
        return f"in shard {keys[0]}"
    more = ", …" if len(keys) > MAX_NAMED_SHARDS else ""
    return f"in {len(keys):,} of {n_shards:,} shards: {', '.join(keys[:MAX_NAMED_SHARDS])}{more}"
