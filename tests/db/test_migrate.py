"""Migrations on a real server: from empty, in step with db.schema, and of no other version."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from types import ModuleType

import pytest
import sqlalchemy as sa
from alembic.script import ScriptDirectory
from sqlalchemy.engine import URL, Connection, Engine

import db.schema.migrate as migrating
from assets.metrics.registry import METRIC_INPUTS
from db.schema import METADATA
from db.schema.migrate import MIGRATIONS, REVISION, is_schema_current, list_revisions, migrate
from db.schema.views import VIEWS, create_views
from db.server.backup import write_backup
from db.server.engine import open_engine
from db.server.reader import create_reader_role
from db.server.restore import restore_backup
from db.server.urls import DatabaseUnavailable, build_sibling_url
from tests.attack.state import OF_DATABASE, changed, state_of_database
from tests.conftest import copied_database
from tests.db.builders import activate, add_sample, add_video, make_dataset, ok, write_fresh

KINDS = ("columns", "constraints", "indexes", "triggers", "functions", "comments", "views")


def load_first(folder: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("first", folder / "versions" / "first_0001.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def relations(engine: Engine) -> set[str]:
    found = sa.inspect(engine)
    return {*found.get_table_names(), *found.get_view_names()}


def catalogue(connection: Connection) -> dict[str, set[str]]:
    """Everything that tables, views and functions consist of, but for the table of the revision."""
    return {
        kind: {
            row
            for row in map(
                str, connection.exec_driver_sql(OF_DATABASE[kind], execution_options={"no_parameters": True})
            )
            if "alembic_version" not in row
        }
        for kind in KINDS
    }


def differing(found: dict[str, set[str]], wanted: dict[str, set[str]]) -> dict[str, set[str]]:
    return {kind: found[kind] ^ wanted[kind] for kind in KINDS if found[kind] != wanted[kind]}


@pytest.fixture(scope="module")
def declared(shared_server: Engine) -> Generator[dict[str, set[str]], None, None]:
    """The catalogue of a database whose tables SQLAlchemy makes from their declarations, without a migration."""
    functions, triggers = load_first(MIGRATIONS).SQL.read_text().split("-- TABLES\n")
    with copied_database(shared_server, "template0") as url:
        opened = open_engine(url)
        with opened.begin() as connection:
            connection.exec_driver_sql("CREATE EXTENSION vector")
            connection.exec_driver_sql(functions)
            METADATA.create_all(connection)
            connection.exec_driver_sql(triggers)
            create_views(connection, METRIC_INPUTS)
            create_reader_role(connection, url)
            found = catalogue(connection)
        opened.dispose()
        yield found


def test_upgrade_from_empty_makes_every_table_and_view(engine: Engine) -> None:
    assert relations(engine) == {*METADATA.tables, *VIEWS, "alembic_version"}
    with engine.connect() as connection:
        assert is_schema_current(connection)


def test_migrations_make_what_is_declared(engine: Engine, declared: dict[str, set[str]]) -> None:
    with engine.connect() as connection:
        assert differing(catalogue(connection), declared) == {}, "a table was changed: write a migration for it"


CHANGES = [
    ("columns", "ALTER TABLE chat_call ALTER http_status TYPE bigint"),
    ("columns", "ALTER TABLE chat_call ALTER attempt SET DEFAULT 1"),
    ("columns", "ALTER TABLE chat_call ALTER outcome DROP NOT NULL"),
    ("columns", "ALTER TABLE chat_call DROP money"),
    ("columns", "ALTER TABLE chat_call ADD mood text"),
    ("constraints", "ALTER TABLE chat_call DROP CONSTRAINT ck_chat_call_outcome"),
    ("indexes", "DROP INDEX ix_chat_call_run_id"),
    ("indexes", "CREATE INDEX ON chat_call (ended_at)"),
    ("comments", "COMMENT ON COLUMN chat_call.error IS 'An error.'"),
    ("comments", "COMMENT ON TABLE chat_call IS NULL"),
    ("comments", "COMMENT ON COLUMN sample_scores.words IS NULL"),
    ("functions", "CREATE OR REPLACE FUNCTION mark_all() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN END'"),
    ("functions", "CREATE FUNCTION of_mine() RETURNS int LANGUAGE sql RETURN 1"),
    ("triggers", "DROP TRIGGER rating_values ON rating"),
    ("triggers", "ALTER TABLE rating DISABLE TRIGGER rating_values"),
    ("views", "DROP VIEW shard_thresholds"),
]


def test_a_database_that_differs_from_what_is_declared_is_noticed(
    engine: Engine, declared: dict[str, set[str]]
) -> None:
    with engine.connect() as connection:
        for kind, change in CHANGES:
            connection.exec_driver_sql(change)
            assert kind in differing(catalogue(connection), declared), change
            connection.rollback()
        assert differing(catalogue(connection), declared) == {}


def test_another_draft_of_the_first_migration_is_another_revision() -> None:
    first = load_first(MIGRATIONS)
    revision = f"0001_{sha256(first.build_sql().encode()).hexdigest()[:8]}"
    assert first.revision == revision, "tables, functions or triggers changed: change `revision`, and REVISION with it"
    # Those of development had four digits.
    assert [name for name in list_revisions() if name.isdigit()] == []


def test_the_newest_revision_is_that_of_the_last_migration() -> None:
    assert ScriptDirectory(str(MIGRATIONS)).get_current_head() == REVISION


MADE_UP = "0002_made_up"
ADD_MOOD = f"""
from alembic import op
import sqlalchemy as sa

