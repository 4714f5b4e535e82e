"""Settings files: which ones count, whether they are trusted, and their values.

Keys are names of settings, and a table [profile.NAME] holds some for one purpose.
"""

from __future__ import annotations

import bisect
import json
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli
from pydantic.fields import FieldInfo

from assets.home import find_home, find_nearest_path
from assets.ingest.files import open_regular
from assets.models.profiles import PROFILE_SETTINGS, PROFILES
from assets.own_home import is_own_home
from assets.scores.registry import BROKEN_METRICS
from assets.settings import SettingsError, find_setting_place, format_variable_name
from assets.trusted_files import find_config_folder, is_trusted
from db.spelling import suggest_name
from metrics_core.child_processes import locate_path
from orchestration.settings.groups import (
    ENVIRONMENT_ONLY,
    PROFILE,
    SETTINGS_FILE,
    Settings,
    is_allowed_in_file,
    list_setting_fields,
)
from orchestration.settings.harmless import is_harmless

# Python's reader takes minutes for a key of a megabyte.
LONGEST_FILE = 64 * 1024
_LONGEST_SHOWN = 60
_DEEPEST = 8


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """A settings file as it was read once, so that the content that is trusted is the content that is used. is_foreign:
    its owner is neither this account nor root.
    """

    path: Path
    content: bytes
    is_foreign: bool

    @property
    def tables(self) -> dict[str, dict[str, Any]]:
        """The parsed settings, {table: {key: value}}. The file's own table has the empty name, and a profile's table
        has the profile's name. Raises SettingsError for a file that is not valid TOML or whose profiles are no tables.
        """
        values = _parse(self.path, self.content)
        profiles = values.pop(PROFILE, {})
        if not isinstance(profiles, dict) or not all(isinstance(table, dict) for table in profiles.values()):
            raise SettingsError(f"{self.path}: write profiles as tables, such as [profile.gpu]")
        return {"": values, **profiles}

    def list_values_needing_trust(self) -> dict[str, Any]:
        """Return the values that count only in the user's own file or in a trusted one: {"key" or "[profile.NAME] key":
        value}. Empty if the file is harmless. Raises SettingsError for a file with a mistake.
        """
        _parse_values(self)
        known = list_setting_fields()
        return {
            f"{_format_table_prefix(table)}{key}": value
            for table, values in self.tables.items()
            for key, value in values.items()
            if key in known and not is_harmless(key, known[key], value)
        }


def own_settings_path() -> Path | None:
    """Return the path of this account's settings file, which counts in every folder and may not exist; None without a
    folder for it.
    """
    folder = find_config_folder()
    return folder / SETTINGS_FILE if folder else None


def find_settings_file() -> Path | None:
    """Return the settings file of the current folder or the nearest one above, else the one in the home folder; None if
    there is none. This account's own file is not among them. Raises SettingsError if both exist: a person could not
    know which one counts.
    """
    project_file, home_file = find_nearest_path(SETTINGS_FILE, Path.is_file), _find_home_folder() / SETTINGS_FILE
    if project_file == own_settings_path():
        project_file = None
    if not home_file.is_file():
        return project_file
    if project_file and project_file != home_file:
        raise SettingsError(f"settings are in {project_file} and in {home_file}: keep one of the two files")
    return home_file


def read_settings_file(path: Path) -> SettingsFile:
    """Return the content of a settings file, and whether another account owns it. Parses nothing. Raises SettingsError
    for a file that cannot be read or is longer than 64 KiB.
    """
    try:
        with open_regular(path) as file:
            content = file.read(LONGEST_FILE + 1)
            owner = os.fstat(file.fileno()).st_uid
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}") from None
    if len(content) > LONGEST_FILE:
        raise SettingsError(f"{path} is longer than {LONGEST_FILE >> 10} KiB, which no settings file is: shorten it")
    return SettingsFile(path, content, owner not in (os.geteuid(), 0))


def is_home_chosen_by_user(chosen: Settings) -> bool:
    """Whether the user named the home folder of these settings, in the environment or in their own settings file. False
    where another settings file names it, or nothing does.
    """
    place = find_setting_place(format_variable_name("home"))
    return chosen.is_home_named and (place is None or place.startswith(f"{own_settings_path()}: "))


def _find_home_folder() -> Path:
    """Return the home folder that the environment, the user's own file or the current folder names."""
    named = _read_home_variable()
    if not named and (own_values := _read_own_values()):
        named = own_values[0].get(format_variable_name("home"), ("", ""))[0]
    return locate_path(named or find_home()).resolve()


def _read_home_variable() -> str | None:
    """Return the home that the environment itself names, and no settings file through it; None without one."""
    variable = format_variable_name("home")
    return os.environ.get(variable) if find_setting_place(variable) is None else None


Values = dict[str, tuple[str, str]]


def _read_own_values() -> tuple[Values, dict[str, Values]] | None:
    """Return the values of the user's own file and those of its profiles; None without a file."""
    path = own_settings_path()
    # Not by the path's own method, which fails where the account may not look.
    if path is None or not os.path.isfile(path):
        return None
    file = read_settings_file(path)
    if file.is_foreign:
        raise SettingsError(f"{path} belongs to another account: make it yours, or unset XDG_CONFIG_HOME")
    return _parse_values(file)


