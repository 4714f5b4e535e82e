"""The passport of an export: which selection it has, by which recipe, and which scorers and models made its numbers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from importlib.metadata import version
from typing import Any

from sqlalchemy.engine import Connection

from assets.trial.sentences import describe_trial
from db.selection.exports import ExportColumn, FrozenSelection
from db.selection.provenance import (
    count_selection_origins,
    count_selection_rows,
    list_frozen_scorers,
    load_thresholds,
)
from db.selection.trials import load_trials

PARQUET_KEY = "reelsieve"
"""The key of a passport in the metadata of a Parquet file's schema."""
# Columns of a selection's row that a passport has elsewhere, or that mean nothing outside the database.
_ELSEWHERE = ("spec", "metrics", "models", "dataset_id", "dataset_name")


def make_passport(
    connection: Connection, frozen: FrozenSelection, columns: Sequence[ExportColumn], form: str
) -> dict[str, Any]:
    """Load from the database the passport of an export as plain data: selection, recipe, scorers, thresholds, counts,
    origins, training trials, meanings of the columns, format, date and version of Reelsieve. form: name of the format.
    The recipe is the stored one, unchanged.

    Columns of the selection's row are under "selection", except for those that the passport has elsewhere, and names
    and ids that mean nothing outside the database.
    """
    scorers = list_frozen_scorers(connection, frozen)
    return convert_to_plain_data(
        {
            "selection": {name: value for name, value in frozen.record.items() if name not in _ELSEWHERE},
            "recipe": frozen.record["spec"],
            "scorers": scorers,
            **load_thresholds(connection, frozen, [scorer["scorer_id"] for scorer in scorers]),
            "counts": count_selection_rows(connection, frozen),
            "origins": count_selection_origins(connection, frozen),
            "trials": [
                describe_trial(trial) for trial in load_trials(connection, selection_id=frozen.record["selection_id"])
            ],
            "columns": {column.name: column.meaning for column in columns},
            "format": form,
            "exported_at": datetime.now(timezone.utc),
            "reelsieve": version("reelsieve"),
        }
    )


def format_passport(passport: Mapping[str, Any]) -> str:
    """Return a passport as indented JSON text that ends with a line break."""
    return json.dumps(passport, ensure_ascii=False, indent=2) + "\n"


def convert_to_plain_data(value: Any) -> Any:
    """Return nested data for JSON: keys as texts, tuples as lists, times as text in ISO 8601, and bytes as hexadecimal
    digits. Other values stay as they are.
    """
    if isinstance(value, Mapping):
        return {str(name): convert_to_plain_data(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [convert_to_plain_data(part) for part in value]
    if isinstance(value, datetime):
        return value.isoformat()
    return bytes(value).hex() if isinstance(value, bytes | memoryview) else value
