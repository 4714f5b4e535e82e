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

from assets.home.settings import apply_settings_file
from assets.models.profiles import PROFILES
from metrics_core.child_processes import STARTED_IN
from orchestration.settings import get_settings, list_known_variables
from orchestration.settings.groups import list_setting_fields
from tests.command_line import run_command
from tests.orchestration.conftest import forget_installation

PROJECT = Path(__file__).resolve().parents[2]
SECRET = "b5f1-secret"


@pytest.fixture(autouse=True)
def _fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[None, None, None]:
    monkeypatch.setenv("REELSIEVE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
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
        ("REELSIEVE_QEVA_VIDEO", ": did you mean REELSIEVE_QEVA_VIDEO_MODEL?"),
        ("REELSIEVE_QEVA_VIDEO_KEY", ": did you mean REELSIEVE_QEVA_VIDEO_KEY_VARIABLE?"),
        ("REELSIEVE_TEXT_ENCODER_MODEL", ": did you mean REELSIEVE_TEXT_ENCODER?"),
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
@pytest.mark.parametrize(
    ("variable", "remedy"),
    [
        ("GOOD_RATINGS", 'lowest mean rating of a good sample by aspect, as JSON: {"consistency": 4}'),
        ("JUDGE_PRICE", "price per million input and output tokens, as JSON: [2.5, 10]; one role is enough"),
    ],
)
def test_a_value_that_is_no_json_is_one_sentence(variable: str, remedy: str, value: str) -> None:
    done = run_command("doctor", **{f"REELSIEVE_{variable}": value})
    assert (done.returncode, done.stderr) == (
        1,
        f"error: environment variable REELSIEVE_{variable} is not usable: it is not valid JSON; give {remedy}\n",
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
def own(tmp_path: Path) -> Path:
    """The place of the account's own settings file."""
    folder = tmp_path / "config" / "reelsieve"
    folder.mkdir(parents=True)
    return folder / "reelsieve.toml"


def in_force() -> dict[str, tuple[Any, str]]:
    """Value and origin of every setting, as `reelsieve config` has them."""
    done = run_command("config", "--json")
    assert done.returncode == 0, done.stderr
    return {row["setting"]: (row["value"], row["from"]) for row in json.loads(done.stdout)}


FULL = """
frames_cap = 64
vcs_short_text = true
models.text_encoder.model = "somebody/encoder"
media_cache = "copies"
[media_roots]
clips = "/mnt/clips"
[models.judge]
model = "tiny"
url = "ollama"
price = [2.5, 10]
[profile.gpu]
frames_cap = 32
[profile.gpu.models.image_text_encoder]
precision = "bf16"
"""


def test_a_file_behind_the_environment(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own.write_text("\ufeff" + FULL)  # as editors of Windows begin a file
    monkeypatch.setenv("REELSIEVE_TEXT_ENCODER", "mine")
    monkeypatch.setenv("REELSIEVE_JUDGE_URL", "vllm")
    found = in_force()
    assert found["frames_cap"] == (64, "reelsieve.toml: frames_cap")
    assert found["vcs_short_text"] == (True, "reelsieve.toml: vcs_short_text")
    assert found["models.text_encoder.model"] == ("mine", "environment")
    assert found["media_cache"] == (str(own.parent / "copies"), "reelsieve.toml: media_cache")
    assert found["media_roots"][0] == {"clips": "/mnt/clips"}
    assert found["models.judge.price"] == ([2.5, 10.0], "reelsieve.toml: models.judge.price")
    assert found["models.judge.url"] == ("vllm", "environment")
    assert found["models.judge.key_variable"] == ("", "default")
    assert found["models.image_text_encoder.precision"] == ("fp32", "default")


def test_a_profile_comes_before_the_others(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own.write_text(FULL)
    monkeypatch.setenv("REELSIEVE_PROFILE", "gpu")
    found = in_force()
    assert found["frames_cap"] == (32, "reelsieve.toml: [profile.gpu] frames_cap")
    assert found["models.image_text_encoder.precision"][0] == "bf16"
    assert found["vcs_short_text"][0] is True


def test_a_profile_of_reelsieve_names_all_models_and_a_file_changes_single_values(own: Path) -> None:
    text = (
        'models.text_encoder.url = "vllm"\nframes_cap = 64\n[profile.gpu.models]\nimage_text_encoder.precision = "fp16"'
    )
    own.write_text(text)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("REELSIEVE_PROFILE", "gpu")
        patched.setenv("REELSIEVE_ECS_VERIFIER", "mine")
        found = in_force()
    assert found["models.text_encoder.model"][0].startswith("Qwen/Qwen3-Embedding-0.6B@")
    assert found["models.text_encoder.model"][1] == "profile gpu: models.text_encoder.model"
    # The address of another model does not reach this one, and what no profile names is the file's.
    assert (found["models.text_encoder.url"][0], found["frames_cap"][0]) == ("", 64)
    place = "reelsieve.toml: [profile.gpu] models.image_text_encoder.precision"
    assert found["models.image_text_encoder.precision"] == ("fp16", place)
    assert found["models.ecs_verifier.model"] == ("mine", "environment")


@pytest.mark.parametrize("profile", PROFILES)
def test_a_profile_lists_the_files_of_its_models(tmp_path: Path, profile: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    done = run_command("doctor", "--models", "--json", REELSIEVE_PROFILE=profile)
    found = json.loads(done.stdout)
    rows = {row["setting"].removeprefix("models."): row for row in found["models"]}
    assert found["profile"] == profile
    assert set(rows) >= set(PROFILES[profile].models)
    for role, model in PROFILES[profile].models.items():
        row = rows[role]
        assert (row["model"], row["licence"], row["gb_in_all"]) == (model.name, model.licence, model.size_gb)
        assert (row["state"] == "missing") == bool(row["missing"]) == bool(row["remedy"])
    assert done.returncode == any(row["missing"] for row in rows.values()) == (profile != "laptop")
    if profile == "laptop":
        # What a profile says of the models that are installed is their real size.
        assert {row["gb"] == pytest.approx(row["gb_in_all"], rel=0.15) for row in rows.values()} == {True}
    forget_installation()
    wide = run_command("doctor", "--models", REELSIEVE_PROFILE=profile, COLUMNS="100").stdout
    assert all(len(line) <= 100 for line in wide.splitlines()[: len(rows) + 2])


def test_a_file_that_changed_is_read_anew(own: Path) -> None:
    own.write_text("frames_cap = 64")
    assert in_force()["frames_cap"][0] == 64
    forget_installation()
    own.write_text("frames_every = 5")
    assert (in_force()["frames_cap"], in_force()["frames_every"][0]) == ((128, "default"), 5)


def test_what_a_command_starts_has_the_settings_of_the_file(own: Path) -> None:
    own.write_text("frames_cap = 64")
    get_settings()
    program = "from orchestration.settings import get_settings; print(get_settings().frames_cap)"
    where = {**os.environ, "PYTHONPATH": str(PROJECT)}
    done = subprocess.run([sys.executable, "-c", program], cwd="/", env=where, capture_output=True, text=True)
    assert done.stdout == "64\n", done.stderr


def test_no_file_counts_that_only_lies_somewhere(own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in (tmp_path, tmp_path / "project", tmp_path / "home"):
        folder.mkdir(exist_ok=True)
        (folder / "reelsieve.toml").write_text("] what a stranger wrote")
    monkeypatch.chdir(tmp_path / "project")
    assert {origin for _, origin in in_force().values()} == {"environment", "default"}
    assert in_force()["home"][1] == "environment"
    assert "file: none; reelsieve config init writes one\n" in run_command("config").stdout


@pytest.mark.parametrize("is_option", [False, True])
def test_a_named_file_replaces_the_accounts_own(own: Path, tmp_path: Path, is_option: bool) -> None:
    own.write_text("frames_cap = 64\nframes_every = 5")
    named = tmp_path / "named.toml"
    named.write_text('frames_cap = 32\nmedia_cache = "copies"')
    arguments = (["--config", str(named)], {"COLUMNS": "80"}) if is_option else ([], {"REELSIEVE_CONFIG": str(named)})
    done = run_command(*arguments[0], "config", "--json", **arguments[1])
    found = {row["setting"]: (row["value"], row["from"]) for row in json.loads(done.stdout)}
    assert found["frames_cap"] == (32, "named.toml: frames_cap")
    assert found["frames_every"] == (30, "default")
    assert found["media_cache"][0] == str(tmp_path / "copies")
    assert f"file: {named}\n" in run_command(*arguments[0], "config", **arguments[1]).stdout


def test_a_named_file_counts_from_the_folder_of_the_person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "named.toml").write_text("frames_cap = 32")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    monkeypatch.setenv("REELSIEVE_CONFIG", "named.toml")
    monkeypatch.setenv(STARTED_IN, str(tmp_path))
    assert in_force()["frames_cap"] == (32, "named.toml: frames_cap")


NAME_ONE = "name another settings file by --config or REELSIEVE_CONFIG"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("folder", f"HERE/folder cannot be read (it is a folder): {NAME_ONE}"),
        ("pipe", f"HERE/pipe cannot be read (it is a pipe or a device): {NAME_ONE}"),
        ("/dev/zero", f"/dev/zero cannot be read (it is a pipe or a device): {NAME_ONE}"),
        ("missing", f"HERE/missing cannot be read (No such file or directory): {NAME_ONE}"),
        ("a/../link", f"HERE/a/../link cannot be read (No such file or directory): {NAME_ONE}"),
        (
            "~no_such_account/x",
            "REELSIEVE_CONFIG is ~no_such_account/x, but there is no folder ~no_such_account: name another file",
        ),
    ],
)
def test_a_name_that_leads_to_no_file(name: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("nowhere")
    os.mkfifo("pipe")
    said = f"error: {says.replace('HERE', str(tmp_path))}\n"
    for command in ("dataset list", "config", "doctor"):
        done = run_command("--config", name, *command.split(), COLUMNS="80")
        assert (done.returncode, done.stdout, done.stderr) == (1, "", said)
        assert run_command(*command.split(), REELSIEVE_CONFIG=name) == done


def test_the_accounts_own_place_may_hold_no_pipe(own: Path) -> None:
    os.mkfifo(own)
    assert run_command("config").stderr.startswith(f"error: {own} cannot be read (it is a pipe or a device)")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a file of another user")
def test_a_file_of_another_account_is_refused(own: Path) -> None:
    own.write_text("frames_cap = 64")
    os.chown(own, 12345, -1)
    said = f"error: {own} belongs to another account: copy it, and name the copy by --config or REELSIEVE_CONFIG\n"
    assert (run_command("dataset", "list").returncode, run_command("dataset", "list").stderr) == (1, said)
    assert run_command("dataset", "list", REELSIEVE_CONFIG=str(own)).stderr == said


def test_an_account_without_a_folder_for_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: str) -> Path:
        raise RuntimeError

    monkeypatch.setattr("orchestration.settings.files.user_config_path", fail)
    assert in_force()["frames_cap"] == (128, "default")
    said = "error: this account has no folder for settings: run reelsieve --config FILE config init\n"
    assert run_command("config", "init").stderr == said


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("frame_cap = 1", "frame_cap is not a setting, did you mean 'frames_cap'?"),
        ("xyzzyx = 1", "xyzzyx is not a setting: remove it, or correct its name; reelsieve --config NEW.toml"),
        ("[models.jugde]\nmodel = 'x'", "models.jugde.model is not a setting, did you mean 'models.judge.model'?"),
        ("[models.judge]\nurll = 'x'", "models.judge.urll is not a setting, did you mean 'models.judge.url'?"),
        ("[models.judge]\nkey = 'b5f1-secret'", "models.judge.key is not a setting, did you mean 'models.judge.key"),
        (
            "[models.judge]\nprice = 3",
            "models.judge.price is not usable: input should be a valid tuple; give price per",
        ),
        (
            "[models.judge]\nrevision = 'x'",
            "models.judge.revision is not a setting: choose one of model, url, key_variable, price",
        ),
        ("qeva_video = 'x'", "qeva_video is not a setting, did you mean 'models.qeva_video.model'?"),
        (
            "[models.judge]\nprice = [1, 2]",
            "models.judge.price is not usable: there is no model: name one",
        ),
        ("[models.judge]\nmodel = 'x'\nprice = [-1, 2]", "price is not usable: input should be greater than or equal"),
        ("[models.judge]\nmodel = 'x'\nprice = [inf, 2]", "price is not usable: input should be a finite number"),
        (
            "[models.judge]\nmodel = 'x'\nkey_variable = 'sk-12345678'",
            "key_variable is not usable: it is not the name of an environment variable",
        ),
        ("text_encoder = 'x'", "text_encoder is not a setting, did you mean 'models.text_encoder.model'?"),
        ("[models]\njudge = 'x'", "models holds a value that is no table: write tables, such as [models.judge]"),
        ("[profile.a]\nmodels = 1", "models holds a value that is no table: write tables, such as [models.judge]"),
        *(
            (f"public_url = '{url}'", "public_url is not usable: it is no address such as https://rate.lab.example")
            for url in ("rate.lab.example", "ftp://rate", "https://rate/pages", "https://ann@rate", "https://*")
        ),
        ("allowed_hosts = ['*']", "is not usable: string should match pattern"),
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
        ('[models.judge]\nmodel = "a\\u0000b"', "models.judge.model contains a NUL character: remove it"),
        ("frames_cap = 1\n\0", "is not valid TOML: Invalid statement (at line 2, column 1); correct it"),
        ('"a\\u0000\\nb" = 1', "'a\\x00\\nb' is not a setting"),
        (f"frames_cap = 1\nmedia_roots = {'[' * 3000}{']' * 3000}", "is nested too deeply: shorten it"),
        (f"media_roots.{'.'.join('a' * 3000)} = 1", "is nested too deeply: shorten it"),
        (f"media_roots = {'[' * 300}{']' * 300}", "media_roots is not usable: input should be a valid dictionary"),
        (f"\n\nframes_cap = {'9' * 5000}", "has a number with too many digits: shorten it"),
        (f"frames_cap = [\n1,\n{'9' * 5000}\n]", "has a number with too many digits: shorten it"),
        (f"frames_cap = 0x{'f' * 5000}", "frames_cap has too many digits: shorten it"),
        (f"{'a' * 10_000_000} = 1", "is longer than 64 KiB, the limit of a settings file: shorten it"),
        (f"{'a' * 60_000} = 1", f": {'a' * 60}.. is not a setting"),
        (f"{'a.' * 30_000}b = 1", "is n"),
        (
            "media_roots = {clips = 'mnt'}",
            "media_roots is not usable: the place of clips is a relative path: give an absolute folder",
        ),
        ("good_ratings = 'b5f1-secret'", "good_ratings is not usable: it is not valid JSON; give lowest mean rating"),
        ("home = '~no_such_account/home'", "but there is no folder ~no_such_account: correct it"),
        ("profile = 'gpu'", "a file cannot choose its profile: choose it in the environment, REELSIEVE_PROFILE=gpu"),
        ("frames_cap = ", "is not valid TOML"),
        ("frames_cap = 1\n# \udcff", "is not valid TOML (line 2 is not UTF-8): save it as UTF-8"),
    ],
)
def test_a_mistake_in_the_file_is_one_sentence(own: Path, text: str, wrong: str) -> None:
    own.write_bytes(text.encode(errors="surrogateescape"))
    done = run_command("dataset", "list")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"error: {own}")
    assert wrong in done.stderr
    assert done.stderr.count("\n") == 1
    assert SECRET not in done.stderr


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("[profile.mine]", "is big, no profile: name one of laptop, gpu, paper, mine, or write [profile.big] into /"),
        (
            None,
            "error: REELSIEVE_PROFILE is big, no profile: name one of laptop, gpu, paper, or write [profile.big] into ",
        ),
    ],
)
def test_a_profile_that_does_not_exist(own: Path, text: str | None, wrong: str) -> None:
    if text is not None:
        own.write_text(text)
    done = run_command("dataset", "list", REELSIEVE_PROFILE="big")
    assert done.returncode == 1
    assert wrong in done.stderr


