"""Whoever looks at the database finds in it what everything means."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import URL, Engine

from assets.metrics.registry import METRIC_INPUTS, METRICS
from db.schema import METADATA
from db.schema.columns import COMMON_COMMENTS
from db.schema.migrate import migrate
from db.schema.views import create_views, has_current_views
from db.server.engine import open_engine
from db.server.urls import build_sibling_url
from tests.db.builders import activate, add_sample, add_video, make_dataset

UNTOLD = """
SELECT c.relname || COALESCE('.' || a.attname, '')
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE n.nspname = 'public' AND c.relkind IN ('r', 'v', 'm', 'f', 'p')
  AND (COALESCE(trim(obj_description(c.oid, 'pg_class')), '') = ''
       OR COALESCE(trim(col_description(c.oid, a.attnum)), '') = '')
"""


def untold(engine: Engine) -> list[str]:
    """The columns that lack a comment, or whose table or view lacks one."""
    with engine.connect() as connection:
        return list(connection.exec_driver_sql(UNTOLD).scalars())


def test_every_table_view_and_column_says_what_it_means(engine: Engine) -> None:
    remedy = "write what they mean at the column's declaration, or below the view in db/sql"
    assert untold(engine) == [], remedy


def test_one_that_says_nothing_would_be_noticed(engine: Engine) -> None:
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE untold (a int)")
        connection.exec_driver_sql("ALTER TABLE sample ADD COLUMN mood text")
    assert untold(engine) == ["untold.a", "sample.mood"]


def test_every_common_comment_is_used() -> None:
    columns = {column.name for table in METADATA.tables.values() for column in table.columns}
    assert COMMON_COMMENTS.keys() - columns == {"dataset", "keypoint"}, "these are columns of views"


def test_the_comments_are_of_some_length_and_end_as_sentences_do(engine: Engine) -> None:
    with engine.connect() as connection:
        told = connection.execute(sa.text("SELECT meaning FROM dictionary")).scalars().all()
    assert [text for text in told if len(text) < 10 or text[-1] not in ".)"] == []


def test_the_dictionary_says_it_in_sql(engine: Engine) -> None:
    query = sa.text(
        "SELECT what, column_name, type, meaning FROM dictionary WHERE relation = 'sample_scores' "
        "AND (column_name IS NULL OR column_name LIKE 'vcs_short%')"
    )
    with engine.connect() as connection:
        rows = [tuple(row) for row in connection.execute(query)]
    assert rows[0] == (
        "view",
        None,
        None,
        "One row per sample with its scores by the active scorers; begin here. A stale score has no value.",
    )
    assert [row[1:3] for row in rows[1:]] == [
        ("vcs_short", "double precision"),
        ("vcs_short_status", "text"),
        ("vcs_short_is_stale", "boolean"),
        ("vcs_short_models", "text"),
    ]
    assert rows[1][3] == "Score by vcs_short; NULL if there is none, for the reason in vcs_short_status."


def test_a_changed_comment_is_written_again(engine: Engine) -> None:
    with engine.begin() as connection:
        assert has_current_views(connection, METRIC_INPUTS)
        connection.exec_driver_sql("UPDATE view_definition SET sql_sha256 = 'other comments' WHERE name = 'dictionary'")
        connection.exec_driver_sql("COMMENT ON COLUMN video.fps IS 'old words'")
        create_views(connection, METRIC_INPUTS)
        shown = connection.scalar(sa.text("SELECT meaning FROM dictionary WHERE column_name = 'fps'"))
    assert shown == METADATA.tables["video"].c.fps.comment


@pytest.fixture(scope="module")
def copied(migrated_template: URL) -> URL:
    url = build_sibling_url(migrated_template, "commented")
    migrate(url, METRIC_INPUTS)
    return url


def test_a_sample_without_a_score_is_neither_stale_nor_fresh(copied: URL) -> None:
    owner = open_engine(copied)
    clips = make_dataset(owner)
    add_sample(owner, clips, add_video(owner, clips, "v"), "s")
    activate(owner)
    columns = ", ".join(f"{metric}_is_stale" for metric in METRICS)
    with owner.connect() as connection:
        row = connection.execute(sa.text(f"SELECT {columns} FROM sample_scores")).one()
    assert tuple(row) == (None,) * len(METRICS)
    owner.dispose()
