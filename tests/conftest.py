"""Fixtures that every room's tests share."""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any, Generic, TypeVar

import pytest
from hypothesis import settings
from sqlalchemy.engine import URL, Engine

from assets.metrics.registry import METRIC_INPUTS
from db.schema.migrate import migrate
from db.server.embedded import start_embedded, stop_embedded
from db.server.engine import open_engine
from db.server.urls import build_sibling_url
from tests.db.builders import make_dataset
from tests.homes import SHARED, copy_home, made_once, make_home

PROJECT = Path(__file__).resolve().parents[1]
# How many examples a property is tried with; `make attack` asks for the profile of many. An example that a busy machine
# slows down is no failure: timings belong to benchmarks.
for profile, n_examples in {"few": 25, "many": 400}.items():
    settings.register_profile(profile, parent=settings(), deadline=None, max_examples=n_examples)
settings.load_profile("few")
# Of whoever runs the tests: settings, servers, proxies and the folders of libraries; how their terminal looks, their
# language, place and git; and that Python writes no bytecode, without which every process of the tests would compile
# thousands of modules.
FORGOTTEN = (
    *("REELSIEVE_", "CURATION_DB_URL", "DAGSTER_", "RAY_", "PG", "AWS_", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"),
    *("XDG_", "HF_", "TORCH", "TRITON_", "MPL", "PYTHONDONTWRITEBYTECODE", "GIT_", "LANG", "LC_", "TZ"),
    *("TERM", "COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "CLICOLOR"),
)
# Actors of Ray give way to all others, who would leave them no core while they are waited for.
GIVEN = {"LANG": "C.UTF-8", "TZ": "UTC", "RAY_worker_niceness": "0"}
KEPT = ("REELSIEVE_TEST_DATA", "REELSIEVE_REQUIRE_ALL", "REELSIEVE_RENEW_GOLDEN")
# As for commands, see orchestration/cli: tests and what they import are a million objects, searched for garbage again
# and again, and once more when the process ends.
gc.set_threshold(50_000, 10, 10)
atexit.register(gc.freeze)
MEMORY, MEMORY_NEEDED = Path("/dev/shm"), 4 * 2**30
LONGEST_TEMPORARY = 12
TEMPLATE = "template_of_tests"
T = TypeVar("T")
Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Give the session a folder of its own for all that it and its libraries write; it goes when the session ends.

    The processes of a session share it, and so does a session that a test starts.
    """
    if SHARED not in os.environ:
        _set_up()
    if config.option.basetemp is None:
        config.option.basetemp = tempfile.mkdtemp(prefix="", dir=os.environ[SHARED])


def _set_up() -> None:
    folder = Path(tempfile.mkdtemp(prefix="sieve-", dir=_temporary_folder()))
    # At the very end: multiprocessing removes a folder of its own from it after all else, at priority -100.
    Finalize(None, shutil.rmtree, (folder,), {"ignore_errors": True}, exitpriority=-200)
    # As root the embedded server runs as another user, who must get through to it.
    folder.chmod(0o711)
    for name in ("home", "run"):
        (folder / name).mkdir(mode=0o700)
    for name in [name for name in os.environ if name.upper().startswith(FORGOTTEN) and name not in KEPT]:
        del os.environ[name]
    os.environ |= {SHARED: str(folder), "TMPDIR": str(folder), "HOME": str(folder / "home"), **GIVEN}
    time.tzset()
    os.umask(0o022)
    # A folder of the PATH that may not be searched makes of a program that is nowhere one that is forbidden.
    searched = [each for each in os.get_exec_path() if os.access(each, os.R_OK | os.X_OK)]
    os.environ["PATH"] = os.pathsep.join(searched)
    os.environ["XDG_RUNTIME_DIR"] = str(folder / "run")
    tempfile.tempdir = None
    # The threads of small models wait for each other longer than they compute, above all beside another process.
    os.environ.setdefault("OMP_NUM_THREADS", "1")


def _temporary_folder() -> str:
    """Memory where it has room: hundreds of databases are thousands of files, which a disk takes several times as long.

    Else the system's temporary folder, or /tmp where that makes the paths of Ray's sockets longer than 107 bytes.
    """
    if MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free >= MEMORY_NEEDED:
        return str(MEMORY)
    return found if len(found := tempfile.gettempdir()) <= LONGEST_TEMPORARY else "/tmp"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put files with slow tests first: no process then waits at the end for the long file of another."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


def pytest_collection_finish() -> None:
    """Search what was imported for collection, and the tests themselves, for garbage no more."""
    gc.freeze()


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
def migrated_home() -> Path:
    """A home to copy: its server stands still, and has a migrated database `template_of_tests`."""

    def make(home: Path) -> None:
        make_home(home)
        migrate(build_sibling_url(start_embedded(home), TEMPLATE), METRIC_INPUTS)
        stop_embedded(home)

    return made_once("migrated", make)


@pytest.fixture(scope="session")
def server_home(migrated_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Generator[Path, None, None]:
    """The home folder of an embedded Postgres that all tests share."""
    home = tmp_path_factory.mktemp("home")
    copy_home(migrated_home, home)
    start_embedded(home)
    yield home
    stop_embedded(home)


@pytest.fixture(scope="session")
def migrated_template(server_home: Path) -> URL:
    """A migrated database from which every test's own database is copied."""
    return build_sibling_url(start_embedded(server_home), TEMPLATE)


@pytest.fixture(scope="session")
def shared_server(migrated_template: URL) -> Generator[Engine, None, None]:
    """On the server that all tests share, to make and drop databases."""
    opened = open_engine(build_sibling_url(migrated_template, "postgres"))
    yield opened.execution_options(isolation_level="AUTOCOMMIT")
    opened.dispose()


@dataclass(frozen=True, slots=True)
class Template(Generic[T]):
    """A database that tests start from copies of, and what the function that filled it returned."""

    name: str
    filled: T


@pytest.fixture(scope="module")
def template() -> Template[Any]:
    """The database that every test's own is a copy of: an empty one; a module may put its `filled_template` here."""
    return Template(TEMPLATE, None)


def filled_template(fill: Callable[[Engine], T]) -> Any:
    """Return a fixture of a module: a migrated database with the rows that `fill` puts into it, dropped afterwards.

    Nobody is connected to it, so that it can be copied.
    """

    @pytest.fixture(scope="module", name="template")
    def build(shared_server: Engine) -> Iterator[Template[T]]:
        with copied_database(shared_server) as url:
            opened = open_engine(url)
            filled = fill(opened)
            opened.dispose()
            yield Template(str(url.database), filled)

    return build


@pytest.fixture
def database(shared_server: Engine, template: Template[Any]) -> Generator[URL, None, None]:
    """A database for one test, a copy of the module's template: empty and migrated unless the module has filled it."""
    with copied_database(shared_server, template.name) as url:
        yield url


@pytest.fixture(scope="module")
def module_engine(shared_server: Engine, template: Template[Any]) -> Iterator[Engine]:
    """An engine on a database of the module, a copy of its template: for tests that only read, or what is expensive."""
    with copied_database(shared_server, template.name) as url:
        opened = open_engine(url)
        yield opened
        opened.dispose()


@pytest.fixture
def clips(request: pytest.FixtureRequest, template: Template[Any]) -> Any:
    """What the module's `fill` returned, for any copy of the filled database; without it an empty dataset."""
    return make_dataset(request.getfixturevalue("engine")) if template.filled is None else template.filled


@contextmanager
def copied_database(shared_server: Engine, template: str = TEMPLATE) -> Iterator[URL]:
    """A database like the one of this name, for as long as the block lasts."""
    name = f"test_{uuid.uuid4().hex}"
    with shared_server.connect() as connection:
        # Without the wait for the disk it is cheaper to copy files than to write each page to the log.
        connection.exec_driver_sql(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")
    try:
        yield build_sibling_url(shared_server.url, name)
    finally:
        with shared_server.connect() as connection:
            connection.exec_driver_sql(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def engine(database: URL) -> Generator[Engine, None, None]:
    """An engine on the test's own database."""
    opened = open_engine(database)
    yield opened
    opened.dispose()
