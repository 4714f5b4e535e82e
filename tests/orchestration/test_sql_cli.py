"""`reelsieve sql`: where the statement comes from, and the forms of the answer."""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from db.server.embedded import start_embedded
from db.server.engine import open_connection
from tests.command_line import Done, run_command
from tests.orchestration.conftest import Installation
from tests.orchestration.survival import Command, until

ODD = """SELECT 1 AS n, 0.5::float8 AS share, 0.25::numeric AS exact, 'a "red", round circle' AS text, '' AS empty,
NULL AS nothing, true AS yes, '{"a": [1]}'::jsonb AS data, DATE '2026-11-22' AS day, '\\xff'::bytea AS bytes"""


@pytest.fixture(scope="module", autouse=True)
def home(installation: Installation) -> Installation:
    return installation


def sentence(done: Done, code: int) -> str:
    assert (done.returncode, done.stdout) == (code, "")
    (line,) = done.stderr.splitlines()
    return line


def test_a_statement_from_a_file_and_from_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "question.sql"
    file.write_text("\ufeffSELECT 7 AS n -- with a comment\n", encoding="utf-8")
    assert run_command("sql", "--file", str(file)).stdout == "n\n7\n"
    for arguments in ([], ["-"]):
        monkeypatch.setattr(sys, "stdin", io.StringIO("SELECT 8 AS n;\n"))
        assert run_command("sql", *arguments).stdout == "n\n8\n"


def test_csv_is_read_back_as_it_was() -> None:
    done = run_command(
        "sql", "--csv", ODD + " UNION ALL SELECT 2, NULL, NULL, E'two\\nlines', NULL, NULL, NULL, NULL, NULL, NULL"
    )
    header, first, second = csv.reader(io.StringIO(done.stdout))
    assert header == ["n", "share", "exact", "text", "empty", "nothing", "yes", "data", "day", "bytes"]
    assert first == ["1", "0.5", "0.25", 'a "red", round circle', "", "", "true", '{"a": [1]}', "2026-11-22", "ff"]
    assert second == ["2", "", "", "two\nlines", *[""] * 6]
    # An empty text is told from NULL.
    assert ',"",,true,' in done.stdout


def test_json_has_numbers_as_numbers() -> None:
    (row,) = json.loads(run_command("sql", "--json", ODD).stdout)
    assert row == {
        "n": 1,
        "share": 0.5,
        "exact": 0.25,
        "text": 'a "red", round circle',
        "empty": "",
        "nothing": None,
        "yes": True,
        "data": {"a": [1]},
        "day": "2026-11-22",
        "bytes": "ff",
    }
    assert json.loads(run_command("sql", "--json", "SELECT 'NaN'::float8 AS x").stdout) == [{"x": "NaN"}]


def test_no_rows_have_a_form_too() -> None:
    nothing = "SELECT 1 AS a, 2 AS b WHERE false"
    assert run_command("sql", nothing).stdout == "no rows\n"
    assert run_command("sql", "--csv", nothing).stdout == "a,b\n"
    assert run_command("sql", "--json", nothing).stdout == "[]\n"


def test_a_wide_row_is_a_record() -> None:
    done = run_command("sql", "SELECT repeat('a red circle ', 30) AS text, 0.123456 AS vcs, 12345678901234567 AS id")
    assert done.stdout.splitlines()[0].startswith("── 1 ──")
    assert done.stdout.splitlines()[-2:] == ["vcs   0.1235", "id    12345678901234567"]


def test_captions_are_shown_and_not_obeyed() -> None:
    for form in ([], ["--json"]):
        assert "\x1b" not in run_command("sql", *form, "SELECT E'\\x1b[2J' AS text").stdout
    # A file gets what the database has.
    assert "\x1b[2J" in run_command("sql", "--csv", "SELECT E'\\x1b[2J' AS text").stdout


