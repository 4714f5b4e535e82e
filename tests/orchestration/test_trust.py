"""Which homes and settings files count: those of this account, and those that it trusted by name."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from assets.own_home import IDENTITY, UntrustedHome, is_own_home, open_home, trust_home
from assets.settings import SettingsError, apply_settings_file
from assets.trusted_files import is_trusted, trust_file
from orchestration.settings.groups import list_setting_fields
from tests.command_line import Done, run_command
from tests.homes import copy_home
from tests.orchestration.conftest import forget_installation
from tests.ordinary_user import open_folder, ordinary_user

ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a file of another user")


@pytest.fixture(autouse=True)
def _own_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[None, None, None]:
    """An account that has trusted nothing, in an empty folder."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("REELSIEVE_HOME", "CURATION_DB_URL"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    forget_installation()
    yield
    apply_settings_file({})
    forget_installation()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The folder in which the test stands."""
    return tmp_path / "project"


def run(*arguments: str, **variables: str) -> Done:
    """Run a command as a process of its own would see files and settings."""
    apply_settings_file({})
    forget_installation()
    return run_command(*arguments, **variables)


def in_force(**variables: str) -> dict[str, tuple[Any, str]]:
    """Value and origin of every setting, as `reelsieve config` has them."""
    done = run("config", "--json", **variables)
    assert done.returncode == 0, done.stderr
    return {row["setting"]: (row["value"], row["from"]) for row in json.loads(done.stdout)}


# Homes.


@pytest.fixture
def foreign_home(project: Path, migrated_home: Path, tmp_path: Path) -> tuple[Path, Path]:
    """A home that nobody marked in the folder, and the file that its server makes if it runs a program."""
    home, trace = project / ".reelsieve", tmp_path / "trace"
    copy_home(migrated_home, home)
    (home / IDENTITY).unlink(missing_ok=True)
    with (home / "postgres" / "postgresql.auto.conf").open("a") as file:
        file.write(f"archive_mode = on\narchive_command = 'touch {trace}'\narchive_timeout = 1\n")
    return home, trace


@pytest.mark.parametrize("command", ["dataset list", "db start", "db stop", "db url", "sql SELECT", "ui", "demo"])
def test_no_command_works_in_a_home_of_somebody_else(foreign_home: tuple[Path, Path], command: str) -> None:
    home, trace = foreign_home
    before = sorted(home.rglob("*"))
    done = run(*command.split())
    assert done.returncode == 1
    refusal = (
        f"{home} was not made by this account, and its server could run programs in your name: if you trust it, run "
        f"reelsieve config trust {home}"
    )
    assert done.stderr == f"error: {refusal}\n"
    assert sorted(home.rglob("*")) == before, "nothing was started or written"
    assert not trace.exists()


def test_doctor_names_a_home_of_somebody_else(
    foreign_home: tuple[Path, Path], tiny_text_encoder: Path, tiny_verifier: Path
) -> None:
    home, trace = foreign_home
    before = sorted(home.rglob("*"))
    models = {"REELSIEVE_TEXT_ENCODER": str(tiny_text_encoder), "REELSIEVE_ECS_VERIFIER": str(tiny_verifier)}
    done = run("doctor", "--json", **models)
    findings = {found["what"]: found for found in json.loads(done.stdout)}
    for what in ("home folder", "database", "read-only role", "media"):
        assert findings[what]["detail"].endswith(f"run reelsieve config trust {home}"), what
        assert not findings[what]["ok"]
    assert sorted(home.rglob("*")) == before
    assert not trace.exists()


def test_dagsters_command_takes_no_module_from_the_folder(project: Path, tmp_path: Path) -> None:
    for name in ("json", "dagster", "typing", "yaml"):
        (project / f"{name}.py").write_text(f"open({str(tmp_path / 'trace')!r}, 'w')\n")
    script = Path(sys.executable).with_name("reelsieve")
    done = subprocess.run([script, "dagster", "--version"], capture_output=True, text=True)
    assert (done.returncode, done.stdout.startswith("dagster, version")) == (0, True), done.stderr
    assert not (tmp_path / "trace").exists()


def test_a_home_is_trusted_by_name_and_by_the_environment(foreign_home: tuple[Path, Path]) -> None:
    home, trace = foreign_home
    assert run("dataset", "list", REELSIEVE_HOME=str(home)).returncode == 0
    assert run("db", "stop", REELSIEVE_HOME=str(home)).stdout == "stopped\n"
    assert run("dataset", "list").returncode == 1, "it counted for that command only"
    done = run("config", "trust")
    assert (done.returncode, done.stdout) == (0, f"trusted: {home}, whose server may run programs in your name\n")
    assert run("dataset", "list").returncode == 0
    assert run("db", "stop").stdout == "stopped\n"
    assert run("config", "trust").stderr.startswith("error: nothing needs trust")
    assert not trace.exists(), "no server runs the command of its files"


def test_a_new_home_is_ones_own_without_a_question(project: Path) -> None:
    done = run("db", "start")
    assert done.returncode == 0, done.stderr
    assert is_own_home(project / ".reelsieve")
    again = run("dataset", "list")
    assert (again.returncode, again.stderr) == (0, "")
    assert run("db", "stop").stdout == "stopped\n"


def test_what_people_prepare_in_a_home_leaves_it_new(project: Path) -> None:
    home = project / ".reelsieve"
    (home / "inbox" / "mine").mkdir(parents=True)
    (home / "reelsieve.toml").write_text("frames_cap = 64")
    assert open_home(home, is_named_by_user=False) is None
    assert is_own_home(home)


@pytest.mark.parametrize("name", ["postgres", "start.lock", "listening.json", "logs", "inbox"])
def test_a_home_with_a_link_or_with_work_is_not_new(project: Path, tmp_path: Path, name: str) -> None:
    home, precious = project / ".reelsieve", tmp_path / "precious"
    home.mkdir()
    precious.write_text("kept")
    (home / name).symlink_to(precious)
    with pytest.raises(UntrustedHome):
        open_home(home, is_named_by_user=False)
    assert run("db", "start").returncode == 1
    assert precious.read_text() == "kept"


def test_another_folder_in_the_place_of_a_home_is_not_trusted(project: Path, tmp_path: Path) -> None:
    home = project / ".reelsieve"
    open_home(home, is_named_by_user=False)
    shutil.copytree(home, tmp_path / "copy")
    assert is_own_home(home)
    assert not is_own_home(tmp_path / "copy"), "a mark counts in its place only"
    shutil.rmtree(home)
    (home / "postgres").mkdir(parents=True)
    (home / IDENTITY).write_text("guessed\n")
    assert not is_own_home(home)
    with pytest.raises(UntrustedHome):
        open_home(home, is_named_by_user=False)


def test_a_mark_that_is_no_file_is_none(project: Path, tmp_path: Path) -> None:
    home = project / ".reelsieve"
    home.mkdir()
    os.mkfifo(home / IDENTITY)
    assert not is_own_home(home)
    (home / IDENTITY).unlink()
    (home / IDENTITY).symlink_to("/dev/zero")
    assert not is_own_home(home)


def test_a_named_home_is_marked_where_it_is_new_only(tmp_path: Path) -> None:
    new, old = tmp_path / "new", tmp_path / "old"
    (old / "postgres").mkdir(parents=True)
    assert open_home(new, is_named_by_user=True) is None
    assert open_home(old, is_named_by_user=True) is None
    assert (is_own_home(new), is_own_home(old)) == (True, False)


def test_an_account_without_a_home_folder_is_told_what_to_set(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "no folder").write_text("")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "no folder"))
    home = project / ".reelsieve"
    note = open_home(home, is_named_by_user=False)
    assert note is not None
    assert note.startswith(f"{home} is not marked as yours ({tmp_path}/no folder/reelsieve: ")
    assert note.endswith(f"later commands need REELSIEVE_HOME={home}")
    (home / "postgres").mkdir()
    with pytest.raises(UntrustedHome, match=f"if you trust it, set REELSIEVE_HOME={home}$"):
        open_home(home, is_named_by_user=False)
    assert open_home(home, is_named_by_user=True) is None
    with pytest.raises(SettingsError, match="set XDG_CONFIG_HOME"):
        trust_home(home)


@ROOT_ONLY
def test_the_list_of_another_account_trusts_nothing() -> None:
    with open_folder() as folder:
        file = folder / "file"
        with pytest.MonkeyPatch.context() as patched:
            patched.setenv("XDG_CONFIG_HOME", str(folder))
            trust_file(file, b"x")
            assert is_trusted(file, b"x")
            os.chown(folder / "reelsieve" / "trusted.json", 12345, -1)
            assert not is_trusted(file, b"x")


@pytest.mark.parametrize("text", ["", "[]", "null", "{", "[" * 5000, '{"/f": 1}', "\ud800"])
def test_a_broken_list_trusts_nothing_and_is_written_anew(tmp_path: Path, text: str) -> None:
    place = tmp_path / "config" / "reelsieve" / "trusted.json"
    place.parent.mkdir(parents=True)
    place.write_bytes(text.encode(errors="surrogatepass"))
    assert not is_trusted(Path("/f"), b"x")
    trust_file(Path("/f"), b"x")
    assert is_trusted(Path("/f"), b"x")
    assert not is_trusted(Path("/f"), b"y")
    assert not is_trusted(Path("/g"), b"x")
    assert stat.S_IMODE(place.stat().st_mode) == 0o600


@ROOT_ONLY
def test_a_home_that_another_account_prepared_is_not_new(project: Path) -> None:
    home = project / ".reelsieve"
    home.mkdir()
    os.chown(home, 12345, 12345)
    with pytest.raises(UntrustedHome):
        open_home(home, is_named_by_user=False)


@ROOT_ONLY
def test_an_account_without_rights_to_the_list_has_no_home() -> None:
    with open_folder() as folder, ordinary_user(), pytest.raises(UntrustedHome):
        open_home(folder, is_named_by_user=False)


# Settings files.

HARMFUL = """
home = "h"
curation_db_url = "postgresql://127.0.0.1:1/films"
failure_command = "touch trace"
media_cache = "/"
media_private_networks = ["127.0.0.0/8"]
text_encoder = "./model"
text_encoder_url = "http://127.0.0.1:1"
text_encoder_key_variable = "AWS_SECRET_ACCESS_KEY"
qeva_text_url = "vllm"
image_text_encoder = "ViT-B-32"
image_text_checkpoint = "/weights.pt"
sentence_splitter = "sat:/model"
chat_budget = 1e9
[media_roots]
clips = "s3://bucket"
[chat_prices]
model = [1, 1]
[profile.gpu]
ecs_verifier = "a/b/c"
"""
HARMLESS = """
frames_cap = 64
vcs_lct = 1
evqa_dedup = false
ecs_mode = "sodam"
ecs_sentences = "all"
ecs_threshold = 0.5
ray_actors = 2
text_encoder = "somebody/encoder@abc1234"
image_text_encoder = "ViT-L-14-quickgelu"
image_text_checkpoint = "dfn2b"
sentence_splitter = "sat:sat-12l-sm"
ecs_verifier = "lexical"
qeva_text_model = ""
[good_ratings]
consistency = 4
"""


def test_a_file_of_a_folder_sets_nothing_that_leads_outside(project: Path) -> None:
    path = project / "reelsieve.toml"
    path.write_text(HARMFUL)
    names = (
        "home, curation_db_url, failure_command, media_cache, media_private_networks, text_encoder, text_encoder_url, "
        "text_encoder_key_variable, qeva_text_url, image_text_checkpoint, sentence_splitter, chat_budget, media_roots, "
        "chat_prices, "
        "[profile.gpu] ecs_verifier"
    )
    done = run("dataset", "list", PGPASSWORD="secret")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"error: {path} sets {names}, which only a file that you trust may set: read it, and if you trust it, run "
        f"reelsieve config trust {path}\n"
    )
    assert not (project / "h").exists()


def test_numbers_choices_and_models_by_name_count_in_any_file(project: Path) -> None:
    (project / "reelsieve.toml").write_text(HARMLESS)
    found = in_force()
    assert found["frames_cap"] == (64, "reelsieve.toml: frames_cap")
    assert found["text_encoder"] == ("somebody/encoder@abc1234", "reelsieve.toml: text_encoder")
    assert found["good_ratings"][0] == {"consistency": 4}
    (project / "somebody" / "encoder").mkdir(parents=True)
    assert "sets text_encoder, which only" in run("config").stderr, "the folder would be loaded"


def test_what_a_strangers_file_may_set_is_listed_here(project: Path) -> None:
    """A new setting that names something outside must not slip in: every text but a model's name needs trust."""
    values = {"home": "x", "media_roots": {"a": "x"}, "media_private_networks": ["10.0.0.0/8"], "owners": ["a@b"]}
    harmless = set()
    for name, field in list_setting_fields().items():
        value = values.get(name, "x" if field.annotation is str else field.default)
        text = json.dumps(value) if not isinstance(value, dict) else "{ a = 'x' }" if value else "{}"
        if name in {"profile", "failure_url"} or value is None:
            continue
        (project / "reelsieve.toml").write_text(f"{name} = {text}")
        if "which only a file that you trust may" not in run("config").stderr:
            harmless.add(name)
    texts = {name for name in harmless if list_setting_fields()[name].annotation is str}
    assert texts == {
        *("text_encoder", "image_text_encoder", "image_text_checkpoint", "ecs_verifier", "sentence_splitter"),
        *("qeva_video_model", "qeva_text_model", "qeva_filter_video_model", "qeva_filter_text_model"),
        *("ecs_judge_model", "evqa_keywords_model", "judge_model"),
    }
    assert not {name for name in harmless if name.endswith(("_url", "_key_variable", "_cache", "_roots", "_networks"))}
    assert {"frames_cap", "vcs_lct", "chat_mode", "qeva_forced"} <= harmless
    assert not {"home", "owners", "chat_budget", "chat_prices", "failure_command", "frame_reader"} & harmless


