"""A second server for the tests that stop or kill it, and a role on it that needs a password."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import URL

from assets.metrics.registry import METRIC_INPUTS
from db.schema.migrate import migrate
from db.server.embedded import start_embedded, stop_embedded
from db.server.engine import open_engine
from db.server.urls import build_sibling_url

OWNER, PASSWORD = "owner", "p@ss: word/1%"


@pytest.fixture(scope="session")
def own_home(tmp_path_factory: pytest.TempPathFactory) -> Generator[Path, None, None]:
    """A home, with spaces and quotes in its path, whose server a test may stop; each test starts it itself."""
    home = tmp_path_factory.mktemp("own") / "a home, with 'quotes' & 100% $HOME"
    yield home
    stop_embedded(home)


@pytest.fixture(scope="session")
def guarded(own_home: Path) -> URL:
    """A migrated database whose owner and reader are both asked for a password."""
    server = build_sibling_url(start_embedded(own_home), "postgres")
    access = own_home / "postgres" / "pg_hba.conf"
    access.write_text(f"local all {OWNER},reelsieve_reader scram-sha-256\n" + access.read_text())
    superuser = open_engine(server)
    with superuser.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql(f"CREATE ROLE {OWNER} LOGIN SUPERUSER PASSWORD '{PASSWORD.replace('%', '%%')}'")
        connection.execute(sa.text("SELECT pg_reload_conf()"))
    superuser.dispose()
    url = server.set(username=OWNER, password=PASSWORD, database="guarded")
    url = url.update_query_dict({"require_auth": "scram-sha-256,none"})
    migrate(url, METRIC_INPUTS)
    return url