def read_settings_values() -> Values:
    """Return {variable: (text, place)} of every setting in the settings files: its value as the environment variable
    would have it, and the file and key. The chosen profile comes before other values, and a folder's file before the
    user's own. Raises SettingsError for a mistake, an unknown profile, and a file that needs trust.
    """
    chosen, path = os.environ.get(format_variable_name(PROFILE), ""), find_settings_file()
    # All profiles are read, so that a mistake does not wait for the day when one is chosen.
    read = [values for values in (_read_own_values(), _read_folder_values(path) if path else None) if values]
    profiles = dict.fromkeys(name for _, by_profile in read for name in by_profile)
    if chosen and chosen not in {*PROFILES, *profiles}:
        there = list(dict.fromkeys([*PROFILES, *profiles]))
        all_names = f": name one of {', '.join(there)}, or write [profile.{chosen}] into {path or SETTINGS_FILE}"
        raise SettingsError(f"{format_variable_name(PROFILE)} is {chosen}{suggest_name(chosen, there, all_names)}")
    values: Values = {}
    for plain, _ in read:
        values |= plain
    values |= _list_profile_values(chosen)
    for _, by_profile in read:
        values |= by_profile.get(chosen, {})
    return values


def _read_folder_values(path: Path) -> tuple[Values, dict[str, Values]]:
    """Return the values of a file that came with a folder, perhaps from somebody else. Raises SettingsError if it sets
    what only a trusted file may.
    """
    file, quoted = read_settings_file(path), shlex.quote(str(path))
    values = _parse_values(file)
    home = _find_home_folder()
    # A trusted home may already run programs in this user's name.
    is_of_home = path.parent == home and (bool(_read_home_variable()) or is_own_home(home))
    if is_of_home or is_trusted(path, file.content):
        return values
    if file.is_foreign:
        raise SettingsError(
            f"{path} belongs to another account: read it, and if you trust it, run reelsieve config trust {quoted}"
        )
    if names := list(file.list_values_needing_trust()):
        raise SettingsError(
            f"{path} sets {', '.join(names)}, which only a file that you trust may set: read it, and if you trust it, "
            f"run reelsieve config trust {quoted}"
        )
    return values


def _list_profile_values(chosen: str) -> dict[str, tuple[str, str]]:
    """Return the values of a built-in profile by variable; empty for another name."""
    if chosen not in PROFILES:
        return {}
    defaults = {name: field.default for name, field in list_setting_fields().items() if name in PROFILE_SETTINGS}
    values = defaults | PROFILES[chosen].settings
    return {format_variable_name(name): (value, f"profile {chosen}: {name}") for name, value in values.items()}


def _parse(path: Path, content: bytes) -> dict[str, Any]:
    try:
        return tomli.loads(content.decode("utf-8-sig"))
    except (tomli.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} is not valid TOML: {error}") from None
    except (ValueError, RecursionError) as error:
        why = "is nested too deep" if isinstance(error, RecursionError) else "has too many digits"
        raise SettingsError(
            f"{path}: line {_find_faulty_line(content.decode('utf-8-sig'), type(error))} {why}: shorten it"
        ) from None


def _find_faulty_line(text: str, kind: type[Exception]) -> int:
    """Return the line at which the reader fails with an error of this kind, which no later line mends."""
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


def _parse_values(file: SettingsFile) -> tuple[Values, dict[str, Values]]:
    """Return the values of a file, and those of its profiles by name."""
    plain, *profiles = file.tables.items()
    return _format_values(file.path, *plain), {name: _format_values(file.path, name, table) for name, table in profiles}


def _format_table_prefix(table: str) -> str:
    return f"[{PROFILE}.{_shorten(table)}] " if table else ""


def _format_values(path: Path, table: str, values: Mapping[str, Any]) -> Values:
    """Return (text, place) of every key by variable. Raises SettingsError for an unknown key."""
    known = list_setting_fields()
    texts = {}
    for key, value in values.items():
        place = f"{path}: {_format_table_prefix(table)}{_shorten(key)}"
        if key not in known and BROKEN_METRICS:
            # It may be a setting of a broken metric, whose settings are unknown.
            continue
        if key not in known:
            raise SettingsError(f"{place} is not a setting{suggest_name(key, known, '')}")
        if not is_allowed_in_file(key):
            raise SettingsError(
                f"{place} {ENVIRONMENT_ONLY[key]}: set the variable {format_variable_name(key)} instead"
            )
        if key == "curation_db_url":
            _refuse_password(place, str(value))
        texts[format_variable_name(key)] = (_format_value(path.parent, known[key], value, place), place)
    return texts


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
    if isinstance(value, str):
        text = str(folder / Path(value).expanduser()) if field.annotation in (Path, Path | None) else value
    elif _is_deep(value):
        raise SettingsError(f"{place} is nested too deep: shorten it")
    else:
        try:
            text = json.dumps(value, default=str)
        except ValueError:
            # A number of many hexadecimal digits can be read, but not written with decimal digits.
            raise SettingsError(f"{place} has too many digits: shorten it") from None
    if "\0" in text:
        raise SettingsError(f"{place} contains a NUL character: remove it")
    return text


def _is_deep(value: Any) -> bool:
    """Whether lists and tables are nested deeper than any setting needs."""
    level = [value]
    for _ in range(_DEEPEST):
        level = [
            inner
            for outer in level
            if isinstance(outer, list | dict)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
    return bool(level)
