"""Settings of this installation: from the environment, and behind it from one file `reelsieve.toml` with profiles."""

from __future__ import annotations

import bisect
import difflib
import json
import os
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, cast, get_args, get_origin

import tomli
from pydantic import Field, SecretStr, create_model
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, SettingsConfigDict

from assets.home import find_home, nearest
from assets.media.settings import MediaSettings
from assets.models.profiles import CHOSEN, PROFILES
from assets.models.settings import DEVICE
from assets.own_home import is_own_home
from assets.scores.registry import BROKEN, SCORERS
from assets.settings import PREFIX, SettingsError, give, place_of, read_settings, variable_of
from assets.thresholds.settings import RatingSettings
from assets.trust import config_folder, is_trusted
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
_OF_ENVIRONMENT = {"failure_url": "is a secret", PROFILE: "chooses in the file"}


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
        """Whether a setting names the home folder, so that it need not be looked for."""
        return "home" in self.model_fields_set

    @property
    def is_home_asked(self) -> bool:
        """Whether the user named the home folder in the environment or in a file of their own."""
        place = place_of(variable_of("home"))
        return self.is_home_named and (place is None or place.startswith(f"{own_file()}: "))

    @property
    def database(self) -> str | None:
        """The configured database URL, or None for the embedded server."""
        return self.curation_db_url.get_secret_value() or None if self.curation_db_url else None


@lru_cache(maxsize=1)
def settings() -> Settings:
    """The settings of the installation and of every metric, read once per process.

    Values of the settings file become variables of this process and of those that it starts. Raises SettingsError for a
    value that cannot be used and for a name that nothing reads. Warns of the broken metrics of installed packages.
    """
    _warn_of_broken()
    give(_values_of_files())
    everything, *others = groups()
    found = read_settings(everything)
    for group in others:
        read_settings(group)
    known = known_variables(found)
    unread = [_unread(name, known) for name in _of_ours(os.environ) if name.upper() not in known]
    # They may be settings of a broken metric, which nobody can ask for its own.
    if unread and not BROKEN:
        raise SettingsError("; ".join(unread))
    return found


def _warn_of_broken() -> None:
    if BROKEN:
        # Imported late: it imports Dagster, and most commands have nothing to warn of.
        from orchestration.terminal import warn_of_broken

        warn_of_broken(BROKEN)


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


# Settings files: keys are names of settings, and a table [profile.NAME] holds some for one purpose.

# Python's reader takes minutes for a key of a megabyte.
LONGEST_FILE = 64 * 1024
_LONGEST_SHOWN = 60
_DEEPEST = 8


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """A settings file as it was read once: what is trusted is what is parsed."""

    path: Path
    content: bytes
    is_of_stranger: bool

    @property
    def tables(self) -> dict[str, dict[str, Any]]:
        """Its keys by table: of the file itself under the empty name, and of every profile under its own."""
        values = _parse(self.path, self.content)
        profiles = values.pop(PROFILE, {})
        if not isinstance(profiles, dict) or not all(isinstance(table, dict) for table in profiles.values()):
            raise SettingsError(f"{self.path}: write profiles as tables, such as [profile.gpu]")
        return {"": values, **profiles}

    def needing_trust(self) -> dict[str, Any]:
        """The values that count only in a file of the user's own or in a trusted one, by key with its table.

        Raises SettingsError for a file with a mistake.
        """
        _values_of(self)
        known = fields()
        return {
            f"{_in_table(table)}{key}": value
            for table, values in self.tables.items()
            for key, value in values.items()
            if key in known and not _is_harmless(key, known[key], value)
        }


def own_file() -> Path | None:
    """Return the settings file of this account, which counts in every folder and may not exist."""
    folder = config_folder()
    return folder / FILE if folder else None


def settings_file() -> Path | None:
    """The file of the current folder or the nearest one above, else the file in the home folder; None without any.

    Raises SettingsError where both are there: a person could not tell which one counts.
    """
    of_project, of_home = nearest(FILE, Path.is_file), _home() / FILE
    if of_project == own_file():
        of_project = None
    if not of_home.is_file():
        return of_project
    if of_project and of_project != of_home:
        raise SettingsError(f"settings stand in {of_project} and in {of_home}: keep one of the two files")
    return of_home