def test_a_trusted_file_counts_until_it_changes(project: Path) -> None:
    path = project / "reelsieve.toml"
    path.write_text('text_encoder = "./model"\n[media_roots]\nclips = "/mnt/clips"\n')
    done = run("config", "trust")
    assert (done.returncode, done.stdout) == (
        0,
        f'trusted until it changes: {path}\nit sets text_encoder = "./model"\n'
        'it sets media_roots = {"clips": "/mnt/clips"}\n',
    )
    assert in_force()["text_encoder"][0] == "./model"
    path.write_text('text_encoder = "./other"\n')
    assert "sets text_encoder, which only" in run("config").stderr
    path.write_text("frames_cap = 64\n")
    assert run("config", "trust", str(path)).stdout.endswith("it sets nothing that needs trust\n")


def test_a_file_that_is_a_link_is_trusted_by_its_own_name(project: Path, tmp_path: Path) -> None:
    (tmp_path / "shared.toml").write_text('text_encoder = "./model"')
    (project / "reelsieve.toml").symlink_to(tmp_path / "shared.toml")
    assert "sets text_encoder, which only" in run("config").stderr
    assert run("config", "trust").returncode == 0
    assert in_force()["text_encoder"][0] == "./model"


def test_a_trusted_file_counts_in_its_place_only(project: Path, tmp_path: Path) -> None:
    text = 'text_encoder = "./model"'
    (project / "reelsieve.toml").write_text(text)
    assert run("config", "trust").returncode == 0
    (project / "deeper").mkdir()
    (project / "deeper" / "reelsieve.toml").write_text(text)
    os.chdir(project / "deeper")
    assert "sets text_encoder, which only" in run("config").stderr


