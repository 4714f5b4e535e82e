"""This installation, put together from its settings: database, Dagster instance and the resource of the assets."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy.engine import URL, Engine

from assets.curation import Curation
from assets.home_files import make_home_folder
from assets.own_home import open_home
from assets.scores.brought import BrokenMetric
from assets.scores.registry import METRIC_INPUTS, SCORERS, SOURCE_TABLES
from assets.settings import SettingsError
from db.schema.migrate import is_current, migrate
from db.schema.views import explain_refused, is_up_to_date
from db.server.embedded import curation_url
from db.server.engine import open_engine
from db.server.leases import lease
from db.server.processes import has_embedded
from db.server.urls import DAGSTER, DatabaseUnavailable, sibling_url, url_for_dagster
from orchestration.second_server import note_of_second_server
from orchestration.settings import settings
from orchestration.settings.files import is_home_asked
from orchestration.settings.groups import Settings

if TYPE_CHECKING:
    import dagster as dg


PROJECT = Path(__file__).resolve().parents[1]
# How often tables and views are brought up to date before they are taken as they are.
_MIGRATIONS = 3


class Installation:
    """A home with its settings, and what commands and assets need of it, made when it is first asked for."""

    def __init__(self, read_settings: Callable[[], Settings]) -> None:
        self._read_settings = read_settings

    @cached_property
    def settings(self) -> Settings:
        """The settings of the home. Raises SettingsError for one that cannot be used."""
        return self._read_settings()

    @cached_property
    def home(self) -> Path:
        """The home folder, made where it is missing. Raises UntrustedHome for one that somebody else may have made."""
        if note := open_home(self.settings.home_folder, is_asked=is_home_asked(self.settings)):
            self._say(note)
        return self.settings.home_folder

    @cached_property
    def database_url(self) -> URL:
        """The curation database's URL. Starts the embedded server where no other one is configured."""
        # First of all: nothing in somebody else's home is read.
        home = self.home
        self._say_which_home(only_looks=False)
        return curation_url(home, self.settings.database)

    def known_url(self) -> URL | None:
        """The URL of the curation database where this process has asked for it."""
        return self.__dict__.get("database_url")

    def has_database(self) -> bool:
        """Whether there can be data: in a home without an embedded server nobody has ingested anything.

        Starts nothing.
        """
        if self.settings.database is not None or has_embedded(self.settings.home_folder):
            return True
        self._say_which_home(only_looks=True)
        return False

    @cached_property
    def engine(self) -> Engine:
        """The engine of the curation database, whose tables and views are brought up to date first.

        A metric of an installed package whose inputs Postgres refuses is left out.
        """
        opened = ready_engine(self.database_url)
        with opened.connect() as connection:
            for metric, reason in explain_refused(connection, METRIC_INPUTS).items():
                self.curation.leave_out(metric, f"Postgres refuses its inputs ({reason})")
        return opened

    @cached_property
    def curation(self) -> Curation:
        """The resource that assets ask for. Its models stay loaded from one run of this process to the next."""
        return Curation(lambda: self.home, self.settings, lambda: self.engine, SCORERS, self._warn_of_broken)

    @property
    def usable_metrics(self) -> list[str]:
        """The metrics that can be computed here, in order. Opens the database, which may refuse the inputs of some."""
        _ = self.engine
        return self.curation.metrics

    @cached_property
    def instance(self) -> dg.DagsterInstance:
        """The Dagster instance of dagster.yaml, on the same server as the data."""
        from assets.sources.pool import MODEL_POOL

        found = self._instance_of_file()
        keep_connected(found)
        storage = found.event_log_storage
        # Two processes that make the pool at once would make one of them fail.
        with lease(sibling_url(self.database_url, DAGSTER), "storage"):
            if MODEL_POOL not in storage.get_concurrency_keys():
                storage.initialize_concurrency_limit_to_default(MODEL_POOL)
        return found

    def dagster_environment(self) -> dict[str, str]:
        """The variables that dagster.yaml and Dagster's own programs need.

        A DAGSTER_HOME of the operator's counts; without one Dagster's instance is that of this project's dagster.yaml.
        """
        chosen = os.environ.get("DAGSTER_HOME")
        if chosen and not (Path(chosen) / "dagster.yaml").is_file():
            raise SettingsError(
                f"DAGSTER_HOME is {chosen}, which has no dagster.yaml: put one there, such as "
                "docs/examples/dagster.yaml, or unset the variable"
            )
        if not chosen and not (PROJECT / "dagster.yaml").is_file():
            raise SettingsError(
                f"{PROJECT / 'dagster.yaml'} is missing: install Reelsieve from a checkout with make setup"
            )
        folder = make_home_folder(self.home, "dagster")
        return {
            "DAGSTER_HOME": chosen or str(PROJECT),
            # dagster.yaml says so too. Only this variable keeps Dagster's programs from making folders beside that file
            # and from sending the files of the folder `logs`.
            "DAGSTER_DISABLE_TELEMETRY": "1",
            # Materialisations of the partitions of a run are stored together, by far fewer statements.
            "DAGSTER_EVENT_BATCH_SIZE": "1000",
            "REELSIEVE_HOME": str(self.home),
            "REELSIEVE_DAGSTER_DIR": str(folder),
        }

    def close(self) -> None:
        """Give up the connections to both databases."""
        for name in ("instance", "engine"):
            if name in self.__dict__:
                getattr(self, name).dispose()

    def _instance_of_file(self) -> dg.DagsterInstance:
        import dagster as dg

        theirs = os.environ.get("DAGSTER_HOME")
        os.environ.update(self.dagster_environment())
        try:
            return dg.DagsterInstance.get()
        except Exception as error:
            # Imported late: with it come the drivers of the database.
            from orchestration.cli.errors import explain

            if not theirs or explain(error) is not None:
                raise
            # Whatever is wrong with their file, it is no fault of ours.
            why = " ".join(str(error).split())[:200]
            raise SettingsError(
                f"DAGSTER_HOME is {theirs}, whose dagster.yaml makes no instance ({why}): unset the variable, or "
                "correct it"
            ) from error

    def _say_which_home(self, *, only_looks: bool) -> None:
        if self.settings.database is not None or self.settings.is_home_named:
            return
        if note := note_of_second_server(self.settings.home_folder, only_looks=only_looks):
            self._say(note)

    def _warn_of_broken(self, metric: BrokenMetric) -> None:
        # Imported late: it imports Dagster, and most commands have nothing to warn of.
        from orchestration.terminal import warn_of_broken

        warn_of_broken([metric])

    def _say(self, note: str) -> None:
        # Imported late: it imports Dagster, and a command that only looks starts at once.
        from orchestration.terminal import say

        say("note", note)


