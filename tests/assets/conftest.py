"""A database that the tests of one module share."""

from __future__ import annotations

import uuid
from collections.abc import Generator

import pytest
from sqlalchemy.engine import URL, Engine

from db.engine import open_engine
from db.urls import sibling_url


@pytest.fixture(scope="module")
def module_engine(migrated_template: URL) -> Generator[Engine, None, None]:
    """An engine on an empty, migrated database of the module: for what is too dear to set up for every test."""
    name = f"test_{uuid.uuid4().hex}"
    postgres = open_engine(sibling_url(migrated_template, "postgres"))
    with postgres.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql(f"CREATE DATABASE {name} TEMPLATE {migrated_template.database}")
        opened = open_engine(sibling_url(migrated_template, name))
        yield opened
        opened.dispose()
        connection.exec_driver_sql(f"DROP DATABASE {name} WITH (FORCE)")
    postgres.dispose()