def test_mistakes_are_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "one of them" in sentence(run_command("sql", "SELECT 1", "--file", "x.sql"), 2)
    assert "one of them" in sentence(run_command("sql", "SELECT 1", "--csv", "--json"), 2)
    absent = tmp_path / "absent.sql"
    assert str(absent) in sentence(run_command("sql", "--file", str(absent)), 2)
    absent.write_bytes(b"SELECT '\xff'")
    assert "UTF-8" in sentence(run_command("sql", "--file", str(absent)), 2)
    assert "the query is empty" in sentence(run_command("sql", "  "), 2)
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n"))
    assert "standard input is empty" in sentence(run_command("sql"), 2)
    assert "cannot insert multiple commands" in sentence(run_command("sql", "SELECT 1 AS a; SELECT 2 AS b"), 1)
    assert "read-only" in sentence(run_command("sql", "CREATE TABLE x (a int)"), 1)


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("SELEC 1", 'error: syntax error at or near "SELEC"\nLINE 1: SELEC 1\n        ^\n'),
        (
            "SELECT sample,\n\tsytem FROM sample_scores",
            'error: column "sytem" does not exist (HINT: Perhaps you meant to reference the column "sample_scores.'
            'system".)\nLINE 2:  sytem FROM sample_scores\n         ^\n',
        ),
        (
            f"SELECT '{'x' * 200}', '\u72ac', nothing",
            f"error: column \"nothing\" does not exist\n{'x' * 52}', '\u72ac', nothing\n{' ' * 61}^\n",
        ),
    ],
)
def test_the_server_points_at_the_mistake_and_hints(query: str, shown: str) -> None:
    done = run_command("sql", query)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", shown)


def test_a_terminal_gets_a_prompt_until_ctrl_d(home: Installation) -> None:
    typed = b"SELECT 40 +\n2 AS n;\nSELEC 1;\nSELECT 'a;\nb' AS text;\n\nSELECT 7 AS n;\n\\q\n"
    leader, follower = pty.openpty()
    command = [sys.executable, "-c", "from orchestration.cli import main; main()", "sql"]
    environment = {**os.environ, "REELSIEVE_HOME": str(home.home), "TERM": "dumb"}
    with subprocess.Popen(command, stdin=follower, stdout=follower, stderr=follower, env=environment) as process:
        os.close(follower)
        os.write(leader, typed)
        shown = b""
        with suppress(OSError):  # the other end is closed
            while part := os.read(leader, 4096):
                shown += part
        assert process.wait() == 0
    os.close(leader)
    lines = shown.decode().replace("\r", "").splitlines()
    assert [line for line in lines if line in ("42", "7", "a; b")] == ["42", "a; b", "7"]
    assert 'error: syntax error at or near "SELEC"' in lines
    assert "reelsieve> " in shown.decode()


def test_a_wait_for_a_stranger_is_told_with_what_is_known_of_him(home: Installation, tmp_path: Path) -> None:
    with open_connection(start_embedded(home.home), application_name="vandal") as stranger:
        stranger.execute("LOCK TABLE score IN ACCESS EXCLUSIVE MODE")
        waiting = Command({"REELSIEVE_HOME": str(home.home)}, tmp_path / "output", "sql", "SELECT count(*) FROM score")
        until(lambda: "database: " in waiting.stderr or not waiting.is_running, "the wait is told")
        pid = stranger.info.backend_pid
    assert waiting.wait() == 0
    said = " ".join(waiting.stderr.split())
    assert f"database: this command waits for a lock of vandal (server process {pid}, role postgres, since 2" in said


def test_an_error_in_the_middle_of_an_answer_is_one_sentence() -> None:
    done = run_command("sql", "--csv", "SELECT 1 / (2000 - n) AS x FROM generate_series(1, 3000) n")
    assert done.returncode == 1
    assert done.stderr == "error: division by zero\n"
    assert len(done.stdout.splitlines()) < 2001


def test_a_big_answer_streams_into_a_pipe_that_may_be_closed(home: Installation) -> None:
    """The server would need hours for the whole answer, and this process more memory than there is."""
    limit = "import resource; resource.setrlimit(resource.RLIMIT_DATA, (2**31, 2**31))"
    program = f"{limit}; from orchestration.cli import main; main()"
    query = "SELECT generate_series(1, 1000000000000) AS n, repeat('x', 1000) AS x"
    command = [sys.executable, "-c", program, "sql", "--csv", query]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        lines = [process.stdout.readline() for _ in range(5000)]
        process.stdout.close()
        assert process.stderr.read() == b""
    assert lines[0] == b"n,x\n"
    assert lines[4999].startswith(b"4999,xxx")
