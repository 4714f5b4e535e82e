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
    asset: dg.AssetKey,
    check: str,
    failed: Sequence[str],
    n_shards: int,
    *,
    warns: bool,
    good: str,
    bad: str,
    metadata: Mapping[str, str] | None = None,
) -> dg.AssetCheckResult:
    """The result of a check over all shards of a run, in a sentence; it passes where it fails in none.

    good: what holds where the check passes. bad: what does not, to which the first shards that fail are added; neither
    has a full stop. One result for the run: a result for each shard would be most of what Dagster stores.
    """
    return dg.AssetCheckResult(
        asset_key=asset,
        check_name=check,
        passed=not failed,
        severity=dg.AssetCheckSeverity.WARN if warns else dg.AssetCheckSeverity.ERROR,
        description=f"{bad}, {in_shards(failed, n_shards)}." if failed else f"{good}.",
        # As text: of numbers the web interface draws plots.
        metadata={"shards": f"{n_shards:,}", **(metadata or {})},
    )


def in_shards(keys: Sequence[str], n_shards: int) -> str:
    """Say in which of all shards something holds; of very many the first are named.

    >>> in_shards(["mine:0003", "mine:0017"], 250), in_shards(["mine:0003"], 1)
    ('in 2 of 250 shards: mine:0003, mine:0017', 'in shard mine:0003')
    """
    if n_shards == 1:
        return f"in shard {keys[0]}"
    return f"in {len(keys):,} of {n_shards:,} shards: {', '.join(keys[:NAMED])}{', …' if len(keys) > NAMED else ''}"