def read_file(path: Path) -> SettingsFile:
    """Read a settings file. Raises SettingsError for one that cannot be read, or that is too long to be one."""
    try:
        with path.open("rb") as file:
            content = file.read(LONGEST_FILE + 1)
            owner = os.fstat(file.fileno()).st_uid
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}") from None
    if len(content) > LONGEST_FILE:
        raise SettingsError(f"{path} is longer than {LONGEST_FILE >> 10} KiB, which no settings file is: shorten it")
    return SettingsFile(path, content, owner not in (os.geteuid(), 0))


def _home() -> Path:
    """The home folder as the environment, the user's own file or the current folder has it."""
    named = _home_of_environment()
    if not named and (own := _own()):
        named = own[0].get(variable_of("home"), ("", ""))[0]
    return Path(named or find_home()).expanduser().resolve()


def _home_of_environment() -> str | None:
    """The home that the environment names, and no settings file by it."""
    variable = variable_of("home")
    return os.environ.get(variable) if place_of(variable) is None else None


Values = dict[str, tuple[str, str]]


def _own() -> tuple[Values, dict[str, Values]] | None:
    """The values of the user's own file, and those of its profiles."""
    path = own_file()
    # Not by the path's own method, which fails where the account may not look.
    if path is None or not os.path.isfile(path):
        return None
    own = read_file(path)
    if own.is_of_stranger:
        raise SettingsError(f"{path} belongs to another account: make it yours, or unset XDG_CONFIG_HOME")
    return _values_of(own)


def _values_of_files() -> Values:
    """By variable, its text and its place: of the chosen profile before the others, of a folder before the user's."""
    chosen, path = os.environ.get(variable_of(PROFILE), ""), settings_file()
    # All profiles are looked at, so that a mistake does not wait for the day when one is chosen.
    read = [values for values in (_own(), _of_folder(path) if path else None) if values]
    profiles = dict.fromkeys(name for _, by_profile in read for name in by_profile)
    if chosen and chosen not in {*PROFILES, *profiles}:
        there = ", ".join(dict.fromkeys([*PROFILES, *profiles]))
        raise SettingsError(
            f"{variable_of(PROFILE)} is {chosen}: name one of {there}, or write [profile.{chosen}] into {path or FILE}"
        )
    values: Values = {}
    for plain, _ in read:
        values |= plain
    values |= _of_profile(chosen)
    for _, by_profile in read:
        values |= by_profile.get(chosen, {})
    return values


def _of_folder(path: Path) -> tuple[Values, dict[str, Values]]:
    """The values of a file that came with a folder, perhaps somebody else's. Raises SettingsError for what may harm."""
    file, quoted = read_file(path), shlex.quote(str(path))
    values = _values_of(file)
    home = _home()
    # Whose home is trusted may already run programs in this user's name.
    is_of_home = path.parent == home and (bool(_home_of_environment()) or is_own_home(home))
    if is_of_home or is_trusted(path, file.content):
        return values
    if file.is_of_stranger:
        raise SettingsError(
            f"{path} belongs to another account: read it, and if you trust it, run reelsieve config trust {quoted}"
        )
    if names := list(file.needing_trust()):
        raise SettingsError(
            f"{path} sets {', '.join(names)}, which only a file that you trust may: read it, and if you trust it, run "
            f"reelsieve config trust {quoted}"
        )
    return values


# Settings that name a model, beside those that end in _model.
_MODELS = {"text_encoder", "image_text_encoder", "image_text_checkpoint", "ecs_verifier", "sentence_splitter"}
_MODEL_NAME = re.compile(r"(sat:)?(?P<name>[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?)(@\w+)?")
_OF_MONEY = {"chat_budget", "chat_prices"}


def _is_harmless(key: str, field: FieldInfo, value: Any) -> bool:
    """Whether anybody's file may set it: a number, a switch, a choice from a list, or a model by its public name.

    All else may name a server, a key, a file, a folder, a command or somebody's money.
    """
    if key in _OF_MONEY:
        return False
    if set(_kinds(field.annotation)) <= {bool, int, float, NoneType}:
        return True
    is_model = key in _MODELS or key.endswith("_model")
    named = _MODEL_NAME.fullmatch(value) if is_model and isinstance(value, str) else None
    # A model is loaded from a folder of its name where there is one.
    return is_model and (value == "" or bool(named and not os.path.lexists(named["name"])))


def _kinds(annotation: Any) -> Iterator[type]:
    """The types of the values that an annotation allows; a choice from a list has none, and neither have keys."""
    if (origin := get_origin(annotation)) is None:
        yield annotation
    elif origin is Annotated:
        yield from _kinds(get_args(annotation)[0])
    elif origin is not Literal:
        for argument in get_args(annotation)[1 if origin is dict else 0 :]:
            if argument is not ...:
                yield from _kinds(argument)


