"""Dagster's storage as dagster.yaml names it: a database on the server of the home, which is started if needed."""

from __future__ import annotations

from functools import cache
from typing import Any

from dagster_postgres import DagsterPostgresStorage

from assets.home.files import create_home_folder
from db.server.leases import hold_lease
from db.server.urls import DAGSTER, build_sibling_url, format_dagster_url
from orchestration.installation import get_installation


class HomeStorage(DagsterPostgresStorage):
    """Dagster's storage in the database `dagster`, on the server that holds the curation database of the settings. It
    has no options or variables of its own, so Dagster's own commands find the same home as `reelsieve`.
    """

    @classmethod
    def config_type(cls) -> Any:
        """Return the schema of the storage's configuration: an empty one, since it has no options."""
        return {}

    @classmethod
    def from_config_value(cls, inst_data: Any, config_value: Any) -> HomeStorage:
        """Open the storage, and create its database and tables if they are missing. Dagster passes both arguments;
        config_value is empty. Starts the home's server if needed, creates the home's folder `dagster`, and raises the
        errors of the settings.
        """
        url = get_installation().engine.url
        # Dagster's own commands would let other accounts read it.
        create_home_folder(get_installation().home, "dagster")
        # Two processes that make Dagster's tables at once would make one of them fail.
        with hold_lease(build_sibling_url(url, DAGSTER), "storage"):
            storage = cls(format_dagster_url(url), inst_data=inst_data)
        events: Any = storage.event_log_storage
        # Dagster asks this for every event, often twice: one statement of five. Opening the storage made all tables.
        events.has_table = cache(events.has_table)
        return storage
