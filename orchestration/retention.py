"""Data that may be deleted: old runs and ticks of Dagster, and evidence of retired scorers."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

import dagster as dg
import sqlalchemy as sa
from sqlalchemy.engine import URL, Engine

from assets.sources.base import walk_sources
from db.server.engine import open_engine
from db.server.retention import UnneededRows, delete_evidence, list_unneeded_evidence
from db.server.urls import DAGSTER, build_sibling_url
from metrics_core.models.revision import ModelNotFound
from orchestration.installation import Installation
from orchestration.requests import FINISHED_STATUSES

KEEP_DAYS = 30
_SIZES = {
    "runs": "SELECT count(*), coalesce(sum(length(run_body)), 0) FROM runs WHERE run_id = ANY(:runs)",
    "events": "SELECT count(*), coalesce(sum(length(event)), 0) FROM event_logs WHERE run_id = ANY(:runs)",
    "check results": "SELECT count(*), coalesce(sum(length(evaluation_event)), 0) FROM asset_check_executions "
    "WHERE run_id = ANY(:runs)",
    "ticks": "SELECT count(*), coalesce(sum(length(tick_body)), 0) FROM job_ticks WHERE timestamp < :before",
}


@dataclass(frozen=True, slots=True)
class PrunableData:
    """Data that may be deleted. runs: ids of Dagster runs. before: the time before which ticks are old. evidence: rows
    by table and model. rows: a list of all for people, with keys what, rows and bytes; entries without rows are left
    out.
    """

    runs: list[str]
    before: datetime
    evidence: list[UnneededRows]
    rows: list[dict[str, Any]]


def load_prunable_data(installation: Installation, days: int) -> PrunableData:
    """Return all data that may be deleted: finished runs and ticks of Dagster older than so many days, and evidence of
    models that no present scorer uses. The newest run that materialised a partition is left out: without it Dagster
    would take the partition for missing. Deletes nothing.
    """
    before = datetime.now(timezone.utc) - timedelta(days=days)
    runs = list_superseded_runs(installation.instance, before)
    rows = []
    storage = _open_dagster_engine(installation.database_url)
    with storage.connect() as connection:
        for what, query in _SIZES.items():
            names = {"runs": runs, "before": before.replace(tzinfo=None)}
            parameters = {name: value for name, value in names.items() if f":{name}" in query}
            n, n_bytes = connection.execute(sa.text(query), parameters).one()
            rows.append({"what": f"Dagster's {what}, older than {days} days", "rows": n, "bytes": n_bytes})
    storage.dispose()
    with installation.engine.connect() as connection:
        evidence = list_unneeded_evidence(connection, _list_used_models(installation))
    rows += [
        {"what": f"{unneeded.table} of {unneeded.model}", "rows": unneeded.rows, "bytes": unneeded.bytes}
        for unneeded in evidence
    ]
    return PrunableData(runs, before, evidence, [row for row in rows if row["rows"]])


def delete_prunable_data(installation: Installation, prunable: PrunableData) -> None:
    """Delete the runs, ticks and evidence that `load_prunable_data` returned, from both databases."""
    delete_runs_and_ticks(installation.instance, installation.database_url, prunable.runs, prunable.before)
    delete_evidence(installation.engine, prunable.evidence)


def delete_runs_and_ticks(instance: dg.DagsterInstance, database: URL, runs: Collection[str], before: datetime) -> None:
    """Delete the Dagster runs of these ids with their events and check results, and all ticks from before a time.
    database: the curation database, on whose server Dagster's is.
    """
    for run_id in runs:
        instance.delete_run(run_id)
    storage = _open_dagster_engine(database)
    with storage.begin() as connection:
        # Dagster does not delete these with the run.
        gone = sa.text("DELETE FROM asset_check_executions WHERE run_id = ANY(:runs)")
        connection.execute(gone, {"runs": list(runs)})
        old = sa.text("DELETE FROM job_ticks WHERE timestamp < :before")
        connection.execute(old, {"before": before.replace(tzinfo=None)})
    storage.dispose()


def list_superseded_runs(instance: dg.DagsterInstance, before: datetime) -> list[str]:
    """Return the ids of finished Dagster runs, created before a time, that nothing needs any more. Each of their
    materialisations has a partition, and was followed by a newer one of the same partition. Runs without
    materialisations are included.
    """
    old = instance.get_run_ids(dg.RunsFilter(created_before=before, statuses=FINISHED_STATUSES))
    made = dg.DagsterEventType.ASSET_MATERIALIZATION
    storage = instance.event_log_storage
    newest = {
        place
        for asset in instance.all_asset_keys()
        for place in storage.get_latest_storage_id_by_partition(asset, made).values()
    }
    return [
        run_id
        for run_id in old
        if all(
            event.partition_key and event.storage_id not in newest
            for event in instance.get_records_for_run(run_id, of_type=made).records
        )
    ]


def _list_used_models(installation: Installation) -> set[tuple[str, str]]:
    """Return name and revision of the models that the present settings name; models without files are left out."""
    models: set[tuple[str, str]] = set()
    for scorer in installation.curation.scorers.values():
        with suppress(ModelNotFound):
            models |= set(_list_identities(scorer.models()))
        for source in walk_sources(scorer.sources):
            with suppress(ModelNotFound):
                models.add((source.model.model_id, source.model.revision))
    return models


def _list_identities(models: object) -> Iterator[tuple[str, str]]:
    """Yield name and revision of all models in nested plain data."""
    if isinstance(models, Mapping):
        if "model_id" in models:
            yield str(models["model_id"]), str(models.get("revision"))
        for value in models.values():
            yield from _list_identities(value)


def _open_dagster_engine(database: URL) -> Engine:
    return open_engine(build_sibling_url(database, DAGSTER))