def test_a_home_that_a_trusted_file_names_must_be_trusted_too(foreign_home: tuple[Path, Path], project: Path) -> None:
    home, trace = foreign_home
    named = home.rename(project / "h")
    (project / "reelsieve.toml").write_text('home = "h"')
    assert run("config", "trust").returncode == 0
    assert f"error: {named} was not made by this account" in run("dataset", "list").stderr
    assert not trace.exists()


def test_the_users_own_file_may_set_everything_and_counts_in_every_folder(project: Path, tmp_path: Path) -> None:
    own = tmp_path / "config" / "reelsieve" / "reelsieve.toml"
    own.parent.mkdir(parents=True)
    own.write_text(f'frames_cap = 32\n{HARMFUL}\nimage_text_precision = "bf16"\n')
    found = in_force()
    assert found["home"] == (str(own.parent / "h"), f"{own}: home")
    assert found["failure_command"][0] == "touch trace"
    assert found["frames_cap"][0] == 32
    (project / "reelsieve.toml").write_text("frames_cap = 64")
    found = in_force(REELSIEVE_PROFILE="gpu")
    assert found["frames_cap"] == (64, "reelsieve.toml: frames_cap"), "a folder's file is nearer"
    assert found["image_text_precision"] == ("bf16", f"{own}: [profile.gpu] image_text_precision")
    assert f"your own file, which counts in every folder: {own}" in run("config").stdout


