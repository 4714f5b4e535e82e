"""Settings by environment variables: a name that nothing reads, or a value that cannot be used, ends every command."""

from __future__ import annotations

import re
from collections.abc import Generator
from pathlib import Path

import pytest

from orchestration.settings import known_variables, settings
from tests.command_line import run_command
from tests.orchestration.conftest import forget_installation

PROJECT = Path(__file__).resolve().parents[2]
SECRET = "b5f1-secret"


@pytest.fixture(autouse=True)
def _fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[None, None, None]:
    monkeypatch.setenv("REELSIEVE_HOME", str(tmp_path / "home"))
    forget_installation()
    yield
    forget_installation()


@pytest.mark.parametrize("command", ["doctor", "status", "init ."])
@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("REELSIEVE_HOEM", ", did you mean REELSIEVE_HOME?"),
        ("REELSIEVE_VCS_LTC", ", did you mean REELSIEVE_VCS_LCT?"),
        ("REELSIEVE_MEDIA_ROOT", ", did you mean REELSIEVE_MEDIA_ROOTS?"),
        ("REELSIEVE_GOOD_RATING", ", did you mean REELSIEVE_GOOD_RATINGS?"),
        ("REELSIEVE_CURATION_DB_URL", ", did you mean CURATION_DB_URL?"),
        ("REELSEIVE_FRAMES_CAP", ", did you mean REELSIEVE_FRAMES_CAP?"),
        ("reelsieve_frame_cap", ", did you mean REELSIEVE_FRAMES_CAP?"),
        ("REELSIEVE_XYZZYX", ": unset it, or correct its name"),
    ],
)
def test_a_misspelt_variable_is_refused(
    command: str, name: str, hint: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    done = run_command(*command.split(), **{name: SECRET})
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"error: environment variable {name} is not read by anything{hint}\n"


def test_every_misspelt_variable_is_named() -> None:
    done = run_command("doctor", REELSIEVE_HOEM="x", REELSIEVE_RAY_CPU="x")
    assert "REELSIEVE_HOEM" in done.stderr
    assert "REELSIEVE_RAY_CPU " in done.stderr


@pytest.mark.parametrize(
    "name",
    [
        *("REELSIEVE_TEST_DATA", "REELSIEVE_REQUIRE_ALL", "REELSIEVE_DAGSTER_URL", "REELSIEVE_DAGSTER_DIR"),
        *("REELSIEVE_DEVICE", "REELSIEVE_MEDIA_CACHE", "reelsieve_vcs_lct", "REELSIEVE_OUR_KEY", "REELIGHT_VCS"),
    ],
)
def test_what_something_reads_is_no_mistake(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REELSIEVE_QEVA_TEXT_KEY_VARIABLE", "REELSIEVE_OUR_KEY")
    monkeypatch.setenv(name, "1")
    assert settings().home_folder.name == "home"


def test_every_variable_of_the_documentation_is_read() -> None:
    pages = [PROJECT / "README.md", PROJECT / "CONTRIBUTING.md", *(PROJECT / "docs").rglob("*.md")]
    named = {name for page in pages for name in re.findall(r"\bREELSIEVE_[A-Z0-9_]*[A-Z0-9]\b(?!_)", page.read_text())}
    assert "REELSIEVE_HOME" in named
    # A family of variables is described by its first words.
    known = known_variables(settings())
    assert {name for name in named if not any(each.startswith(name) for each in known)} == set()


@pytest.mark.parametrize("value", ["abc", f'{{"{SECRET}'])
def test_a_value_that_is_no_json_is_one_sentence(value: str) -> None:
    done = run_command("doctor", REELSIEVE_CHAT_PRICES=value)
    assert (done.returncode, done.stderr) == (
        1,
        "error: environment variable REELSIEVE_CHAT_PRICES is not usable: it is no JSON\n",
    )


@pytest.mark.parametrize("n", ["0", "1", "2"])
def test_too_few_questions_for_a_value_of_qeva_are_refused(n: str) -> None:
    done = run_command("doctor", REELSIEVE_QEVA_QUESTIONS=n)
    assert (done.returncode, done.stderr) == (
        1,
        f"error: environment variable REELSIEVE_QEVA_QUESTIONS is not usable: {n} can never give a value, which takes "
        "3 kept questions: set 3 or more\n",
    )


def test_a_remedy_keeps_the_letters_of_its_variable() -> None:
    done = run_command("doctor", REELSIEVE_QEVA_MATCHER="judge")
    assert "set REELSIEVE_QEVA_TEXT_MODEL too" in done.stderr
