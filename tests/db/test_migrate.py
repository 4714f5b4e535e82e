"""Migrations on a real server: from empty, in step with db.schema, and of no other version."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from importlib import import_module

import pytest
import sqlalchemy as sa
from alembic.util.exc import CommandError
from sqlalchemy.dialects import postgresql
from sqlalchemy.engine import URL, Engine
from sqlalchemy.schema import CreateIndex, CreateTable

from assets.scores.registry import METRIC_INPUTS
from db.schema import METADATA
from db.schema.migrate import REVISION, check_schema, is_current, migrate
from db.schema.views import VIEWS, create_views
from db.server.engine import open_engine
from db.server.urls import DatabaseUnavailable, sibling_url
from tests.attack.state import changed, state_of_database
from tests.db.builders import make_dataset


def relations(engine: Engine) -> set[str]:
    found = sa.inspect(engine)
    return {*found.get_table_names(), *found.get_view_names()}


def test_upgrade_from_empty_makes_every_table_and_view(engine: Engine) -> None:
    assert relations(engine) == {*METADATA.tables, *VIEWS, "alembic_version"}
    with engine.connect() as connection:
        assert is_current(connection)


def test_tables_and_metadata_agree(engine: Engine) -> None:
    with engine.connect() as connection:
        check_schema(connection)


def test_a_table_changes_only_with_the_revision() -> None:
    made = [
        str(element.compile(dialect=postgresql.dialect()))
        for table in METADATA.sorted_tables
        for element in (CreateTable(table), *map(CreateIndex, sorted(table.indexes, key=lambda index: str(index.name))))
    ]
    found = sha256("".join(made).encode()).hexdigest()
    migration = import_module(f"db.migrations.versions.first_{REVISION}")
    assert found == migration.TABLES_SHA256, "rename the migration to a new revision, and write this digest there"


def test_check_notices_a_table_that_differs(engine: Engine) -> None:
    with engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE video DROP COLUMN codec CASCADE")
    with engine.connect() as connection, pytest.raises(CommandError):
        check_schema(connection)


@pytest.mark.parametrize("revision", ["0018", "0200"])
def test_a_database_of_another_development_version_is_refused_as_it_is(
    database: URL, engine: Engine, revision: str
) -> None:
    make_dataset(engine)
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = :revision"), {"revision": revision})
    before = state_of_database(database)
    sentence = rf"another development version of Reelsieve \(schema {revision}, .* ingest your manifests again"
    with pytest.raises(DatabaseUnavailable, match=sentence):
        migrate(database, METRIC_INPUTS)
    assert changed(before, state_of_database(database)) == []


def test_two_migrations_at_once_end_in_one_schema(migrated_template: URL) -> None:
    url = sibling_url(migrated_template, "migrated_twice")
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
        open_engine(sibling_url(migrated_template, "nowhere"))
