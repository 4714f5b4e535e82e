"""A model server that echoes its key: no command prints it, and nothing that is stored holds it."""

from __future__ import annotations

import json
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any
from zipfile import ZipFile

import pytest
import sqlalchemy as sa

from db.server.engine import open_engine
from db.server.urls import DAGSTER, build_sibling_url
from orchestration.installation import get_installation
from tests.assets.examiner import examiner
from tests.command_line import Done, run_command
from tests.metrics_core.chat_server import Answer, completion, loopback
from tests.metrics_core.key_escapes import escape_key, shows_key
from tests.orchestration.conftest import Installation, write_manifest

pytestmark = pytest.mark.slow

KEY = "sk-very/secret+0123456789"
ESCAPED = [KEY, *(escape_key(KEY, Random(number)) for number in range(8))]


def echo(number: int, body: dict[str, Any]) -> Answer:
    """Every third answer is a good one, so that the work goes on; the others hold the key, each in another way."""
    encoded = ESCAPED[number % len(ESCAPED)]
    if number % 3 == 0:
        return examiner(number, body)
    if number % 3 == 1:
        return Answer((400, 500)[number % 2], f'{{"error": {{"message": "wrong key {encoded}"}}}}'.encode())
    answers = json.loads(json.loads(examiner(number, body).body)["choices"][0]["message"]["content"])
    said = {name: [encoded] * 3 if isinstance(answer, list) else encoded for name, answer in answers.items()}
    return completion(json.dumps(said).replace("\\\\", "\\"), model=body["model"])


@dataclass(frozen=True, slots=True)
class Story:
    """What commands said, how often the server was asked, and where a back-up is."""

    said: dict[str, Done]
    n_asked: int
    backup: Path


@pytest.fixture(scope="module")
def story(installation: Installation, tmp_path_factory: pytest.TempPathFactory) -> Generator[Story, None, None]:
    manifest, backup = write_manifest(tmp_path_factory.mktemp("few"), n_videos=2), installation.home.parent / "backup"
    said = {}
    with loopback(echo) as server, pytest.MonkeyPatch.context() as patched:
        patched.setenv("ECHOED_KEY", KEY)
        patched.setenv("REELSIEVE_QEVA_TEXT_MODEL", "tiny")
        patched.setenv("REELSIEVE_QEVA_TEXT_URL", server.url)
        patched.setenv("REELSIEVE_QEVA_TEXT_KEY_VARIABLE", "ECHOED_KEY")
        for name, *arguments in (
            ("ingest", str(manifest), "-d", "d"),
            ("score", "-d", "d", "--metric", "qeva"),
            ("dataset", "scores", "-d", "d", "--json"),
            ("doctor",),
            ("db", "dump", str(backup)),
        ):
            said[name] = run_command(name, *arguments)
        assert f"Bearer {KEY}" in str(server.headers)
        yield Story(said, len(server.asked), backup)


def test_nothing_printed_holds_it(story: Story) -> None:
    for name, done in story.said.items():
        assert not shows_key(KEY, done.stdout + done.stderr), name
        assert done.returncode in (0, 1), done.stderr
    assert story.n_asked > len(ESCAPED)


@pytest.mark.parametrize("name", ["curation", DAGSTER])
def test_no_row_of_either_database_holds_it(story: Story, name: str) -> None:
    engine = open_engine(build_sibling_url(get_installation().database_url, name))
    tables = "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables WHERE schemaname !~ '^(pg_|information)'"
    with engine.connect() as connection:
        rows = {
            table: [str(row) for (row,) in connection.execute(sa.text(f"SELECT t::text FROM {table} t"))]
            for table in connection.scalars(sa.text(tables))
        }
    engine.dispose()
    read = "chat_call" if name == "curation" else "event_logs"
    assert any(len(found) > 10 for table, found in rows.items() if read in table)
    assert name == DAGSTER or "[key]" in str(rows)
    for table, found in rows.items():
        assert not [row for row in found if shows_key(KEY, row)], table


def test_neither_the_back_up_nor_a_log_holds_it(story: Story, installation: Installation) -> None:
    assert story.said["db"].returncode == 0, story.said["db"].stderr
    texts = {}
    for path in story.backup.glob("*.zip"):
        with ZipFile(path) as archive:
            texts |= {f"{path.name} {name}": archive.read(name).decode() for name in archive.namelist()}
    assert {"curation.zip chat_call", "dagster.zip event_logs"} < set(texts)
    for path in installation.home.rglob("*"):
        if path.is_file() and "postgres" not in path.relative_to(installation.home).parts[0]:
            texts[str(path)] = path.read_text(errors="replace")
    for name, text in texts.items():
        assert not [line for line in text.splitlines() if shows_key(KEY, line)], name