@pytest.mark.parametrize("name", [None, "new/folder/named.toml"])
def test_the_file_that_init_writes_holds_every_setting_with_its_default(
    name: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = in_force()
    path = tmp_path / (name or "config/reelsieve/reelsieve.toml")
    if name:
        monkeypatch.setenv("REELSIEVE_CONFIG", str(path))
    assert run_command("config", "init").returncode == 0
    again = run_command("config", "init")
    assert again.stderr == f"error: {path} exists already: edit it, or remove it to have a new one written\n"
    folder = run_command("config", "init", REELSIEVE_CONFIG=str(path.parent))
    assert folder.stderr == f"error: {path.parent} is a folder: run reelsieve --config FILE config init\n"
    lines = re.findall(r"^# ([\w.]+) = *(.*)$", path.read_text(), flags=re.MULTILINE)
    assert {name for name, _ in lines} | {"profile", "failure_url"} == set(list_setting_fields())
    # What has no default is left out, and so is the precision in the example of a profile.
    given = [f"{name} = {value}" for name, value in dict(reversed(lines)).items() if value]
    path.write_text("\n".join(given))
    forget_installation()
    found = in_force()
    assert {name: value for name, (value, _) in found.items()} == {name: value for name, (value, _) in before.items()}
    assert sum(place.startswith(path.name) for _, place in found.values()) == len(given) > 50


def test_a_secret_is_shown_by_its_name_only() -> None:
    done = run_command(
        "config", CURATION_DB_URL=f"postgresql://a:{SECRET}@h/d", REELSIEVE_FAILURE_URL=f"http://{SECRET}"
    )
    assert "curation_db_url" in done.stdout
    assert "failure_url" in done.stdout
    assert SECRET not in done.stdout


def test_the_page_of_all_settings_is_up_to_date() -> None:
    made = runpy.run_path(str(PROJECT / "docs" / "settings.py"))
    assert made["PAGE"].read_text(encoding="utf-8") == made["page"](), "make it anew: .venv/bin/python docs/settings.py"
    assert made["MODELS_PAGE"].read_text(encoding="utf-8") == made["models_page"](), "make it anew, likewise"


def test_figures_of_agreement_are_those_of_the_papers_page() -> None:
    row = next(
        line for line in (PROJECT / "docs" / "papers.md").read_text().splitlines() if "VCS_short, lct 1 |" in line
    )
    ours, published = re.findall(r"(\S+ \(.*?\)) \*(.*?)\*", row)[::2], re.findall(r"\*(.*?)\*", row)[::2]
    assert all(figure in PROFILES["laptop"].agreement for figure, _ in ours)
    assert all(figure in PROFILES["paper"].agreement for figure in published)
