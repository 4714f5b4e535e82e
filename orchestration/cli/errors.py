"""Which errors are a user's or a machine's, and the sentence each deserves. All others are ours and keep their trace."""

from __future__ import annotations

import psycopg
import sqlalchemy as sa

from assets.ingest.rejects import ManifestError
from assets.partitions import UnknownDataset
from assets.scores.run import MissingVectors
from db.filters import FilterError
from db.reader import QueryError
from db.selection import SelectionError
from db.server import DatabaseUnavailable
from metrics_core.models.revision import ModelNotFound
from orchestration.settings import SettingsError


class UsageError(ValueError):
    """An argument that cannot be used."""


_PLAIN = (
    DatabaseUnavailable,
    FilterError,
    ImportError,
    ManifestError,
    MissingVectors,
    ModelNotFound,
    QueryError,
    SelectionError,
    SettingsError,
    UnknownDataset,
    UsageError,
)


def explain(error: BaseException) -> str | None:
    """One sentence for an error that is not a fault of the program, else None."""
    # Imported late: commands that need no Dagster start faster without it.
    from dagster import DagsterError

    found: BaseException | None = error
    while found is not None:
        if isinstance(found, _PLAIN):
            return str(found)
        if isinstance(found, psycopg.OperationalError | sa.exc.OperationalError | sa.exc.InterfaceError):
            return (
                "the database went away in the middle of the work: what was written stays, nothing is lost; "
                "start it (reelsieve doctor says how) and run the same command again"
            )
        if type(found).__name__ == "DagsterAssetCheckFailedError" and isinstance(found, DagsterError):
            return f"a blocking check failed, the scores are kept: {found}; look at it with reelsieve ui"
        found = found.__cause__ or found.__context__
    return None
