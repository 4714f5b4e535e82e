"""An opened home with its settings: database, Dagster instance, and the resource of the assets."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy.engine import URL, Engine

from assets.definitions.curation import Curation
from assets.home.files import create_home_folder
from assets.home.settings import SettingsError, read_settings
from assets.metrics.installed import BrokenMetric
from assets.metrics.registry import METRIC_INPUTS, SCORERS, SOURCE_TABLES
from db.schema.migrate import is_schema_current, migrate
from db.schema.views import explain_refused_metrics, has_current_views
from db.server.embedded import create_home, find_or_start_server
from db.server.engine import open_engine
from db.server.leases import hold_lease
from db.server.processes import has_embedded_data
from db.server.urls import DAGSTER, DatabaseUnavailable, build_sibling_url, format_psycopg2_url
from orchestration.second_server import explain_second_server
from orchestration.settings import get_settings
from orchestration.settings.groups import Settings

if TYPE_CHECKING:
    import dagster as dg


PROJECT_FOLDER = Path(__file__).resolve().parents[1]
# How often tables and views are brought up to date before they are taken as they are.
_MIGRATIONS = 3


class Installation:
    """A home folder with its settings, as one process uses it. Database, Dagster instance and models are opened when
    they are first asked for, and kept. read_settings: returns the settings; it is called once, when they are first
    asked for.
    """

    def __init__(self, read_settings: Callable[[], Settings]) -> None:
        self._read_settings = read_settings

    @cached_property
    def settings(self) -> Settings:
        """The settings of the home, read at the first access. Raises SettingsError for a value that cannot be used."""
        return self._read_settings()

    @cached_property
    def home(self) -> Path:
        """The home folder as an absolute path. The first access creates it if it is missing. Raises SettingsError for a
        folder of another account, and DatabaseUnavailable for one that cannot be created.
        """
        create_home(self.settings.home_folder)
        return self.settings.home_folder

    @cached_property
    def database_url(self) -> URL:
        """URL of the curation database. The first access creates the home folder if needed, and starts the embedded
        server unless CURATION_DB_URL names another one. It prints a note if another home may be meant.
        """
        # Checked first, so that nothing in somebody else's home is read.
        home = self.home
        self._warn_of_second_server(is_read_only=False)
        return find_or_start_server(home, self.settings.database_url)

    def find_database_url(self) -> URL | None:
        """Return the URL of the curation database if this process has used `database_url` before, else None. Starts
        nothing.
        """
        return self.__dict__.get("database_url")

    def has_database(self) -> bool:
        """Whether a database exists: CURATION_DB_URL is set, or the home has the data of an embedded server, running or
        not. Starts and asks no server. Prints a note if there is none and another home may be meant.
        """
        if self.settings.database_url is not None or has_embedded_data(self.settings.home_folder):
            return True
        self._warn_of_second_server(is_read_only=True)
        return False

    @cached_property
    def engine(self) -> Engine:
        """SQLAlchemy engine of the curation database. The first access starts the embedded server, and creates or
        updates tables and views. It leaves out metrics of installed packages whose inputs Postgres refuses, with a
        warning.
        """
        opened = open_migrated_engine(self.database_url)
        with opened.connect() as connection:
            for metric, reason in explain_refused_metrics(connection, METRIC_INPUTS).items():
                self.curation.leave_out_metric(metric, f"Postgres refuses its inputs ({reason})")
        # Imported late: a command that needs no database starts without them.
        from assets.media.settings import MediaSettings
        from db.evidence.vector_files import FOLDER_OPTION, VectorFolder

        media = read_settings(MediaSettings)
        folder = VectorFolder(media.vectors_place, media.vectors == "files")
        opened.update_execution_options(**{FOLDER_OPTION: folder})
        return opened

    @cached_property
    def curation(self) -> Curation:
        """The resource `curation` that all assets ask for: engine, home and scorers. Its models stay loaded between
        runs of this process.
        """
        return Curation(lambda: self.home, self.settings, lambda: self.engine, SCORERS, self._warn_of_broken_metric)

    @property
    def usable_metrics(self) -> list[str]:
        """Names of the metrics that can be computed here, in their usual order. Opens the database, since metrics whose
        inputs it refuses are left out.
        """
        _ = self.engine
        return self.curation.metrics

    @cached_property
    def instance(self) -> dg.DagsterInstance:
        """The Dagster instance of this project's dagster.yaml, or of the user's DAGSTER_HOME. The first access sets
        environment variables of this process, starts the database server, and creates the concurrency pool of models.
        Raises SettingsError for a DAGSTER_HOME that makes no instance.
        """
        from assets.definitions.model_pool import MODEL_POOL

        instance = self._make_instance()
        reuse_connections(instance)
        storage = instance.event_log_storage
        # Two processes that make the pool at once would make one of them fail.
        with hold_lease(build_sibling_url(self.database_url, DAGSTER), "storage"):
            if MODEL_POOL not in storage.get_concurrency_keys():
                storage.initialize_concurrency_limit_to_default(MODEL_POOL)
        return instance

    def build_dagster_environment(self) -> dict[str, str]:
        """Return the environment variables that Dagster's own programs need for this home, by name. DAGSTER_HOME stays
        if it is set; else it is this project's folder. Creates the home's folder `dagster`. Raises SettingsError where
        no dagster.yaml exists.
        """
        chosen = os.environ.get("DAGSTER_HOME")
        if chosen and not (Path(chosen) / "dagster.yaml").is_file():
            raise SettingsError(
                f"DAGSTER_HOME is {chosen}, which has no dagster.yaml: put one there, such as "
                "docs/examples/dagster.yaml, or unset the variable"
            )
        if not chosen and not (PROJECT_FOLDER / "dagster.yaml").is_file():
            raise SettingsError(
                f"{PROJECT_FOLDER / 'dagster.yaml'} is missing: install Reelsieve from a checkout with make setup"
            )
        folder = create_home_folder(self.home, "dagster")
        return {
            "DAGSTER_HOME": chosen or str(PROJECT_FOLDER),
            # dagster.yaml turns it off too. Only this variable keeps Dagster's programs from making folders next to
            # that file and from sending the files of the folder `logs`.
            "DAGSTER_DISABLE_TELEMETRY": "1",
            # Materialisations of the partitions of a run are stored together, by far fewer statements.
            "DAGSTER_EVENT_BATCH_SIZE": "1000",
            "REELSIEVE_HOME": str(self.home),
            "REELSIEVE_DAGSTER_DIR": str(folder),
        }

    def create_empty_folder(self) -> Path:
        """Return the path of an empty folder of this account in the home; create it if needed. Dagster's and Ray's
        programs start there, since they read modules and `.env` of the current folder.
        """
        return create_home_folder(self.home, "empty")

    def close(self) -> None:
        """Close the connections of the engine and the Dagster instance, if they were opened."""
        for name in ("instance", "engine"):
            if name in self.__dict__:
                getattr(self, name).dispose()

    def _make_instance(self) -> dg.DagsterInstance:
        import dagster as dg

        theirs = os.environ.get("DAGSTER_HOME")
        os.environ.update(self.build_dagster_environment())
        try:
            return dg.DagsterInstance.get()
        except Exception as error:
            # Imported late: with it come the drivers of the database.
            from db.server.user_errors import explain_user_error

            if not theirs or explain_user_error(error) is not None:
                raise
            # The file is the user's, so this is no fault of the program.
            why = " ".join(str(error).split())[:200]
            raise SettingsError(
                f"DAGSTER_HOME is {theirs}, whose dagster.yaml makes no instance ({why}): unset the variable, or "
                "correct it"
            ) from error

    def _warn_of_second_server(self, *, is_read_only: bool) -> None:
        if self.settings.database_url is not None or self.settings.is_home_named:
            return
        if note := explain_second_server(self.settings.home_folder, is_read_only=is_read_only):
            # Imported late: it imports Dagster, and a command that only looks starts at once.
            from orchestration.terminal import print_line

            print_line("note", note)

    def _warn_of_broken_metric(self, metric: BrokenMetric) -> None:
        # Imported late: it imports Dagster, and most commands have nothing to warn of.
        from orchestration.terminal import warn_of_broken_metrics

        warn_of_broken_metrics([metric])


@lru_cache(maxsize=1)
def get_installation() -> Installation:
    """Return the installation of this process, the same one at every call; its settings are read when they are first
    needed.

    Only the entry points of a process call it and pass it on: command line, definitions, actors, Dagster's storage.
    """
    return Installation(get_settings)


def open_migrated_engine(url: URL) -> Engine:
    """Return an engine of the curation database at this URL, after its tables and views are created or brought up to
    date.
    """
    # Again if somebody imported a new metric while the views were made, and saw the views of before.
    for _ in range(_MIGRATIONS):
        if _is_migrated(url):
            break
        migrate(url, METRIC_INPUTS, SOURCE_TABLES)
    return open_engine(url)


def reuse_connections(instance: dg.DagsterInstance) -> None:
    """Make a Dagster instance keep its database connections open and use them again, instead of one new connection for
    every statement.

    By itself Dagster opens more than four connections for every event of a run, of some milliseconds each.
    """
    # A connection that was not used for a minute may be gone; no statement of Dagster's is ended for its length.
    instance.optimize_for_webserver(statement_timeout=0, pool_recycle=60, max_overflow=10)


def create_dagster_tables(url: URL) -> None:
    """Create Dagster's tables in the database at this URL, if it has none. The database itself must exist."""
    from dagster_postgres.storage import DagsterPostgresStorage

    # The storage keeps no connection open.
    DagsterPostgresStorage(format_psycopg2_url(url))


def _is_migrated(url: URL) -> bool:
    try:
        # One attempt: `migrate` waits for a server that is starting.
        opened = open_engine(url, attempts=1)
    except DatabaseUnavailable:
        return False
    try:
        with opened.connect() as connection:
            return is_schema_current(connection) and has_current_views(connection, METRIC_INPUTS, SOURCE_TABLES)
    finally:
        opened.dispose()
