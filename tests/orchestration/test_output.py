"""What a command prints: text from a dataset is shown as it is, and a terminal never obeys it."""

import io
import json
import logging
import sys
import unicodedata
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from importlib.metadata import version
from typing import Any

import dagster as dg
import pytest
import sqlalchemy as sa
from sqlalchemy.engine import URL, Engine

from assets.words.text import escape_controls
from db.server.urls import format_psycopg2_url
from orchestration.cli.output import (
    console,
    hide_connection_attempts,
    make_plain_text,
    print_error,
    print_json,
    print_rows,
    print_sentence,
)
from orchestration.terminal import terminal_logger
from tests.command_line import run_command

OBEYED = [*map(chr, range(32)), *map(chr, range(0x7F, 0xA0)), *"\u061c\u200e\u200f\u2028\u2029\u202a\u202e\u2066\u2069"]
TURNING = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
KEPT = "\t\n"
HOSTILE = "a\x1b]0;owned\x07b\x9b2Jc\u202egnp.exe\x7f\r\x08"
SHOWN = r"a\u001b]0;owned\u0007b\u009b2Jc\u202egnp.exe\u007f\u000d\u0008"


def printed(rows: list[dict[str, Any]]) -> str:
    with redirect_stdout(io.StringIO()) as out:
        print_rows(rows, empty="")
    return out.getvalue()


def test_columns_without_room_are_named_unless_all_are_asked_for() -> None:
    rows = [{"sample": "a", **{f"metric_{n}": n / 7 for n in range(9)}}]
    with redirect_stdout(io.StringIO()) as out:
        print_rows(rows, empty="", kept=())
    *table, note = out.getvalue().splitlines()
    # "sample" and six columns of eight characters take 66 of the 80 characters, and seven 76.
    assert table[0].split() == ["sample", *(f"metric_{n}" for n in range(7))]
    assert note == "--wide also shows metric_7, metric_8"
    with redirect_stdout(io.StringIO()) as out:
        print_rows(rows, empty="", kept=("sample", "metric_8"))
    assert out.getvalue().splitlines()[0].split() == ["sample", *(f"metric_{n}" for n in (0, 1, 2, 3, 4, 5, 8))]
    with redirect_stdout(io.StringIO()) as out:
        print_rows(rows, empty="")
    assert "metric_8" in out.getvalue()
    assert "--wide" not in out.getvalue()
    with redirect_stdout(io.StringIO()) as out:
        print_rows([], empty="nothing", kept=())
    assert out.getvalue() == "nothing\n"


def is_harmless(text: str) -> bool:
    text.encode("utf-8")  # a lone surrogate raises
    return not any(character in OBEYED and character not in KEPT for character in text)


@pytest.mark.parametrize("character", [c for c in OBEYED if c not in KEPT], ids=lambda c: f"U+{ord(c):04X}")
def test_every_character_that_a_terminal_obeys_is_made_visible(character: str) -> None:
    assert escape_controls(f"a{character}b") == rf"a\u{ord(character):04x}b"


def test_all_control_characters_are_among_them() -> None:
    unsafe = [
        character
        for character in map(chr, range(sys.maxunicode + 1))
        if unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp")
        or unicodedata.bidirectional(character) in TURNING
    ]
    assert "".join(character for character in unsafe if escape_controls(character) == character) == KEPT


def test_other_text_stays_as_it_is() -> None:
    text = "Zoë läuft 👩\u200d🚀, “sagt” هي [b]:dog: \\ in\ttwo\nlines"
    assert escape_controls(text) == text


def test_cells_and_names_of_columns_are_made_visible() -> None:
    for row in ({HOSTILE: 1}, {"text": HOSTILE}, {"json": {HOSTILE: 1}}, {"json": [HOSTILE]}):
        table = printed([row])
        assert r"\u001b]0;owned\u0007b\u009b2Jc\u202egnp.exe\u007f" in table
        assert is_harmless(table)


@pytest.mark.parametrize(
    "text", [":dog:", "[red]stop[/red]", "[link=https://x.org]x[/link]", "C:\\", "[/]", "a\\\\[b]"]
)
def test_a_cell_is_what_the_caption_says(text: str) -> None:
    assert printed([{"text": text}]).split("\n")[1].rstrip() == text


def test_messages_and_plain_texts_are_made_visible() -> None:
    with redirect_stdout(io.StringIO()) as out:
        console.print(HOSTILE)
        console.print(make_plain_text(HOSTILE))
    assert out.getvalue().splitlines() == [SHOWN, SHOWN]


@pytest.mark.parametrize("print_text", [console.print, print_sentence])
def test_a_text_is_one_line_without_markup_where_nobody_reads_at_a_terminal(print_text: Callable[..., None]) -> None:
    text = "[red]a caption[/red] of a :dog: [" + "that runs " * 20 + "]"
    with redirect_stdout(io.StringIO()) as out:
        print_text(text, style="bold")
    assert out.getvalue() == f"{text}\n"


def test_sentences_on_standard_error_are_made_visible() -> None:
    with redirect_stderr(io.StringIO()) as err:
        print_error(f"error: {HOSTILE}\udcff")
    assert err.getvalue() == rf"error: {SHOWN}\udcff" + "\n"


def test_lines_of_progress_are_made_visible() -> None:
    @dg.op
    def work(context: dg.OpExecutionContext) -> None:
        context.log.info(HOSTILE)

    @dg.job(logger_defs={"terminal": terminal_logger})
    def job() -> None:
        work()

    with redirect_stderr(io.StringIO()) as err:
        job.execute_in_process(run_config={"loggers": {"terminal": {"config": {}}}})
    assert SHOWN in "".join(err.getvalue().splitlines())
    assert is_harmless(err.getvalue())


def test_json_says_the_same_and_is_harmless() -> None:
    value = {HOSTILE: [HOSTILE, "Zoë\u2028", "\udcff"]}
    with redirect_stdout(io.StringIO()) as out:
        print_json(value)
    assert json.loads(out.getvalue()) == value
    assert is_harmless(out.getvalue())
    assert "Zoë" in out.getvalue()


def test_version() -> None:
    done = run_command("--version")
    assert (done.returncode, done.stdout) == (0, f"reelsieve {version('reelsieve')}\n")


def give_back_a_lost_connection(pooled: Engine, engine: Engine) -> None:
    """Lose a connection of the pool, as when the server is killed, and give it back."""
    lost = pooled.raw_connection()
    cursor = lost.cursor()
    cursor.execute("SELECT pg_backend_pid()")
    with engine.connect() as connection:
        connection.execute(sa.text("SELECT pg_terminate_backend(:pid, 10000)"), {"pid": cursor.fetchone()[0]})
    lost.close()


def test_a_lost_connection_leaves_no_traceback_beside_the_sentence(
    database: URL, engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    pooled = sa.create_engine(format_psycopg2_url(database), pool_size=1)
    logger, filters = logging.getLogger("sqlalchemy.pool"), [*logging.getLogger().filters]
    level = logger.level
    try:
        logger.setLevel(logging.NOTSET)  # a command may have run in this process
        give_back_a_lost_connection(pooled, engine)
        assert "Traceback" in caplog.text, "SQLAlchemy says so by itself"
        caplog.clear()
        hide_connection_attempts()
        give_back_a_lost_connection(pooled, engine)
        assert caplog.text == ""
    finally:
        pooled.dispose()
        logger.setLevel(level)
        logging.getLogger().filters[:] = filters
