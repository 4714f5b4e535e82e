"""Back-up and restore of databases without Dagster's tables: what is written, what is refused, what comes back."""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from zipfile import ZipFile

import pytest
from sqlalchemy.engine import URL, Engine

from assets.metrics.registry import METRIC_INPUTS
from db.schema.migrate import REVISION, migrate
from db.server.backup import check_backup, write_backup
from db.server.dump_rows import BackupError
from db.server.engine import open_connection
from db.server.restore import restore_backup
from db.server.urls import build_sibling_url
from tests.attack.state import changed, state_of_database
from tests.db.builders import activate, add_sample, add_video, make_dataset, ok, write_fresh
from tests.orchestration.survival import until


def restored(url: URL, source: Path) -> list[str] | None:
    return restore_backup(url, source, METRIC_INPUTS, [], lambda _url: None, lambda _line: None)


def databases(url: URL) -> set[str]:
    with open_connection(build_sibling_url(url, "postgres")) as connection:
        return {name for (name,) in connection.execute("SELECT datname FROM pg_database")}


@pytest.fixture(scope="module")
def backup(migrated_template: URL, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_backup(migrated_template, tmp_path_factory.mktemp("backup") / "today", REVISION, lambda _line: None)


def test_a_back_up_is_its_owners_alone(backup: Path) -> None:
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (backup, *backup.iterdir())}
    assert modes == {"today": 0o700, "backup.json": 0o600, "curation.zip": 0o600, "dagster.zip": 0o600}
    digest, revision = check_backup(backup, [REVISION])
    assert (len(digest), revision) == (64, REVISION)


def without(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def saying(**words: object) -> Callable[[Path], None]:
    def say(folder: Path) -> None:
        passport = folder / "backup.json"
        passport.write_text(json.dumps({**json.loads(passport.read_text()), **words}))

    return say


def with_another_byte(folder: Path) -> None:
    file = folder / "dagster.zip"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)


def exchanged(folder: Path) -> None:
    (folder / "curation.zip").rename(folder / "aside")
    (folder / "dagster.zip").rename(folder / "curation.zip")
    (folder / "aside").rename(folder / "dagster.zip")


def with_a_pipe(folder: Path) -> None:
    (folder / "curation.zip").unlink()
    os.mkfifo(folder / "curation.zip")


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (without("backup.json"), "is not a back-up: give a folder that reelsieve db dump wrote"),
        *(
            (
                saying(revision=revision),
                rf"another version of Reelsieve made the back-up in .* \(schema {revision}, this one has {REVISION}\): "
                "ingest your manifests again with reelsieve ingest$",
            )
            for revision in ("0001", "0016", "0001_00000000", "base")
        ),
        *((saying(revision=words), "is not a back-up: give a folder that") for words in ("; \x1b", "", None)),
        *((saying(format=words), "is not a back-up: give a folder that") for words in (None, float("inf"), "\x1b")),
        (
            saying(format=2),
            r"another version of Reelsieve made the back-up in .* \(format 2, this one has 3\): ingest your manifests",
        ),
        (saying(files={}), "curation.zip has changed since it was written"),
        (without("dagster.zip"), "is an incomplete back-up, without the file dagster.zip: give a complete one"),
        (with_a_pipe, "is an incomplete back-up, without the file curation.zip: give a complete one"),
        (with_another_byte, "dagster.zip has changed since it was written"),
        (exchanged, "curation.zip has changed since it was written"),
    ],
)
def test_what_is_no_whole_back_up_is_refused_before_anything_is_asked_of_a_server(
    backup: Path, tmp_path: Path, damage: Callable[[Path], None], sentence: str
) -> None:
    folder = tmp_path / "damaged"
    shutil.copytree(backup, folder)
    damage(folder)
    nowhere = URL.create("postgresql+psycopg", host=str(tmp_path), database="curation")
    with pytest.raises(BackupError, match=sentence):
        restored(nowhere, folder)


@pytest.fixture
def target(database: URL) -> Iterator[URL]:
    """The name of a database that does not exist."""
    url = build_sibling_url(database, f"{database.database}_restored")
    yield url
    with open_connection(build_sibling_url(database, "postgres"), autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {url.database} WITH (FORCE)".encode())


def test_a_restored_database_is_the_one_that_was_dumped(
    database: URL, engine: Engine, target: URL, tmp_path: Path
) -> None:
    clips = make_dataset(engine)
    sample_id = add_sample(
        engine, clips, add_video(engine, clips, "v"), "s", "\\.\n\\N\tCOPY public.score FROM stdin;\n"
    )
    write_fresh(engine, activate(engine, "vcs"), [ok(sample_id, 0.5)])
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE later AS SELECT 1 AS a")
    write_backup(database, tmp_path / "old", REVISION, lambda _line: None)
    with open_connection(build_sibling_url(database, "postgres"), autocommit=True) as connection:
        connection.execute("CREATE DATABASE reelsieve_restore_of_a_killed_one")

    assert restored(target, tmp_path / "old") == ["later"], "what nothing here makes is named"
    # A database that was copied lacks the rights that belong to no schema.
    migrate(database, METRIC_INPUTS)
    with engine.begin() as connection:
        connection.exec_driver_sql("DROP TABLE later")
    assert changed(state_of_database(target), state_of_database(database)) == []
    assert not [name for name in databases(target) if name.startswith("reelsieve_restore_")]

    assert restored(target, tmp_path / "old") is None, "the same back-up again"
    write_backup(target, tmp_path / "new", REVISION, lambda _line: None)
    with pytest.raises(BackupError, match="already holds 1 row of dataset: restore into another home"):
        restored(target, tmp_path / "new")


def test_a_table_that_is_rewritten_meanwhile_is_whole(database: URL, engine: Engine, tmp_path: Path) -> None:
    make_dataset(engine, "films")
    with ThreadPoolExecutor(1) as pool, engine.connect() as connection:
        connection.exec_driver_sql("ALTER TABLE dataset ADD mood float DEFAULT random()")
        written = pool.submit(write_backup, database, tmp_path / "backup", REVISION, lambda _line: None)
        waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'dataset'::regclass"
        until(lambda: connection.exec_driver_sql(waiting).scalar() == 1 or written.done(), "the back-up waits")
        connection.commit()
    with ZipFile(written.result() / "curation.zip") as archive:
        assert b"films" in archive.read("dataset")


def test_a_restore_that_fails_leaves_what_was_there(database: URL, engine: Engine, tmp_path: Path) -> None:
    with engine.begin() as connection:
        connection.exec_driver_sql("DROP TABLE rating CASCADE")
    write_backup(database, tmp_path / "less", REVISION, lambda _line: None)
    migrated, before = state_of_database(database), databases(database)
    with pytest.raises(BackupError, match="has no table rating: give a complete back-up"):
        restored(database, tmp_path / "less")
    assert changed(state_of_database(database), migrated) == []
    assert databases(database) == before