def test_a_home_of_the_users_own_file_counts_as_asked(foreign_home: tuple[Path, Path], tmp_path: Path) -> None:
    home, _ = foreign_home
    own = tmp_path / "config" / "reelsieve" / "reelsieve.toml"
    own.parent.mkdir(parents=True)
    own.write_text(f"home = {json.dumps(str(home))}")
    assert run("dataset", "list").returncode == 0
    assert run("db", "stop").stdout == "stopped\n"


def test_the_file_in_ones_own_home_may_set_everything(project: Path) -> None:
    home = project / ".reelsieve"
    home.mkdir()
    (home / "reelsieve.toml").write_text('text_encoder = "./model"')
    assert "sets text_encoder, which only" in run("config").stderr
    open_home(home, is_named_by_user=False)
    assert in_force()["text_encoder"][0] == "./model"


@ROOT_ONLY
def test_a_file_of_another_account_counts_once_it_is_trusted(project: Path, tmp_path: Path) -> None:
    path = project / "reelsieve.toml"
    path.write_text("frames_cap = 64")
    os.chown(path, 12345, -1)
    refusal = (
        f"error: {path} belongs to another account: read it, and if you trust it, run reelsieve config trust {path}\n"
    )
    assert run("dataset", "list").stderr == refusal
    assert run("config", "trust").returncode == 0
    assert in_force()["frames_cap"][0] == 64
    own = tmp_path / "config" / "reelsieve" / "reelsieve.toml"
    own.write_text("frames_cap = 32")
    os.chown(own, 12345, -1)
    assert run("dataset", "list").stderr.startswith(f"error: {own} belongs to another account")


def test_trust_is_refused_to_what_is_no_file_and_no_home(project: Path) -> None:
    assert "nothing needs trust" in run("config", "trust").stderr
    assert f"{project} holds no data of Reelsieve" in run("config", "trust", ".").stderr
    assert "cannot be read: No such file" in run("config", "trust", "nothing.toml").stderr
    os.mkfifo("pipe.toml")
    assert "cannot be read: it is a folder, a pipe or a device" in run("config", "trust", "pipe.toml").stderr
    (project / "reelsieve.toml").write_text("frame_cap = 1")
    assert "did you mean 'frames_cap'?" in run("config", "trust").stderr