def _of_profile(chosen: str) -> dict[str, tuple[str, str]]:
    """The values of a profile that Reelsieve brings; nothing for another one."""
    if chosen not in PROFILES:
        return {}
    defaults = {name: field.default for name, field in fields().items() if name in CHOSEN}
    values = defaults | PROFILES[chosen].settings
    return {variable_of(name): (value, f"profile {chosen}: {name}") for name, value in values.items()}


def _parse(path: Path, content: bytes) -> dict[str, Any]:
    try:
        return tomli.loads(content.decode())
    except (tomli.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} is no TOML: {error}") from None
    except (ValueError, RecursionError) as error:
        why = "is nested too deep" if isinstance(error, RecursionError) else "has too many digits"
        raise SettingsError(f"{path}: line {_line_of(content.decode(), type(error))} {why}: shorten it") from None


def _line_of(text: str, kind: type[Exception]) -> int:
    """The line at which the reader gives up with an error of this kind, which none but the rest of the file mends."""
    lines = text.splitlines(keepends=True)

    def fails(n_lines: int) -> bool:
        try:
            tomli.loads("".join(lines[:n_lines]))
        except tomli.TOMLDecodeError:
            return False
        except kind:
            return True
        return False

    return bisect.bisect_left(range(1, len(lines) + 1), True, key=fails) + 1


def _values_of(file: SettingsFile) -> tuple[Values, dict[str, Values]]:
    """The values of a file, and those of its profiles."""
    plain, *profiles = file.tables.items()
    return _texts(file.path, *plain), {name: _texts(file.path, name, table) for name, table in profiles}


def _in_table(table: str) -> str:
    return f"[{PROFILE}.{_short(table)}] " if table else ""


def _texts(path: Path, table: str, values: Mapping[str, Any]) -> Values:
    """By variable, the text of the key's value and its place."""
    known = fields()
    found = {}
    for key, value in values.items():
        place = f"{path}: {_in_table(table)}{_short(key)}"
        if key not in known and BROKEN:
            # It may be a setting of a broken metric, which nobody can ask for its own.
            continue
        if key not in known:
            meant = did_you_mean(key, known)
            raise SettingsError(f"{place} is no setting{f', did you mean {meant}?' if meant else ''}")
        if not is_of_file(key):
            raise SettingsError(f"{place} {_OF_ENVIRONMENT[key]}: set the variable {variable_of(key)} instead")
        if key == "curation_db_url":
            _refuse_password(place, str(value))
        found[variable_of(key)] = (_text(path.parent, known[key], value, place), place)
    return found


def _short(key: str) -> str:
    """A key as a sentence shows it, however long it is and whatever letters it has."""
    shown = key if key.isprintable() else ascii(key)
    return shown if len(shown) <= _LONGEST_SHOWN else f"{shown[:_LONGEST_SHOWN]}.."


def _refuse_password(place: str, url: str) -> None:
    # Imported late: it imports SQLAlchemy.
    from db.server.urls import DatabaseUnavailable, parse_url

    try:
        parsed = parse_url(url)
    except DatabaseUnavailable as error:
        raise SettingsError(f"{place}: {error}") from None
    if parsed.password is not None or any("password" in name for name in parsed.query):
        raise SettingsError(f"{place} holds a password: set PGPASSWORD, or the variable CURATION_DB_URL")


def _text(folder: Path, field: FieldInfo, value: Any, place: str) -> str:
    """The value as a variable has it; a path of the file stands beside the file."""
    if isinstance(value, str):
        text = str(folder / Path(value).expanduser()) if field.annotation in (Path, Path | None) else value
    elif _is_deep(value):
        raise SettingsError(f"{place} is nested too deep: shorten it")
    else:
        try:
            text = json.dumps(value, default=str)
        except ValueError:
            # A number of many hexadecimal digits is read, and cannot be written with decimal ones.
            raise SettingsError(f"{place} has too many digits: shorten it") from None
    if "\0" in text:
        raise SettingsError(f"{place} holds a NUL, which no setting can: remove it")
    return text


def _is_deep(value: Any) -> bool:
    """Whether lists and tables stand in one another deeper than any setting needs."""
    level = [value]
    for _ in range(_DEEPEST):
        level = [
            inner
            for outer in level
            if isinstance(outer, list | dict)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
    return bool(level)


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
