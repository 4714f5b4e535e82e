"""Settings of this installation: from the environment, and behind it from one file `reelsieve.toml` with profiles."""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Collection, Iterable, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Annotated, Any, cast
from urllib.parse import urlsplit

import tomli
from pydantic import Field, SecretStr, create_model
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, SettingsConfigDict

from assets.home import find_home, nearest
from assets.media.settings import MediaSettings
from assets.models.profiles import CHOSEN, PROFILES
from assets.models.settings import DEVICE
from assets.scores.registry import SCORERS
from assets.settings import PREFIX, SettingsError, give, read_settings, variable_of
from assets.thresholds.settings import RatingSettings
from db.spelling import did_you_mean

FILE = "reelsieve.toml"
PROFILE = "profile"
# Variables that no class of settings has: of a machine's pool of models, Dagster's files, tests and benchmarks.
_OTHERS = (
    *(DEVICE, "REELSIEVE_DAGSTER_DIR"),
    *("REELSIEVE_TEST_DATA", "REELSIEVE_REQUIRE_ALL", "REELSIEVE_RENEW_GRAPH", "REELSIEVE_CHAT_SERVER_PYTHON"),
)
# How like PREFIX the first word of a variable is that is taken for a misspelt one of ours.
_LIKENESS = 0.8
# A file comes with a folder, perhaps somebody else's. It starts no command and holds no secret.
_OF_ENVIRONMENT = {"failure_command": "starts a command", "failure_url": "is a secret", PROFILE: "chooses in the file"}


