"""How assets stand in Dagster's catalogue: the columns of their tables, their owners, and how old they may be."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import dagster as dg
import sqlalchemy as sa

from assets.scores.registry import SCORERS, build_score_asset_name
from db.schema import sample
from db.schema.comments import find_comment

# The tables of assets that are not called as their table is.
_TABLES = {build_score_asset_name(metric): "score" for metric in SCORERS} | {
    "threshold": "score_threshold",
    "rating_threshold": "score_threshold",
    "ecs_thresholds": "keypoint_threshold",
    "training_subset": "selection_item",
}
# The report is made anew when scores change. Where that of no dataset is made for so long, nobody may be running it.
_REPORT = "dataset_report"
_FRESHNESS = dg.FreshnessPolicy.time_window(fail_window=timedelta(days=31), warn_window=timedelta(days=7))


def add_catalogue_metadata(definitions: dg.Definitions, owners: Sequence[str]) -> dg.Definitions:
    """The definitions with what the catalogue shows of every asset.

    owners: mail addresses, or names of teams after `team:`.
    """

    def add_metadata(spec: dg.AssetSpec) -> dg.AssetSpec:
        name = spec.key.to_user_string()
        policy = _FRESHNESS if name == _REPORT else spec.freshness_policy
        return spec.replace_attributes(owners=[*spec.owners, *owners], freshness_policy=policy).merge_attributes(
            metadata=_build_table_metadata(_TABLES.get(name, name))
        )

    return definitions.map_asset_specs(func=add_metadata)


def _build_table_metadata(name: str) -> dict[str, object]:
    """Name and columns of a table, with the comments that Postgres shows; nothing for what is no table of ours."""
    table = sample.metadata.tables.get(name)
    if table is None:
        return {}
    columns = [_build_column(name, column) for column in table.columns]
    return {"dagster/table_name": f"public.{name}", "dagster/column_schema": dg.TableSchema(columns=columns)}


def _build_column(table: str, column: sa.Column[object]) -> dg.TableColumn:
    constraints = dg.TableColumnConstraints(nullable=bool(column.nullable), unique=column.unique is True)
    return dg.TableColumn(column.name, str(column.type).lower(), find_comment(table, column.name), constraints)
