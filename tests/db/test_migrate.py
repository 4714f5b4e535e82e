"""Migrations on a real server: from empty, in step with db.schema, and of no other version."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.script import ScriptDirectory
from alembic.util.exc import CommandError
from sqlalchemy.engine import URL, Engine

import db.schema.migrate as migrating
from assets.scores.registry import METRIC_INPUTS
from db.schema import METADATA
from db.schema.migrate import MIGRATIONS, REVISION, check_tables_match, is_schema_current, migrate
from db.schema.views import VIEWS, create_views, drop_views
from db.server.backup import write_backup
from db.server.engine import open_engine
from db.server.restore import restore_backup
from db.server.urls import DatabaseUnavailable, build_sibling_url
from tests.attack.state import OF_DATABASE, changed, state_of_database
from tests.db.builders import activate, add_sample, add_video, make_dataset, ok, write_fresh

FROZEN = "e47ef2ec7a0671fe8bf5a13bdeec66832aa9bab6ddf8ae33b0b92c91fee9e33c"


def relations(engine: Engine) -> set[str]:
    found = sa.inspect(engine)
    return {*found.get_table_names(), *found.get_view_names()}


def test_upgrade_from_empty_makes_every_table_and_view(engine: Engine) -> None:
    assert relations(engine) == {*METADATA.tables, *VIEWS, "alembic_version"}
    with engine.connect() as connection:
        assert is_schema_current(connection)


def test_tables_and_metadata_agree(engine: Engine) -> None:
    with engine.connect() as connection:
        check_tables_match(connection)


def test_migrations_make_the_tables_of_the_code(engine: Engine) -> None:
    """Also what Alembic's own comparison leaves out: checks, expressions, indexes of a part of the rows."""

    def tables() -> dict[str, list[str]]:
        with engine.connect() as connection:
            return {
                name: sorted(str(tuple(row)) for row in connection.exec_driver_sql(OF_DATABASE[name]))
                for name in ("columns", "constraints", "indexes")
            }

    with engine.begin() as connection:
        drop_views(connection)
    migrated = tables()
    with engine.begin() as connection:
        for table in METADATA.sorted_tables:
            connection.exec_driver_sql(f"DROP TABLE {table.name} CASCADE")
        METADATA.create_all(connection)
    assert tables() == migrated, "a table was changed: write a migration for it"


def test_the_first_migration_is_frozen() -> None:
    content = (MIGRATIONS / "versions" / "first_0001.sql").read_bytes()
    assert sha256(content).hexdigest() == FROZEN, "version 0.1.0 made its tables so: write another migration"


def test_the_newest_revision_is_that_of_the_last_migration() -> None:
    assert ScriptDirectory(str(MIGRATIONS)).get_current_head() == REVISION


ADD_MOOD = f"""
from alembic import op
import sqlalchemy as sa

revision, down_revision, branch_labels, depends_on = "9999", "{REVISION}", None, None


def upgrade():
    op.add_column("video", sa.Column("mood", sa.Text(), nullable=False, server_default="calm"))
    op.alter_column("sample", "system", type_=sa.String(200))
"""


