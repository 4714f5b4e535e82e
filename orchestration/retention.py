"""What can be freed: old runs and ticks of Dagster, and evidence of retired scorers. Says it first, then does it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

import dagster as dg
import sqlalchemy as sa
from sqlalchemy.engine import URL, Engine

from assets.sources.base import chain
from db.server.engine import open_engine
from db.server.retention import Unneeded, free_evidence, unneeded_evidence
from db.server.urls import DAGSTER, sibling_url
from metrics_core.models.revision import ModelNotFound
from orchestration.platform import Installation

KEEP_DAYS = 30
_ENDED = [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]
_SIZES = {
    "runs": "SELECT count(*), coalesce(sum(length(run_body)), 0) FROM runs WHERE run_id = ANY(:runs)",
    "events": "SELECT count(*), coalesce(sum(length(event)), 0) FROM event_logs WHERE run_id = ANY(:runs)",
    "check results": "SELECT count(*), coalesce(sum(length(evaluation_event)), 0) FROM asset_check_executions "
    "WHERE run_id = ANY(:runs)",
    "ticks": "SELECT count(*), coalesce(sum(length(tick_body)), 0) FROM job_ticks WHERE timestamp < :before",
}


@dataclass(frozen=True, slots=True)
class Prunable:
    """What can be freed: ids of runs, the time before which ticks are old, and evidence; `rows` describe it all."""

    runs: list[str]
    before: datetime
    evidence: list[Unneeded]
    rows: list[dict[str, Any]]


def prunable(installation: Installation, days: int) -> Prunable:
    """Look for what can be freed. Deletes nothing.

    days: how long finished runs and ticks of Dagster are kept. A run stays as long as it is the last that materialised
    something: with it Dagster would take that for missing.
    """
    before = datetime.now(timezone.utc) - timedelta(days=days)
    runs = superseded_runs(installation.instance, before)
    rows = []
    storage = _dagster_engine(installation.database_url)
    with storage.connect() as connection:
        for what, query in _SIZES.items():
            names = {"runs": runs, "before": before.replace(tzinfo=None)}
            wanted = {name: value for name, value in names.items() if f":{name}" in query}
            n, n_bytes = connection.execute(sa.text(query), wanted).one()
            rows.append({"what": f"Dagster's {what}, older than {days} days", "rows": n, "bytes": n_bytes})
    storage.dispose()
    with installation.engine.connect() as connection:
        evidence = unneeded_evidence(connection, _in_use(installation))
    rows += [{"what": f"{each.table} of {each.model}", "rows": each.rows, "bytes": each.bytes} for each in evidence]
    return Prunable(runs, before, evidence, [row for row in rows if row["rows"]])


def prune(installation: Installation, found: Prunable) -> None:
    """Delete what `prunable` found."""
    prune_dagster(installation.instance, installation.database_url, found.runs, found.before)
    free_evidence(installation.engine, found.evidence)


def prune_dagster(of: dg.DagsterInstance, database: URL, runs: Collection[str], before: datetime) -> None:
    """Delete runs with their events and check results, and ticks from before a time.

    database: the curation database, on whose server Dagster's is.
    """
    for run_id in runs:
        of.delete_run(run_id)
    storage = _dagster_engine(database)
    with storage.begin() as connection:
        # Dagster leaves these behind.
        gone = sa.text("DELETE FROM asset_check_executions WHERE run_id = ANY(:runs)")
        connection.execute(gone, {"runs": list(runs)})
        old = sa.text("DELETE FROM job_ticks WHERE timestamp < :before")
        connection.execute(old, {"before": before.replace(tzinfo=None)})
    storage.dispose()


def superseded_runs(of: dg.DagsterInstance, before: datetime) -> list[str]:
    """Return the finished runs from before a time whose every materialisation was followed by a later one."""
    old = of.get_run_ids(dg.RunsFilter(created_before=before, statuses=_ENDED))
    made = dg.DagsterEventType.ASSET_MATERIALIZATION
    storage = of.event_log_storage
    newest = {
        place
        for asset in of.all_asset_keys()
        for place in storage.get_latest_storage_id_by_partition(asset, made).values()
    }
    return [
        run_id
        for run_id in old
        if all(
            event.partition_key and event.storage_id not in newest
            for event in of.get_records_for_run(run_id, of_type=made).records
        )
    ]


def _in_use(installation: Installation) -> set[tuple[str, str]]:
    """Name and revision of the models that the present settings name, as far as they can be found."""
    found: set[tuple[str, str]] = set()
    for scorer in installation.curation.scorers.values():
        with suppress(ModelNotFound):
            found |= set(_identities(scorer.models()))
        for source in chain(scorer.sources):
            with suppress(ModelNotFound):
                found.add((source.model.model_id, source.model.revision))
    return found


def _identities(models: object) -> Iterator[tuple[str, str]]:
    """Name and revision of all models in nested plain data."""
    if isinstance(models, Mapping):
        if "model_id" in models:
            yield str(models["model_id"]), str(models.get("revision"))
        for value in models.values():
            yield from _identities(value)


def _dagster_engine(database: URL) -> Engine:
    return open_engine(sibling_url(database, DAGSTER))
