"""Migrations on a real server: from empty, back, and in step with db.schema."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa
from alembic.util.exc import CommandError
from sqlalchemy.engine import URL, Engine

from assets.scores.registry import METRIC_INPUTS
from db.evidence.verdicts import VerdictRow, VerdictSet, write_verdicts
from db.schema import METADATA
from db.schema.migrate import check_schema, downgrade, is_current, migrate
from db.schema.views import PLUMBING, VIEWS, create_views
from db.server.engine import open_engine
from db.server.urls import DatabaseUnavailable, sibling_url
from tests.db.builders import INPUT, add_keypoint, add_label, add_sample, add_video, make_dataset
from tests.db.old_rows import contents, insert_old, old_score, old_scorer


def relations(engine: Engine) -> set[str]:
    found = sa.inspect(engine)
    plumbing = [f"{PLUMBING}.{name}" for name in found.get_view_names(PLUMBING)]
    return {*found.get_table_names(), *found.get_view_names(), *plumbing}


def test_upgrade_from_empty_makes_every_table_and_view(engine: Engine) -> None:
    assert relations(engine) == {*METADATA.tables, *VIEWS, "alembic_version"}
    with engine.connect() as connection:
        assert is_current(connection)


def test_tables_and_metadata_agree(engine: Engine) -> None:
    with engine.connect() as connection:
        check_schema(connection)


def test_check_notices_a_table_that_differs(engine: Engine) -> None:
    with engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE video DROP COLUMN codec CASCADE")
    with engine.connect() as connection, pytest.raises(CommandError):
        check_schema(connection)


def test_downgrade_removes_everything_and_upgrade_brings_it_back(database: URL, engine: Engine) -> None:
    downgrade(database, "base")
    assert relations(engine) == {"alembic_version"}
    migrate(database, METRIC_INPUTS)
    assert relations(engine) == {*METADATA.tables, *VIEWS, "alembic_version"}


def test_data_of_an_older_revision_stays_through_upgrade_and_downgrade(database: URL, engine: Engine) -> None:
    downgrade(database, "0002")
    clips = make_dataset(engine)
    video_id = add_video(engine, clips, "v", content=b"frames")
    sample_id = add_sample(engine, clips, video_id, "s")
    keypoint_id = add_keypoint(engine, clips, video_id, "k")
    add_label(engine, keypoint_id, sample_id, True)
    scorer_id = old_scorer(engine, "vcs")
    old_score(engine, "vcs", scorer_id, sample_id, 0.5)
    found = {"scorer_id": scorer_id, "dataset_id": clips.dataset_id, "method": "fraction", "objective": "top 10 %"}
    insert_old(engine, "threshold", **found, scope="dataset", value=0.25, n=1)
    before = contents(engine)
    assert len(before["threshold"]) == 1

    migrate(database, METRIC_INPUTS)
    with engine.connect() as connection:
        check_schema(connection)
        row = connection.execute(sa.select(METADATA.tables["score_threshold"])).one()
    assert (row.at_least, row.n, row.n_good, row.details) == (0.25, 1, None, {})
    verdict = VerdictRow(keypoint_id, 0.5, 0, "A dog runs.", False, 1)
    assert write_verdicts(engine, scorer_id, "run", [VerdictSet(sample_id, INPUT, 1, (verdict,))]) == 1

    downgrade(database, "0002")
    assert contents(engine) == before
    migrate(database, METRIC_INPUTS)
    with engine.connect() as connection:
        check_schema(connection)


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
