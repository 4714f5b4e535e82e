"""A database that the tests of one module share."""

from __future__ import annotations

from collections.abc import Generator

import pytest
from sqlalchemy.engine import Engine

from db.server.engine import open_engine
from tests.conftest import copied_database


@pytest.fixture(scope="module")
def module_engine(shared_server: Engine) -> Generator[Engine, None, None]:
    """An engine on an empty, migrated database of the module: for what is too expensive to set up for every test."""
    with copied_database(shared_server) as url:
        opened = open_engine(url)
        yield opened
        opened.dispose()
