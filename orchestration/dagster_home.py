"""Dagster's storage as dagster.yaml names it: on the server of the home, which it starts where none runs."""

from __future__ import annotations

from functools import cache
from typing import Any

from dagster_postgres import DagsterPostgresStorage

from assets.home_files import create_home_folder
from db.server.leases import hold_lease
from db.server.urls import DAGSTER, build_sibling_url, format_dagster_url
from orchestration.installation import get_installation


class HomeStorage(DagsterPostgresStorage):
    """Dagster's tables in database `dagster` beside the curation database of the settings.

    No variable need be set for it, so Dagster's own commands find the home as `reelsieve` does.
    """

    @classmethod
    def config_type(cls) -> Any:
        """It takes no configuration."""
        return {}

    @classmethod
    def from_config_value(cls, inst_data: Any, config_value: Any) -> HomeStorage:
        """Make the databases where they are missing, and open the storage. Raises the errors of the settings."""
        url = get_installation().engine.url
        # Dagster's own commands would let other accounts read it.
        create_home_folder(get_installation().home, "dagster")
        # Two processes that make Dagster's tables at once would make one of them fail.
        with hold_lease(build_sibling_url(url, DAGSTER), "storage"):
            storage = cls(format_dagster_url(url), inst_data=inst_data)
        events: Any = storage.event_log_storage
        # Asked for every event, often twice: one statement of five. Opening the storage has made them all.
        events.has_table = cache(events.has_table)
        return storage
