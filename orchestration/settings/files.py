"""The settings file: which one counts, and its values.

Keys are names of settings, and a table [profile.NAME] holds some for one purpose.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Any

import tomli
from platformdirs import user_config_path
from pydantic.fields import FieldInfo

from assets.home.settings import MODELS, SettingsError, format_variable_name
from assets.ingest.files import open_regular
from assets.metrics.registry import BROKEN_METRICS
from assets.models.profiles import PROFILE_SETTINGS, PROFILES
from db.spelling import find_similar_name, suggest_name
from metrics_core.child_processes import locate_path
from orchestration.settings.groups import (
    ENVIRONMENT_ONLY,
    PROFILE,
    SETTINGS_FILE,
    list_setting_fields,
)

CONFIG_VARIABLE = "REELSIEVE_CONFIG"
# Python's reader takes minutes for a key of a megabyte.
LONGEST_FILE = 64 * 1024
_LONGEST_SHOWN = 60

Values = dict[str, tuple[str, str]]


def find_settings_file() -> Path | None:
    """Return the path of the settings file that counts: the one that REELSIEVE_CONFIG names, else this account's own,
    `reelsieve.toml` in its folder of configuration, which may not exist. None for an account without such a folder.
    Nothing of the current folder counts. Raises SettingsError for a name that is no path.
    """
    if named := os.environ.get(CONFIG_VARIABLE):
        try:
            return locate_path(named).absolute()
        except RuntimeError:  # the home folder of an unknown user
            raise SettingsError(
                f"{CONFIG_VARIABLE} is {named}, but there is no folder {Path(named).parts[0]}: name another file"
            ) from None
    with suppress(RuntimeError):
        path = user_config_path("reelsieve") / SETTINGS_FILE
        return path if path.is_absolute() else None
    return None


def read_settings_values() -> Values:
    """Return {variable: (text, place)} of every setting in the settings file: its value as the environment variable
    would have it, and the file and key. The chosen profile comes before other values. Raises SettingsError for a
    mistake, an unknown profile, and a file of another account.
    """
    chosen, path = os.environ.get(format_variable_name(PROFILE), ""), find_settings_file()
    # A folder that this account may not look into has no file for it.
    is_there = path is not None and (bool(os.environ.get(CONFIG_VARIABLE)) or os.path.lexists(path))
    # All profiles are read, so that a mistake does not wait for the day when one is chosen.
    plain, by_profile = _read_file(path) if path and is_there else ({}, {})
    if chosen and chosen not in {*PROFILES, *by_profile}:
        there = list(dict.fromkeys([*PROFILES, *by_profile]))
        all_names = f": name one of {', '.join(there)}, or write [profile.{chosen}] into {path or SETTINGS_FILE}"
        raise SettingsError(
            f"{format_variable_name(PROFILE)} is {chosen}, no profile{suggest_name(chosen, there, all_names)}"
        )
    return plain | _list_profile_values(chosen) | by_profile.get(chosen, {})


def _read_file(path: Path) -> tuple[Values, dict[str, Values]]:
    """Return the values of a file, and those of its profiles by name."""
    values = _parse(path, _read_content(path))
    profiles = _pop_tables(path, values, PROFILE, "gpu")
    return _format_values(path, "", values), {
        name: _format_values(path, name, table) for name, table in profiles.items()
    }


def _pop_tables(path: Path, values: dict[str, Any], name: str, example: str) -> dict[str, dict[str, Any]]:
    """Take the tables [NAME.X] out of the values, and return them by X."""
    tables = values.pop(name, {})
    if name == PROFILE and isinstance(tables, str):
        variable = format_variable_name(PROFILE)
        raise SettingsError(
            f"{path}: a file cannot choose its profile: choose it in the environment, {variable}={tables}"
        )
    if not isinstance(tables, dict) or not all(isinstance(table, dict) for table in tables.values()):
        raise SettingsError(f"{path}: {name} holds a value that is no table: write tables, such as [{name}.{example}]")
    return tables


def _read_content(path: Path) -> bytes:
    try:
        with open_regular(path) as file:
            content = file.read(LONGEST_FILE + 1)
            owner = os.fstat(file.fileno()).st_uid
    except OSError as error:
        why = str(error.strerror).partition(":")[0]
        raise SettingsError(
            f"{path} cannot be read ({why}): name another settings file by --config or {CONFIG_VARIABLE}"
        ) from None
    if owner not in (os.geteuid(), 0):
        raise SettingsError(
            f"{path} belongs to another account: copy it, and name the copy by --config or {CONFIG_VARIABLE}"
        )
    if len(content) > LONGEST_FILE:
        raise SettingsError(f"{path} is longer than {LONGEST_FILE >> 10} KiB, the limit of a settings file: shorten it")
    return content


def _list_profile_values(chosen: str) -> Values:
    """Return the values of a built-in profile by variable; empty for another name."""
    if chosen not in PROFILES:
        return {}
    defaults = {name: field.default for name, field in list_setting_fields().items() if name in PROFILE_SETTINGS}
    values = defaults | PROFILES[chosen].settings
    return {format_variable_name(name): (value, f"profile {chosen}: {name}") for name, value in values.items()}


def _parse(path: Path, content: bytes) -> dict[str, Any]:
    try:
        return tomli.loads(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise SettingsError(f"{path} is not valid TOML (line {line} is not UTF-8): save it as UTF-8") from None
    except tomli.TOMLDecodeError as error:
        raise SettingsError(f"{path} is not valid TOML: {error}; correct it") from None
    except RecursionError:
        raise SettingsError(f"{path} is nested too deeply: shorten it") from None
    except ValueError:
        raise SettingsError(f"{path} has a number with too many digits: shorten it") from None


def _format_table_prefix(table: str) -> str:
    return f"[{PROFILE}.{_shorten(table)}] " if table else ""


def _format_values(path: Path, table: str, values: dict[str, Any]) -> Values:
    """Return (text, place) of every setting by variable. Raises SettingsError for an unknown one."""
    known = list_setting_fields()
    models = _pop_tables(path, values, MODELS, "judge")
    by_role = {f"{MODELS}.{role}.{key}": value for role, keys in models.items() for key, value in keys.items()}
    texts = {}
    for key, value in (values | by_role).items():
        place = f"{path}: {_format_table_prefix(table)}{_shorten(key)}"
        if key not in known and BROKEN_METRICS:
            # It may be a setting of a broken metric, whose settings are unknown.
            continue
        if key not in known:
            raise SettingsError(f"{place} is not a setting{_suggest_setting(key, known)}")
        if key in ENVIRONMENT_ONLY:
            raise SettingsError(
                f"{place} {ENVIRONMENT_ONLY[key]}: set the variable {format_variable_name(key)} instead"
            )
        if key == "curation_db_url":
            _refuse_password(place, str(value))
        texts[format_variable_name(key)] = (_format_value(path.parent, known[key], value, place), place)
    return texts


def _suggest_setting(key: str, known: Collection[str]) -> str:
    """Return the end of a sentence about an unknown setting, which may be named as its variable, or cut off."""
    by_variable = {format_variable_name(name): name for name in known}
    longer = (name for name in known if name.startswith(f"{key}_") or name == f"{MODELS}.{key}.model")
    if meant := by_variable.get(format_variable_name(key)) or next(longer, None):
        return f", did you mean {meant!r}?"
    # A key of a model is compared with the others of its role only: their names begin with the same words.
    table = key[: key.rfind(".") + 1]
    keys = {name.removeprefix(table): name for name in known if table and name.startswith(table)}
    meant = keys.get(find_similar_name(key.removeprefix(table), keys) or "") if keys else find_similar_name(key, known)
    if meant:
        return f", did you mean {meant!r}?"
    if keys:
        return f": choose one of {', '.join(keys)}"
    return ": remove it, or correct its name; reelsieve --config NEW.toml config init writes a file with all names"


def _shorten(key: str) -> str:
    """Return a key as a sentence shows it: printable, and of limited length."""
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
        raise SettingsError(f"{place} contains a password: set PGPASSWORD, or the variable CURATION_DB_URL")


def _format_value(folder: Path, field: FieldInfo, value: Any, place: str) -> str:
    """Return the value as its variable has it; a relative path counts from the folder of the file."""
    if isinstance(value, str) and field.annotation in (Path, Path | None):
        try:
            text = str(folder / Path(value).expanduser())
        except RuntimeError:
            raise SettingsError(
                f"{place} is {_shorten(value)}, but there is no folder {_shorten(Path(value).parts[0])}: correct it"
            ) from None
    elif isinstance(value, str):
        text = value
    else:
        try:
            text = json.dumps(value, default=str)
        except ValueError:
            # A number of many hexadecimal digits can be read, but not written with decimal digits.
            raise SettingsError(f"{place} has too many digits: shorten it") from None
        except RecursionError:
            raise SettingsError(f"{place} is nested too deeply: shorten it") from None
    if "\0" in text:
        raise SettingsError(f"{place} contains a NUL character: remove it")
    return text
