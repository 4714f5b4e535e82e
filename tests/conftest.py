"""Fixtures that every room's tests share."""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from collections.abc import Generator
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import settings
from sqlalchemy.engine import URL, Engine

from assets.scores.registry import METRIC_INPUTS
from db.engine import open_engine
from db.migrate import migrate
from db.server import start_embedded, stop_embedded
from db.urls import sibling_url

PROJECT = Path(__file__).resolve().parents[1]
# An example that a busy machine slows down is no failure: timings belong to benchmarks.
settings.register_profile("untimed", parent=settings(), deadline=None)
settings.load_profile("untimed")
Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """As root, keep this session's folders out of the one that all pytest sessions share.

    The embedded server then runs as another user, whom every new session shuts out of that folder: the server panics.
    """
    if os.geteuid() == 0 and config.option.basetemp is None:
        config.option.basetemp = tempfile.mkdtemp(prefix="reelsieve-tests-")
        config.add_cleanup(partial(shutil.rmtree, config.option.basetemp, ignore_errors=True))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put files with slow tests first: of two processes, neither then waits at the end for the other's long file."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Where REELSIEVE_REQUIRE_ALL=1 (in CI), a skipped test is a failed one."""
    return _refuse_skip((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """The same for a whole module that skips itself."""
    return _refuse_skip((yield))


def _refuse_skip(report: Report) -> Report:
    is_skip = report.skipped and not hasattr(report, "wasxfail")
    if is_skip and os.environ.get("REELSIEVE_REQUIRE_ALL") == "1":
        reason = report.longrepr[-1] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"REELSIEVE_REQUIRE_ALL=1 allows no skipped test. {reason}"
    return report


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real test data; tests that need it are skipped where it is absent."""
    folder = Path(os.environ.get("REELSIEVE_TEST_DATA", PROJECT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"real test data not found in {folder}: set REELSIEVE_TEST_DATA to its folder")
    return folder


@pytest.fixture(scope="session")
def server_home(tmp_path_factory: pytest.TempPathFactory) -> Generator[Path, None, None]:
    """The home folder of an embedded Postgres that all tests share."""
    home = tmp_path_factory.mktemp("home")
    start_embedded(home)
    yield home
    stop_embedded(home)


@pytest.fixture(scope="session")
def migrated_template(server_home: Path) -> URL:
    """A migrated database from which every test's own database is copied."""
    url = sibling_url(start_embedded(server_home), "template_of_tests")
    migrate(url, METRIC_INPUTS)
    return url


@pytest.fixture
def database(migrated_template: URL) -> Generator[URL, None, None]:
    """An empty, migrated database for one test."""
    name = f"test_{uuid.uuid4().hex}"
    postgres = open_engine(sibling_url(migrated_template, "postgres"))
    with postgres.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql(f"CREATE DATABASE {name} TEMPLATE {migrated_template.database}")
        yield sibling_url(migrated_template, name)
        connection.exec_driver_sql(f"DROP DATABASE {name} WITH (FORCE)")
    postgres.dispose()


@pytest.fixture
def engine(database: URL) -> Generator[Engine, None, None]:
    """An engine on the test's own database."""
    opened = open_engine(database)
    yield opened
    opened.dispose()
