"""Which errors are a user's or a machine's, and the sentence each deserves. Others are ours and keep their trace."""

from __future__ import annotations

import psycopg
import sqlalchemy as sa
from dagster import DagsterError

from assets.ingest.rejects import ManifestError
from assets.partitions import UnknownDataset
from assets.scores.features import MissingVectors
from assets.thresholds.calibrate import NoLabels
from db.filters import FilterError
from db.reader import QueryError
from db.selection import SelectionError
from db.server import DatabaseUnavailable
from metrics_core.models.clip_loading import CheckpointMismatch
from metrics_core.models.nli_loading import NoEntailmentClass
from metrics_core.models.revision import ModelNotFound
from orchestration.settings import SettingsError


class UsageError(ValueError):
    """An argument that cannot be used."""


_PLAIN = (
    CheckpointMismatch,
    DatabaseUnavailable,
    FilterError,
    ImportError,
    ManifestError,
    MissingVectors,
    ModelNotFound,
    NoEntailmentClass,
    NoLabels,
    QueryError,
    SelectionError,
    SettingsError,
    UnknownDataset,
    UsageError,
)


def explain(error: BaseException) -> str | None:
    """One sentence for an error that is not a fault of the program, else None."""
    found: BaseException | None = error
    while found is not None:
        if isinstance(found, _PLAIN):
            return str(found)
        if isinstance(found, psycopg.OperationalError | sa.exc.OperationalError | sa.exc.InterfaceError):
            return _of_database(found)
        if type(found).__name__ == "DagsterAssetCheckFailedError" and isinstance(found, DagsterError):
            reason = " ".join(str(found).split())
            return f"a blocking check failed, the scores are kept: {reason}; look at it with reelsieve ui"
        found = found.__cause__ or found.__context__
    return None


def _of_database(error: psycopg.OperationalError | sa.exc.DBAPIError) -> str:
    answer = getattr(error, "orig", error)
    state = getattr(answer, "sqlstate", None) or getattr(answer, "pgcode", None)
    # What a server answers carries an SQLSTATE: a full disk, a deadlock. 08 is no connection, 57P a server that stops.
    if state and not state.startswith(("08", "57P")):
        reason = str(answer).strip().splitlines()[0]
        return f"the database could not do it: {reason}; mend that and run the same command again"
    return (
        "the database went away in the middle of the work: what was written stays, nothing is lost; run the same "
        "command again, it starts the embedded server anew (a server of CURATION_DB_URL must be back first)"
    )