@pytest.fixture
def next_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The next version of the code, whose migration this returns."""
    shutil.copytree(MIGRATIONS, tmp_path / "migrations")
    monkeypatch.setattr(migrating, "MIGRATIONS", tmp_path / "migrations")
    monkeypatch.setattr(migrating, "REVISION", "9999")
    script = tmp_path / "migrations" / "versions" / "mood_9999.py"
    script.write_text(ADD_MOOD)
    return script


@pytest.mark.usefixtures("next_version")
def test_a_filled_database_is_brought_to_the_next_version(database: URL, engine: Engine) -> None:
    clips = make_dataset(engine)
    sample_id = add_sample(engine, clips, add_video(engine, clips, "v"), "s", "A dog runs.")
    write_fresh(engine, activate(engine, "vcs"), [ok(sample_id, 0.5)])
    with engine.connect() as connection:
        assert not is_schema_current(connection)
    assert migrate(database, METRIC_INPUTS) == "9999"
    with engine.connect() as connection:
        assert is_schema_current(connection)
        assert connection.scalar(sa.text("SELECT mood FROM video")) == "calm"
        row = connection.execute(sa.text("SELECT sample, system, vcs, vcs_status FROM sample_scores")).one()
    assert tuple(row) == ("s", "brief", 0.5, "ok")
    assert migrate(database, METRIC_INPUTS) == "9999"


def test_an_upgrade_that_fails_leaves_the_database_as_it_was(database: URL, engine: Engine, next_version: Path) -> None:
    make_dataset(engine)
    next_version.write_text(f"{ADD_MOOD}    op.execute('SELECT 1 / 0')\n")
    before = state_of_database(database)
    with pytest.raises(sa.exc.DataError, match="division by zero"):
        migrate(database, METRIC_INPUTS)
    assert changed(before, state_of_database(database)) == []


@pytest.mark.usefixtures("next_version")
def test_a_back_up_of_an_older_version_is_restored_into_this_one(database: URL, engine: Engine, tmp_path: Path) -> None:
    make_dataset(engine, "films")
    backup = write_backup(database, tmp_path / "backup", REVISION, lambda _line: None)
    url = build_sibling_url(database, f"{database.database}_newer")
    assert restore_backup(url, backup, METRIC_INPUTS, [], lambda _url: None, lambda _line: None) == []
    restored = open_engine(url)
    with restored.connect() as connection:
        assert is_schema_current(connection)
        assert connection.scalar(sa.text("SELECT name FROM dataset")) == "films"
        assert connection.scalars(sa.text("SELECT mood FROM video")).all() == []
    restored.dispose()


def test_check_notices_a_table_that_differs(engine: Engine) -> None:
    with engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE video DROP COLUMN codec CASCADE")
    with engine.connect() as connection, pytest.raises(CommandError):
        check_tables_match(connection)


@pytest.mark.parametrize("revision", ["0130", "9999"])
def test_a_database_of_an_unknown_version_is_refused_as_it_is(database: URL, engine: Engine, revision: str) -> None:
    make_dataset(engine)
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = :revision"), {"revision": revision})
    before = state_of_database(database)
    sentence = rf"another version of Reelsieve \(schema {revision}; .* ingest your manifests again"
    with pytest.raises(DatabaseUnavailable, match=sentence):
        migrate(database, METRIC_INPUTS)
    assert changed(before, state_of_database(database)) == []


def test_two_migrations_at_once_end_in_one_schema(migrated_template: URL) -> None:
    url = build_sibling_url(migrated_template, "migrated_twice")
    with ThreadPoolExecutor(2) as pool:
        revisions = list(pool.map(lambda _: migrate(url, METRIC_INPUTS), range(2)))
    assert len(set(revisions)) == 1
    found = open_engine(url)
    assert relations(found) >= set(METADATA.tables)
    found.dispose()


def test_a_new_metric_gets_its_columns_without_a_migration(engine: Engine) -> None:
    with engine.begin() as connection:
        create_views(connection, {"brought": METRIC_INPUTS["vcs"], **METRIC_INPUTS})
    columns = [column["name"] for column in sa.inspect(engine).get_columns("sample_scores")]
    of_metrics = columns[columns.index("own_fields") + 1 :]
    suffixes = ("", "_status", "_is_stale", "_models")
    assert of_metrics == [f"{metric}{suffix}" for metric in ("brought", *METRIC_INPUTS) for suffix in suffixes]


def test_a_metric_name_cannot_carry_sql(engine: Engine) -> None:
    with engine.begin() as connection, pytest.raises(ValueError, match="lower-case"):
        create_views(connection, {"vcs; drop table score": METRIC_INPUTS["vcs"]})


def test_a_database_that_is_missing_is_named(migrated_template: URL) -> None:
    with pytest.raises(DatabaseUnavailable, match="nowhere"):
        open_engine(build_sibling_url(migrated_template, "nowhere"))
