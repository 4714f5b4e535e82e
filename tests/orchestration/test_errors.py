"""Whose mistake an error is, what is said of it, and what a fault of the program leaves behind."""

from __future__ import annotations

import errno
import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import psycopg
import psycopg2
import pytest
import sqlalchemy as sa

from assets.datasets.lookup import UnknownDataset
from db.server.user_errors import explain_user_error
from metrics_core.models.errors import PackageMissing
from orchestration.cli.errors import FAULT, MISTAKE, USAGE, report_error
from orchestration.cli.refusals import UsageError
from orchestration.settings import get_settings

# Far beyond what any of these takes: an endless walk must fail, not hang.
ENDLESS_S = 60
Raise = Callable[[], None]


@pytest.fixture(autouse=True)
def ends() -> Iterator[None]:
    """Stop a test whose code under test does not come to an end."""

    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise AssertionError("it does not end")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(ENDLESS_S)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty home folder, and a temporary folder beside it."""
    monkeypatch.setenv("REELSIEVE_HOME", str(tmp_path / "home"))
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    get_settings.cache_clear()
    yield tmp_path / "home"
    get_settings.cache_clear()


def raised(by: Raise) -> BaseException:
    """The error as a handler gets it, with cause, context and traceback."""
    with pytest.raises(Exception) as caught:  # noqa: PT011  (whichever it is)
        by()
    return caught.value


def unknown_dataset() -> None:
    raise UnknownDataset("there is no dataset 'd'")


def went_away() -> None:
    raise psycopg.OperationalError("the connection is closed")


def fault() -> None:
    raise KeyError("frames")


def while_handling(first: Raise, then: Raise) -> Raise:
    def both() -> None:
        try:
            first()
        except Exception:
            then()

    return both


def caused_by(first: Raise) -> Raise:
    def both() -> None:
        try:
            first()
        except Exception as error:
            raise RuntimeError("the run failed") from error

    return both


def hiding(first: Raise) -> Raise:
    def both() -> None:
        try:
            first()
        except Exception:
            raise KeyError("frames") from None

    return both


def test_a_circle_of_causes_and_contexts_ends() -> None:
    wrapper, inner = RuntimeError("of the run"), ValueError("of the asset")
    wrapper.__cause__, inner.__context__ = inner, wrapper
    assert explain_user_error(wrapper) is None
    assert explain_user_error(inner) is None
    inner.__cause__ = wrapper
    assert explain_user_error(wrapper) is None


@pytest.mark.parametrize(
    "by", [fault, while_handling(unknown_dataset, fault), hiding(went_away), hiding(unknown_dataset)]
)
def test_a_fault_is_not_explained_by_what_was_handled_when_it_came_up(by: Raise) -> None:
    assert explain_user_error(raised(by)) is None


def test_a_mistake_is_told_also_where_it_is_the_cause_of_something_else() -> None:
    assert explain_user_error(raised(caused_by(unknown_dataset))) == "there is no dataset 'd'"
    assert explain_user_error(raised(while_handling(fault, unknown_dataset))) == "there is no dataset 'd'"


def test_a_database_that_goes_away_explains_what_fails_while_cleaning_up() -> None:
    sentence = explain_user_error(raised(while_handling(went_away, fault)))
    assert sentence is not None
    assert "the connection to the database was lost" in sentence


DIED = psycopg2.DatabaseError("error with status PGRES_TUPLES_OK and no message from the libpq")


@pytest.mark.parametrize(
    "error",
    [
        DIED,
        sa.exc.DatabaseError("SELECT 1", None, DIED),
        sa.exc.ProgrammingError("SELECT 1", None, psycopg.Error("gone"), connection_invalidated=True),
        psycopg2.InterfaceError("connection already closed"),
        psycopg.InterfaceError("the connection is closed"),
        sa.exc.InterfaceError("SELECT 1", None, psycopg.InterfaceError("the connection is closed")),
    ],
)
def test_every_driver_loses_its_server_in_one_sentence(error: Exception) -> None:
    assert str(explain_user_error(error)).startswith("the connection to the database was lost: run the same command")


def test_only_a_package_that_we_name_is_missing_by_the_users_choice() -> None:
    assert explain_user_error(ImportError("cannot import name 'frames' from 'assets'")) is None
    assert explain_user_error(ModuleNotFoundError("No module named 'torch'", name="torch")) is None
    assert explain_user_error(PackageMissing("install wtpsplit")) == "install wtpsplit"


def test_a_file_that_the_machine_refuses_is_named() -> None:
    full = OSError(errno.ENOSPC, "No space left on device", "/data/out.parquet")
    assert explain_user_error(full) == (
        "/data/out.parquet: No space left on device; fix that and run the same command again"
    )
    assert explain_user_error(FileNotFoundError(errno.ENOENT, "No such file or directory", "a.sql")) is None


PANIC = 'PANIC:  could not write to file "pg_wal/xlogtemp.31": No space left on device\nserver closed the connection'


@pytest.mark.parametrize(
    "error",
    [
        psycopg.OperationalError(PANIC),
        psycopg2.OperationalError(PANIC),
        sa.exc.OperationalError("INSERT", {}, psycopg.OperationalError(PANIC)),
        psycopg.errors.DiskFull('could not extend file "base/5/1": No space left on device'),
        psycopg.errors.DiskFull('Datei "base/5/1" konnte nicht erweitert werden'),
    ],
)
def test_a_full_disk_is_no_database_that_went_away(error: Exception) -> None:
    sentence = explain_user_error(error)
    assert sentence is not None
    assert sentence.startswith("the disk of the database is full (")
    assert "\n" not in sentence


@pytest.mark.parametrize(("error", "code"), [(UsageError("say which"), USAGE), (UnknownDataset("none"), MISTAKE)])
def test_exit_codes_tell_usage_from_other_mistakes(home: Path, error: Exception, code: int) -> None:
    assert report_error(error).exit_code == code
    assert not home.exists()


def test_a_fault_leaves_its_traceback_in_the_home_folder(home: Path) -> None:
    verdict = report_error(raised(caused_by(fault)))
    assert verdict.exit_code == FAULT
    (log,) = (home / "logs").iterdir()
    assert str(log) in verdict.sentence
    assert "\n" not in verdict.sentence
    assert "RuntimeError: the run failed" in verdict.sentence
    text = log.read_text()
    assert "KeyError: 'frames'" in text
    assert "direct cause" in text
    assert log.stat().st_mode & 0o077 == 0


def test_the_newest_logs_of_faults_stay(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestration.cli.fault_log.MOST_LOGS", 3)
    kept: list[Path] = []
    for number in range(5):
        assert report_error(KeyError(str(number))).exit_code == FAULT
        (new,) = set((home / "logs").iterdir()) - set(kept)
        os.utime(new, ns=(number, number))
        kept.append(new)
    assert set((home / "logs").iterdir()) == set(kept[2:])


def test_a_home_that_takes_no_log_sends_it_to_the_temporary_folder(home: Path) -> None:
    home.mkdir()
    (home / "logs").write_text("no folder")
    sentence = report_error(raised(fault)).sentence
    (log,) = Path(tempfile.gettempdir()).iterdir()
    assert str(log) in sentence
    assert str(home / "logs") in sentence
    assert "KeyError" in log.read_text()


def test_where_nothing_can_be_written_the_traceback_is_said(home: Path) -> None:
    home.mkdir()
    (home / "logs").write_text("no folder")
    Path(tempfile.gettempdir()).rmdir()
    Path(tempfile.gettempdir()).write_text("no folder either")
    sentence = report_error(raised(fault)).sentence
    assert "Traceback (most recent call last)" in sentence
    assert sentence.endswith("KeyError: 'frames'\n")


@pytest.mark.parametrize(
    ("url", "secrets"),
    [
        ("postgresql://ann:s%40cr%2Ft@db/curation", ["s%40cr%2Ft", "s@cr/t"]),
        ("postgresql://db/curation?user=ann&password=hunter%202", ["hunter%202", "hunter 2"]),
        ("postgresql://ann@db/curation?sslpassword=hunter2", ["hunter2"]),
        ("postgresql://ann:p@ss@db:not-a-port/curation", ["p@ss"]),
    ],
)
def test_no_password_reaches_a_message_or_a_log(
    home: Path, monkeypatch: pytest.MonkeyPatch, url: str, secrets: list[str]
) -> None:
    monkeypatch.setenv("CURATION_DB_URL", url)
    for text in [url, *secrets, f"fe_sendauth with password='{secrets[-1]}'"]:
        verdict = report_error(RuntimeError(text))
        for secret in secrets:
            assert secret not in verdict.sentence
            assert all(secret not in log.read_text() for log in (home / "logs").iterdir())
        assert all(secret not in report_error(UnknownDataset(text)).sentence for secret in secrets)


def test_a_password_that_only_the_error_knows_is_hidden_too(home: Path) -> None:
    verdict = report_error(RuntimeError("no connection to postgresql+psycopg2://ann:hunter2@db/dagster"))
    assert "postgresql+psycopg2://ann:***@db/dagster" in verdict.sentence
    assert "hunter2" not in next((home / "logs").iterdir()).read_text()