@lru_cache(maxsize=1)
def installed() -> Installation:
    """Return the installation of this process, the same one at every call.

    For the entries of the process only, which hand it down: command line, definitions, actors and Dagster's storage.
    """
    return Installation(settings)


def ready_engine(url: URL) -> Engine:
    """The engine of a curation database, whose tables and views are brought up to date first."""
    # Again where somebody imported a new metric while the views were made: he saw those of before, and left them.
    for _ in range(_MIGRATIONS):
        if _is_ready(url):
            break
        migrate(url, METRIC_INPUTS, SOURCE_TABLES)
    return open_engine(url)


def keep_connected(of: dg.DagsterInstance) -> None:
    """Let an instance use connections again that it has.

    By itself it opens a new one for every statement: more than four for each event of a run, of some milliseconds each.
    """
    # A connection that was not used for a minute may be gone; no statement of Dagster's is ended for its length.
    of.optimize_for_webserver(statement_timeout=0, pool_recycle=60, max_overflow=10)


def make_dagster_tables(url: URL) -> None:
    """Make Dagster's tables in a database that has none."""
    from dagster_postgres.storage import DagsterPostgresStorage

    # It keeps no connection.
    DagsterPostgresStorage(url_for_dagster(url))


def _is_ready(url: URL) -> bool:
    try:
        # One attempt: `migrate` waits for a server that is starting.
        opened = open_engine(url, attempts=1)
    except DatabaseUnavailable:
        return False
    try:
        with opened.connect() as connection:
            return is_current(connection) and is_up_to_date(connection, METRIC_INPUTS, SOURCE_TABLES)
    finally:
        opened.dispose()
