"""Settings of the environment and of a file: a name that nothing reads, or an unusable value, ends every command."""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import constants

from assets.models.profiles import PROFILES
from assets.settings import apply_settings_file
from orchestration.settings import get_settings, list_known_variables
from orchestration.settings.groups import list_setting_fields
from tests.command_line import run_command
from tests.orchestration.conftest import forget_installation

PROJECT = Path(__file__).resolve().parents[2]
SECRET = "b5f1-secret"


@pytest.fixture(autouse=True)
def _fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[None, None, None]:
    monkeypatch.setenv("REELSIEVE_HOME", str(tmp_path / "home"))
    forget_installation()
    yield
    apply_settings_file({})
    forget_installation()


@pytest.mark.parametrize("command", ["doctor", "dataset list", "init ."])
@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("REELSIEVE_HOEM", ": did you mean REELSIEVE_HOME?"),
        ("REELSIEVE_VCS_LTC", ": did you mean REELSIEVE_VCS_LCT?"),
        ("REELSIEVE_MEDIA_ROOT", ": did you mean REELSIEVE_MEDIA_ROOTS?"),
        ("REELSIEVE_GOOD_RATING", ": did you mean REELSIEVE_GOOD_RATINGS?"),
        ("REELSIEVE_CURATION_DB_URL", ": did you mean CURATION_DB_URL?"),
        ("REELSEIVE_FRAMES_CAP", ": did you mean REELSIEVE_FRAMES_CAP?"),
        ("reelsieve_frame_cap", ": did you mean REELSIEVE_FRAMES_CAP?"),
        ("REELSIEVE_XYZZYX", ": unset it, or correct its name"),
    ],
)
def test_a_misspelt_variable_is_refused(
    command: str, name: str, hint: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    done = run_command(*command.split(), **{name: SECRET})
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"error: environment variable {name} is not a setting{hint}\n"


def test_every_misspelt_variable_is_named() -> None:
    done = run_command("doctor", REELSIEVE_HOEM="x", REELSIEVE_RAY_CPU="x")
    assert "REELSIEVE_HOEM" in done.stderr
    assert "REELSIEVE_RAY_CPU " in done.stderr


@pytest.mark.parametrize(
    "name",
    [
        *("REELSIEVE_TEST_DATA", "REELSIEVE_REQUIRE_ALL", "REELSIEVE_DAGSTER_DIR"),
        *("REELSIEVE_DEVICE", "REELSIEVE_MEDIA_CACHE", "reelsieve_vcs_lct", "REELSIEVE_OUR_KEY", "REELIGHT_VCS"),
    ],
)
def test_what_something_reads_is_no_mistake(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REELSIEVE_QEVA_TEXT_KEY_VARIABLE", "REELSIEVE_OUR_KEY")
    monkeypatch.setenv(name, "1")
    assert get_settings().home_folder.name == "home"


def test_every_variable_of_the_documentation_is_read() -> None:
    pages = [PROJECT / "README.md", PROJECT / "CONTRIBUTING.md", *(PROJECT / "docs").rglob("*.md")]
    named = {name for page in pages for name in re.findall(r"\bREELSIEVE_[A-Z0-9_]*[A-Z0-9]\b(?!_)", page.read_text())}
    assert "REELSIEVE_HOME" in named
    # A family of variables is described by its first words.
    known = list_known_variables(get_settings())
    assert {name for name in named if not any(each.startswith(name) for each in known)} == set()


@pytest.mark.parametrize("value", ["abc", f'{{"{SECRET}'])
def test_a_value_that_is_no_json_is_one_sentence(value: str) -> None:
    done = run_command("doctor", REELSIEVE_CHAT_PRICES=value)
    assert (done.returncode, done.stderr) == (
        1,
        "error: environment variable REELSIEVE_CHAT_PRICES is not usable: it is not valid JSON; give prices per "
        'million input and output tokens, by model, as JSON: {"model": [2.5, 10]}\n',
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


# The settings file.


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project folder, in which the test stands."""
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def write_trusted(folder: Path, text: str) -> None:
    """Write the settings file of a folder, and let it count whatever it sets."""
    (folder / "reelsieve.toml").write_text(text)
    done = run_command("config", "trust", str(folder / "reelsieve.toml"))
    assert done.returncode == 0, done.stderr


def in_force() -> dict[str, tuple[Any, str]]:
    """Value and origin of every setting, as `reelsieve config` has them."""
    done = run_command("config", "--json")
    assert done.returncode == 0, done.stderr
    return {row["setting"]: (row["value"], row["from"]) for row in json.loads(done.stdout)}


FULL = """
frames_cap = 64
vcs_short_text = true
text_encoder = "somebody/encoder"
media_cache = "copies"
[media_roots]
clips = "/mnt/clips"
[chat_prices]
model = [2.5, 10]
[profile.gpu]
frames_cap = 32
image_text_precision = "bf16"
"""


def test_a_file_behind_the_environment(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_trusted(project, "\ufeff" + FULL)  # as editors of Windows begin a file
    monkeypatch.setenv("REELSIEVE_TEXT_ENCODER", "mine")
    (project / "deeper").mkdir()
    monkeypatch.chdir(project / "deeper")
    found = in_force()
    assert found["frames_cap"] == (64, "reelsieve.toml: frames_cap")
    assert found["vcs_short_text"] == (True, "reelsieve.toml: vcs_short_text")
    assert found["text_encoder"] == ("mine", "environment")
    assert found["media_cache"] == (str(project / "copies"), "reelsieve.toml: media_cache")
    assert found["media_roots"][0] == {"clips": "/mnt/clips"}
    assert found["chat_prices"][0] == {"model": [2.5, 10.0]}
    assert found["image_text_precision"] == ("fp32", "default")


def test_a_profile_comes_before_the_others(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_trusted(project, FULL)
    monkeypatch.setenv("REELSIEVE_PROFILE", "gpu")
    found = in_force()
    assert found["frames_cap"] == (32, "reelsieve.toml: [profile.gpu] frames_cap")
    assert found["image_text_precision"][0] == "bf16"
    assert found["vcs_short_text"][0] is True


def test_a_profile_of_reelsieve_names_all_models_and_a_file_changes_single_values(project: Path) -> None:
    text = 'text_encoder_url = "vllm"\nframes_cap = 64\n[profile.gpu]\nimage_text_precision = "fp16"'
    write_trusted(project, text)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("REELSIEVE_PROFILE", "gpu")
        patched.setenv("REELSIEVE_ECS_VERIFIER", "mine")
        found = in_force()
    assert found["text_encoder"][0].startswith("Qwen/Qwen3-Embedding-0.6B@")
    assert found["text_encoder"][1] == "profile gpu: text_encoder"
    # The address of another model does not reach this one, and what no profile names is the file's.
    assert (found["text_encoder_url"][0], found["frames_cap"][0]) == ("", 64)
    assert found["image_text_precision"] == ("fp16", "reelsieve.toml: [profile.gpu] image_text_precision")
    assert found["ecs_verifier"] == ("mine", "environment")


@pytest.mark.parametrize("profile", PROFILES)
def test_a_profile_lists_the_files_of_its_models(
    project: Path, tmp_path: Path, profile: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    done = run_command("doctor", "--models", "--json", REELSIEVE_PROFILE=profile)
    found = json.loads(done.stdout)
    rows = {row["setting"]: row for row in found["models"]}
    assert found["profile"] == profile
    assert set(rows) >= {model.setting for model in PROFILES[profile].models}
    for model in PROFILES[profile].models:
        row = rows[model.setting]
        assert (row["model"], row["licence"], row["gb_in_all"]) == (model.name, model.licence, model.size_gb)
        assert (row["state"] == "missing") == bool(row["missing"]) == bool(row["remedy"])
    assert done.returncode == any(row["missing"] for row in rows.values()) == (profile != "laptop")
    if profile == "laptop":
        # What a profile says of the models that are installed is their real size.
        assert {row["gb"] == pytest.approx(row["gb_in_all"], rel=0.15) for row in rows.values()} == {True}
    forget_installation()
    wide = run_command("doctor", "--models", REELSIEVE_PROFILE=profile, COLUMNS="100").stdout
    assert all(len(line) <= 100 for line in wide.splitlines()[: len(rows) + 2])


def test_a_file_that_changed_is_read_anew(project: Path) -> None:
    (project / "reelsieve.toml").write_text("frames_cap = 64")
    assert in_force()["frames_cap"][0] == 64
    forget_installation()
    (project / "reelsieve.toml").write_text("frames_every = 5")
    assert (in_force()["frames_cap"], in_force()["frames_every"][0]) == ((128, "default"), 5)


def test_what_a_command_starts_has_the_settings_of_the_file(project: Path) -> None:
    (project / "reelsieve.toml").write_text("frames_cap = 64")
    get_settings()
    program = "from orchestration.settings import get_settings; print(get_settings().frames_cap)"
    where = {**os.environ, "PYTHONPATH": str(PROJECT)}
    done = subprocess.run([sys.executable, "-c", program], cwd="/", env=where, capture_output=True, text=True)
    assert done.stdout == "64\n", done.stderr


def test_a_file_of_the_home_counts_where_no_folder_has_one(project: Path, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "reelsieve.toml").write_text("frames_cap = 64")
    assert in_force()["frames_cap"] == (64, "reelsieve.toml: frames_cap")
    (project / "reelsieve.toml").write_text("frames_cap = 32")
    forget_installation()
    done = run_command("config")
    both = f"{project / 'reelsieve.toml'} and in {tmp_path / 'home' / 'reelsieve.toml'}"
    assert done.stderr == f"error: settings are in {both}: keep one of the two files\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a file of another user")
def test_the_file_of_another_user_above_the_folder_is_not_read(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = project / "reelsieve.toml"
    path.write_text("frames_cap = 64")
    os.chown(path, 12345, -1)
    (project / "deeper").mkdir()
    monkeypatch.chdir(project / "deeper")
    assert in_force()["frames_cap"] == (128, "default")


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("frame_cap = 1", "frame_cap is not a setting, did you mean 'frames_cap'?"),
        ("xyzzyx = 1", "xyzzyx is not a setting"),
        ("frames_cap = 0", "frames_cap is not usable: input should be greater than or equal to 1"),
        (
            "[profile.gpu]\nframes_cap = 'x'\n[profile.b]\nfram_cap = 1",
            "[profile.b] fram_cap is not a setting, did you mean",
        ),
        ("failure_url = 'http://x/b5f1-secret'", "failure_url is a secret: set the variable REELSIEVE_FAILURE_URL"),
        ("curation_db_url = 'postgresql://a:b5f1-secret@h/d'", "curation_db_url contains a password: set PGPASSWORD"),
        ("curation_db_url = 'postgresql://h/d?password=b5f1-secret'", "curation_db_url contains a password"),
        ("curation_db_url = 'postgresql://h/d?%70assword=b5f1-secret'", "curation_db_url contains a password"),
        ("curation_db_url = 'postgresql://h/d?sslpassword=b5f1-secret'", "curation_db_url contains a password"),
        ("curation_db_url = 'b5f1-secret'", "curation_db_url: CURATION_DB_URL is not a URL"),
        ('text_encoder = "a\\u0000b"', "text_encoder contains a NUL character: remove it"),
        ("frames_cap = 1\n\0", "is not valid TOML: Invalid statement (at line 2, column 1)"),
        ('"a\\u0000\\nb" = 1', "'a\\x00\\nb' is not a setting"),
        (f"frames_cap = 1\nmedia_roots = {'[' * 3000}{']' * 3000}", "line 2 is nested too deep: shorten it"),
        (f"media_roots.{'.'.join('a' * 3000)} = 1", "line 1 is nested too deep: shorten it"),
        (f"media_roots = {'[' * 300}{']' * 300}", "media_roots is nested too deep: shorten it"),
        (f"\n\nframes_cap = {'9' * 5000}", "line 3 has too many digits: shorten it"),
        (f"frames_cap = [\n1,\n{'9' * 5000}\n]", "line 3 has too many digits: shorten it"),
        (f"frames_cap = 0x{'f' * 5000}", "frames_cap has too many digits: shorten it"),
        (f"{'a' * 1_000_000} = 1", "is longer than 64 KiB, which no settings file is: shorten it"),
        (f"{'a' * 60_000} = 1", f": {'a' * 60}.. is not a setting"),
        (f"{'a.' * 30_000}b = 1", "is n"),
        ("media_roots = {clips = 'mnt'}", "media_roots is not usable: the place of clips is neither an absolute path"),
        ("good_ratings = 'b5f1-secret'", "good_ratings is not usable: it is not valid JSON; give least mean rating"),
        ("profile = 'gpu'", "write profiles as tables, such as [profile.gpu]"),
        ("frames_cap = ", "is not valid TOML"),
        ("\udcff", "is not valid TOML"),
    ],
)
def test_a_mistake_in_the_file_is_one_sentence(project: Path, text: str, wrong: str) -> None:
    path = project / "reelsieve.toml"
    path.write_bytes(text.encode(errors="surrogateescape"))
    run_command("config", "trust", str(path))  # a broken file is refused
    done = run_command("dataset", "list")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"error: {path}")
    assert wrong in done.stderr
    assert done.stderr.count("\n") == 1
    assert SECRET not in done.stderr


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("[profile.mine]", "is big: name one of laptop, gpu, paper, mine, or write [profile.big] into /"),
        (
            None,
            "error: REELSIEVE_PROFILE is big: name one of laptop, gpu, paper, or write [profile.big] into reelsieve.t",
        ),
    ],
)
def test_a_profile_that_does_not_exist(project: Path, text: str | None, wrong: str) -> None:
    if text is not None:
        (project / "reelsieve.toml").write_text(text)
    done = run_command("dataset", "list", REELSIEVE_PROFILE="big")
    assert done.returncode == 1
    assert wrong in done.stderr


def test_the_file_that_init_writes_holds_every_setting_with_its_default(project: Path) -> None:
    before = in_force()
    assert run_command("config", "init").returncode == 0
    path = project / "reelsieve.toml"
    again = run_command("config", "init")
    assert again.stderr == f"error: {path} exists already: write into it, or remove it first\n"
    lines = re.findall(r"^# (\w+) = *(.*)$", path.read_text(), flags=re.MULTILINE)
    assert {name for name, _ in lines} | {"profile", "failure_url"} == set(list_setting_fields())
    # What has no default is left out, and so is the precision in the example of a profile.
    given = [f"{name} = {value}" for name, value in dict(reversed(lines)).items() if value]
    write_trusted(project, "\n".join(given))
    forget_installation()
    found = in_force()
    assert {name: value for name, (value, _) in found.items()} == {name: value for name, (value, _) in before.items()}
    assert sum(place.startswith("reelsieve.toml") for _, place in found.values()) == len(given) > 50


def test_a_secret_is_shown_by_its_name_only(project: Path) -> None:
    done = run_command(
        "config", CURATION_DB_URL=f"postgresql://a:{SECRET}@h/d", REELSIEVE_FAILURE_URL=f"http://{SECRET}"
    )
    assert "curation_db_url" in done.stdout
    assert "failure_url" in done.stdout
    assert SECRET not in done.stdout


def test_the_page_of_all_settings_is_up_to_date() -> None:
    made = runpy.run_path(str(PROJECT / "docs" / "settings.py"))
    assert made["PAGE"].read_text(encoding="utf-8") == made["page"](), "make it anew: .venv/bin/python docs/settings.py"
    assert made["MODELS"].read_text(encoding="utf-8") == made["models_page"](), "make it anew, likewise"


def test_figures_of_agreement_are_those_of_the_papers_page() -> None:
    row = next(
        line for line in (PROJECT / "docs" / "papers.md").read_text().splitlines() if "VCS_short, lct 1 |" in line
    )
    ours, published = re.findall(r"(\S+ \(.*?\)) \*(.*?)\*", row)[::2], re.findall(r"\*(.*?)\*", row)[::2]
    assert all(figure in PROFILES["laptop"].agreement for figure, _ in ours)
    assert all(figure in PROFILES["paper"].agreement for figure in published)