revision, down_revision, branch_labels, depends_on = "{MADE_UP}", "{REVISION}", None, None


def upgrade():
    op.add_column("video", sa.Column("mood", sa.Text(), nullable=False, server_default="calm"))
    op.alter_column("sample", "system", type_=sa.String(200))
"""


@pytest.fixture
def next_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The next version of the code, whose migration this returns: the tables of the first one are written out."""
    folder = tmp_path / "migrations"
    shutil.copytree(MIGRATIONS, folder)
    first = load_first(folder)
    first.SQL.write_text(first.build_sql())
    monkeypatch.setattr(migrating, "MIGRATIONS", folder)
    monkeypatch.setattr(migrating, "REVISION", MADE_UP)
    script = folder / "versions" / "mood_0002.py"
    script.write_text(ADD_MOOD)
    return script


def fill(engine: Engine) -> None:
    clips = make_dataset(engine, "films")
    sample_id = add_sample(engine, clips, add_video(engine, clips, "v"), "s", "A dog runs.")
    write_fresh(engine, activate(engine, "vcs"), [ok(sample_id, 0.5)])


def test_a_first_migration_that_is_written_out_depends_on_no_declaration(
    next_version: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = load_first(next_version.parents[1])
    monkeypatch.setattr(first, "METADATA", sa.MetaData())
    assert first.build_sql() == load_first(MIGRATIONS).build_sql()


@pytest.mark.usefixtures("next_version")
def test_a_filled_database_is_brought_to_the_next_version(database: URL, engine: Engine) -> None:
    fill(engine)
    with engine.connect() as connection:
        assert not is_schema_current(connection)
    assert migrate(database, METRIC_INPUTS) == MADE_UP
    with engine.connect() as connection:
        assert is_schema_current(connection)
        assert connection.scalar(sa.text("SELECT mood FROM video")) == "calm"
        row = connection.execute(sa.text("SELECT sample, system, vcs, vcs_status FROM sample_scores")).one()
    assert tuple(row) == ("s", "brief", 0.5, "ok")
    assert migrate(database, METRIC_INPUTS) == MADE_UP


def test_an_upgrade_that_fails_leaves_the_database_as_it_was(
    database: URL, engine: Engine, next_version: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(engine)
    next_version.write_text(f"{ADD_MOOD}    op.execute('SELECT 1 / 0')\n")
    before = state_of_database(database)
    with pytest.raises(sa.exc.DataError, match="division by zero"):
        migrate(database, METRIC_INPUTS)
    assert changed(before, state_of_database(database)) == []
    monkeypatch.undo()
    assert migrate(database, METRIC_INPUTS) == REVISION, "this version still uses it"
    with engine.connect() as connection:
        assert connection.scalar(sa.text("SELECT vcs FROM sample_scores")) == 0.5
    make_dataset(engine, "other films")


def test_a_back_up_of_an_older_version_is_restored_into_this_one(
    database: URL, engine: Engine, tmp_path: Path, next_version: Path
) -> None:
    fill(engine)
    backup = write_backup(database, tmp_path / "backup", REVISION, lambda _line: None)
    url = build_sibling_url(database, f"{database.database}_newer")
    assert restore_backup(url, backup, METRIC_INPUTS, [], lambda _url: None, lambda _line: None) == []
    restored = open_engine(url)
    with restored.connect() as connection:
        assert is_schema_current(connection)
        row = connection.execute(sa.text("SELECT mood, vcs FROM video v JOIN sample_scores c ON c.video = v.key")).one()
        assert tuple(row) == ("calm", 0.5)
    restored.dispose()


def test_a_database_of_an_unknown_version_is_refused_as_it_is(database: URL, engine: Engine) -> None:
    make_dataset(engine)
    for revision in ("0001", "0016", "0001_00000000", MADE_UP):
        with engine.begin() as connection:
            connection.execute(sa.text("UPDATE alembic_version SET version_num = :revision"), {"revision": revision})
        before = state_of_database(database)
        with pytest.raises(DatabaseUnavailable) as refused:
            migrate(database, METRIC_INPUTS)
        assert str(refused.value) == (
            f"database {database.database} was made by another version of Reelsieve (schema {revision}, this one has "
            f"{REVISION}): set a new home folder (REELSIEVE_HOME) or database (CURATION_DB_URL) and ingest your "
            "manifests again with reelsieve ingest"
        )
        assert changed(before, state_of_database(database)) == []


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        ("DELETE FROM alembic_version", "has some of Reelsieve's tables but no revision: set a new home folder"),
        ("DROP TABLE alembic_version", "has some of Reelsieve's tables but no revision: set a new home folder"),
        ("DROP TABLE alembic_version, video CASCADE", "has some of Reelsieve's tables but no revision: set a new"),
        ("DROP TABLE video, chat_call CASCADE", "lacks the table chat_call: set a new home"),
    ],
)
def test_a_half_written_database_is_refused_as_it_is(database: URL, engine: Engine, damage: str, sentence: str) -> None:
    with engine.begin() as connection:
        connection.exec_driver_sql(damage)
        assert not is_schema_current(connection)
    before = state_of_database(database)
    with pytest.raises(DatabaseUnavailable, match=sentence):
        migrate(database, METRIC_INPUTS)
    assert changed(before, state_of_database(database)) == []


@pytest.mark.parametrize(
    "begun",
    [
        "SELECT",
        "CREATE EXTENSION vector; CREATE TABLE of_somebody_else (a int); "
        "CREATE TABLE alembic_version (version_num varchar(32) CONSTRAINT alembic_version_pkc PRIMARY KEY)",
    ],
)
def test_a_database_without_tables_is_finished(shared_server: Engine, begun: str) -> None:
    with copied_database(shared_server, "template0") as url:
        opened = open_engine(url)
        with opened.begin() as connection:
            connection.exec_driver_sql(begun)
        assert migrate(url, METRIC_INPUTS) == REVISION
        with opened.connect() as connection:
            assert is_schema_current(connection)
        opened.dispose()


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
