"""Metadata that Dagster's catalogue shows for assets: the columns of their tables, their owners, and when they are
overdue.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import dagster as dg
import sqlalchemy as sa

from assets.metrics.registry import SCORERS, build_score_asset_name
from db.schema import sample

# The tables of assets whose names differ from the names of their tables.
_TABLES = {build_score_asset_name(metric): "score" for metric in SCORERS} | {
    "threshold": "score_threshold",
    "rating_threshold": "score_threshold",
    "ecs_thresholds": "keypoint_threshold",
    "training_subset": "selection_item",
}
# The report is made again when scores change. A dataset without a new one for so long may be forgotten.
_REPORT = "dataset_report"
_FRESHNESS = dg.FreshnessPolicy.time_window(fail_window=timedelta(days=31), warn_window=timedelta(days=7))


def add_catalogue_metadata(definitions: dg.Definitions, owners: Sequence[str]) -> dg.Definitions:
    """Return the definitions with owners added to every asset and, where an asset fills a table, the table's name and
    columns. The asset dataset_report also gets a freshness policy, which warns after 7 days and fails after 31. owners:
    mail addresses, or names of teams after `team:`.
    """

    def add_metadata(spec: dg.AssetSpec) -> dg.AssetSpec:
        name = spec.key.to_user_string()
        policy = _FRESHNESS if name == _REPORT else spec.freshness_policy
        return spec.replace_attributes(owners=[*spec.owners, *owners], freshness_policy=policy).merge_attributes(
            metadata=_build_table_metadata(_TABLES.get(name, name))
        )

    return definitions.map_asset_specs(func=add_metadata)


def _build_table_metadata(name: str) -> dict[str, object]:
    """Build Dagster's metadata for a table: name, columns and their comments; empty where the database has no such
    table.
    """
    table = sample.metadata.tables.get(name)
    if table is None:
        return {}
    columns = [_build_column(column) for column in table.columns]
    return {"dagster/table_name": f"public.{name}", "dagster/column_schema": dg.TableSchema(columns=columns)}


def _build_column(column: sa.Column[object]) -> dg.TableColumn:
    constraints = dg.TableColumnConstraints(nullable=bool(column.nullable), unique=column.unique is True)
    return dg.TableColumn(column.name, str(column.type).lower(), column.comment, constraints)
