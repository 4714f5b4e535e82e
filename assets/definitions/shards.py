"""The shards that a run works on, one or a range, and the checks of every shard."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args, get_type_hints

import dagster as dg
from sqlalchemy.engine import Engine

from assets.datasets.lookup import RunShard, require_dataset
from assets.definitions.curation import Curation
from assets.definitions.partitions import SHARDS, list_tagged_partitions
from assets.definitions.results import CheckFailed
from assets.definitions.step_errors import explain_failure

# The materialisation that a result is about. Dagster drops a partition's result that does not name the newest one, and
# exports this class by no name.
_Target: Any = get_args(get_type_hints(dg.AssetCheckEvaluation)["target_materialization_data"])[0]


@dataclass(frozen=True, slots=True)
class Finding:
    """The outcome of a check on a shard. sentence: what the check found, without a full stop. metadata: numbers that
    explain it, as text, since the web interface would plot numbers.
    """

    passed: bool
    sentence: str
    metadata: Mapping[str, str] = field(default_factory=dict)


Examine = Callable[[dg.AssetCheckExecutionContext, Curation], Iterator[tuple[RunShard, Mapping[str, Finding]]]]


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


def build_shard_checks(
    asset: str, specs: Sequence[dg.AssetCheckSpec], warnings: Collection[str], examine: Examine, *, stops: bool
) -> dg.AssetChecksDefinition:
    """Build the Dagster checks of an asset with a partition for every shard, in one step with one result for every
    check and shard of its run. An error is added to `curation.results` for every shard with a failed check that is not
    among `warnings`. stops: whether one such shard fails the step; else only all of them do.

    examine: yields every shard of the run that is checked, with a finding for every check by its name.
    """

    @dg.multi_asset_check(name=f"{asset}_checks", specs=specs)
    @explain_failure
    def checks(
        context: dg.AssetCheckExecutionContext, curation: dg.ResourceParam[Curation]
    ) -> Iterator[dg.AssetCheckEvaluation | dg.Output[None]]:
        found = {shard.key: findings for shard, findings in examine(context, curation)}
        failed = {
            key: [name for name, finding in findings.items() if not finding.passed and name not in warnings]
            for key, findings in found.items()
        }
        curation.results.add_errors(
            asset, {key: _build_error(asset, key, names) for key, names in failed.items() if names}
        )
        n_failed = Counter(name for names in failed.values() for name in names)
        blocking = {spec.name: spec.blocking and (stops or n_failed[spec.name] in (0, len(found))) for spec in specs}
        for key, findings in found.items():
            target = _find_target(context.instance, asset, key)
            for name, finding in findings.items():
                # `dg.AssetCheckResult` has a partition only in a run over a single one.
                yield dg.AssetCheckEvaluation(
                    asset_key=dg.AssetKey(asset),
                    check_name=name,
                    passed=finding.passed,
                    severity=dg.AssetCheckSeverity.WARN if name in warnings else dg.AssetCheckSeverity.ERROR,
                    description=f"{finding.sentence}." if finding.passed else f"{finding.sentence}, in shard {key}.",
                    metadata=finding.metadata,
                    blocking=blocking[name],
                    partition=key,
                    target_materialization_data=target,
                )
        for output in context.op_def.output_defs:
            yield dg.Output(None, output.name)

    return checks


def _build_error(asset: str, key: str, checks: Sequence[str]) -> CheckFailed:
    lead, remedy = "a blocking check failed, the scores are kept", "look at it with reelsieve ui"
    return CheckFailed(f"{lead}: {', '.join(checks)} of {asset} in {key}; {remedy}")


def _find_target(instance: dg.DagsterInstance, asset: str, key: str) -> Any:
    """Return the newest materialisation of a shard's asset, as a check's result names it; None without any."""
    newest = dg.AssetRecordsFilter(asset_key=dg.AssetKey(asset), asset_partitions=[key])
    for record in instance.fetch_materializations(newest, limit=1).records:
        return _Target(storage_id=record.storage_id, run_id=record.run_id, timestamp=record.timestamp)
    return None