class Settings(BaseSettings):
    """The settings of this installation. A field X is the variable REELSIEVE_X."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="ignore")

    home: Path = Field(default_factory=find_home, description="database, exports, reports and inbox")
    curation_db_url: SecretStr | None = Field(
        default=None,
        validation_alias="CURATION_DB_URL",
        description="your own Postgres; default: the embedded server",
    )
    owners: tuple[Annotated[str, Field(pattern=r"^(team:.+|[^@ ]+@[^@ ]+)$")], ...] = Field(
        default=(), description='owners of all assets in Dagster, as JSON: ["team:data", "ada@example.org"]'
    )
    profile: str = Field(
        default="", description=f"{', '.join(PROFILES)} or one of {FILE}: its values come before the others"
    )
    failure_command: str | None = Field(default=None, description="run when a run failed, with a notice on its input")
    failure_url: SecretStr | None = Field(default=None, description="receives a notice when a run failed")
    ray_actors: int | None = Field(default=None, ge=1, description="actors without a GPU; default: as many as fit")
    ray_cpus: float = Field(default=1.0, gt=0, description="cores of each actor")
    ray_gpu_actors: int | None = Field(default=None, ge=0, description="actors with a GPU; default: as many as fit")
    ray_gpus: float = Field(default=1.0, gt=0, description="GPUs of each actor that has one")

    @property
    def home_folder(self) -> Path:
        """The home folder as an absolute path."""
        return self.home.expanduser().resolve()

    @property
    def is_home_named(self) -> bool:
        """Whether the user named the home folder, so that it need not be looked for."""
        return "home" in self.model_fields_set

    @property
    def database(self) -> str | None:
        """The configured database URL, or None for the embedded server."""
        return self.curation_db_url.get_secret_value() or None if self.curation_db_url else None


@lru_cache(maxsize=1)
def settings() -> Settings:
    """The settings of the installation and of every metric, read once per process.

    Values of the settings file become variables of this process and of those that it starts. Raises SettingsError for a
    value that cannot be used and for a name that nothing reads.
    """
    give(_values_of_files())
    everything, *others = groups()
    found = read_settings(everything)
    for group in others:
        read_settings(group)
    known = known_variables(found)
    if unread := [_unread(name, known) for name in _of_ours(os.environ) if name.upper() not in known]:
        raise SettingsError("; ".join(unread))
    return found


@cache
def groups() -> tuple[type[Settings], type[MediaSettings], type[RatingSettings]]:
    """All groups of settings; the first has the fields of the installation and of every metric."""
    of_metrics = dict.fromkeys(scorer.settings for scorer in SCORERS.values())
    # create_model takes several bases, but its type stub knows only one.
    return create_model("AllSettings", __base__=cast(Any, (Settings, *of_metrics))), MediaSettings, RatingSettings


def fields() -> dict[str, FieldInfo]:
    """Every setting by its name, which is its key in the settings file."""
    return {name: field for group in reversed(groups()) for name, field in group.model_fields.items()}


def is_of_file(name: str) -> bool:
    """Whether a settings file may hold the setting."""
    return name not in _OF_ENVIRONMENT


def known_variables(found: Settings) -> set[str]:
    """Every variable of ours that something reads. found: the settings, which name the variables that hold keys."""
    keys = {str(key).upper() for name, key in found if name.endswith("_key_variable")}
    return {*map(variable_of, fields()), *_OTHERS, *keys}


# The settings file: keys are names of settings, and a table [profile.NAME] holds some for one purpose.


def settings_file() -> Path | None:
    """The file of the current folder or the nearest one above, else the file in the home folder; None without any.

    Raises SettingsError where both are there: a person could not tell which one counts.
    """
    of_project = nearest(FILE, Path.is_file)
    home = Path(os.environ.get(variable_of("home")) or find_home()).expanduser().resolve()
    of_home = home / FILE if (home / FILE).is_file() else None
    if of_project and of_home and of_project != of_home:
        raise SettingsError(f"settings stand in {of_project} and in {of_home}: keep one of the two files")
    return of_project or of_home


def _values_of_files() -> dict[str, tuple[str, str]]:
    """By variable, its text and its place: values of the chosen profile before the others."""
    chosen, path = os.environ.get(variable_of(PROFILE), ""), settings_file()
    values = {} if path is None else _parsed(path)
    profiles = values.pop(PROFILE, {})
    if not isinstance(profiles, dict) or not all(isinstance(each, dict) for each in profiles.values()):
        raise SettingsError(f"{path}: write profiles as tables, such as [profile.gpu]")
    if chosen and chosen not in {*PROFILES, *profiles}:
        there = ", ".join(dict.fromkeys([*PROFILES, *profiles]))
        raise SettingsError(
            f"{variable_of(PROFILE)} is {chosen}: name one of {there}, or write [profile.{chosen}] into {path or FILE}"
        )
    if path is None:
        return _of_profile(chosen)
    # All profiles are looked at, so that a mistake does not wait for the day when one is chosen.
    by_profile = {name: _texts(path, f"[profile.{name}] ", table) for name, table in profiles.items()}
    return _texts(path, "", values) | _of_profile(chosen) | by_profile.get(chosen, {})


def _of_profile(chosen: str) -> dict[str, tuple[str, str]]:
    """The values of a profile that Reelsieve brings; nothing for another one."""
    if chosen not in PROFILES:
        return {}
    defaults = {name: field.default for name, field in fields().items() if name in CHOSEN}
    values = defaults | PROFILES[chosen].settings
    return {variable_of(name): (value, f"profile {chosen}: {name}") for name, value in values.items()}


def _parsed(path: Path) -> dict[str, Any]:
    try:
        return tomli.loads(path.read_text(encoding="utf-8"))
    except (tomli.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} is no TOML: {error}") from None
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}") from None


def _texts(path: Path, table: str, values: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """By variable, the text of the key's value and its place."""
    known = fields()
    found = {}
    for key, value in values.items():
        place = f"{path}: {table}{key}"
        if key not in known:
            meant = did_you_mean(key, known)
            raise SettingsError(f"{place} is no setting{f', did you mean {meant}?' if meant else ''}")
        if not is_of_file(key):
            raise SettingsError(f"{place} {_OF_ENVIRONMENT[key]}: set the variable {variable_of(key)} instead")
        if key == "curation_db_url" and urlsplit(str(value)).password:
            raise SettingsError(f"{place} holds a password: set PGPASSWORD, or the variable CURATION_DB_URL")
        found[variable_of(key)] = (_text(path.parent, known[key], value), place)
    return found


def _text(folder: Path, field: FieldInfo, value: Any) -> str:
    """The value as a variable has it; a path of the file stands beside the file."""
    if isinstance(value, str):
        return str(folder / Path(value).expanduser()) if field.annotation in (Path, Path | None) else value
    return json.dumps(value, default=str)


def _of_ours(names: Iterable[str]) -> list[str]:
    """The variables that begin with our prefix, or with a word so like it that it must be misspelt."""
    return [
        name
        for name in names
        if name[:4].upper() == PREFIX[:4]
        and difflib.SequenceMatcher(None, f"{name.upper().partition('_')[0]}_", PREFIX).ratio() >= _LIKENESS
    ]


def _unread(name: str, known: Collection[str]) -> str:
    """What is wrong with a variable that nothing reads. Its value is not quoted: it may be a secret."""
    # All begin alike: what follows tells them apart.
    meant = {variable.removeprefix(PREFIX): variable for variable in (*known, "CURATION_DB_URL")}
    said = did_you_mean(name.partition("_")[2], meant)
    hint = f", did you mean {meant[said]}?" if said else ": unset it, or correct its name"
    return f"environment variable {name} is not read by anything{hint}"
