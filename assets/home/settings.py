"""How groups of settings are read from environment variables, which a settings file may have filled in."""

from __future__ import annotations

import os
from typing import TypeVar

from pydantic import ValidationError
from pydantic_settings import BaseSettings
from pydantic_settings.exceptions import SettingsError as UnreadableSetting

PREFIX = "REELSIEVE_"
S = TypeVar("S", bound=BaseSettings)
# By variable, the text that a settings file gave it, and the place in that file for an error to name.
_applied: dict[str, tuple[str, str]] = {}


class SettingsError(ValueError):
    """Raised for a setting that cannot be used; the message names the variable, or the key and its file."""

    plain = True


def format_variable_name(field: str) -> str:
    """Return the name of the environment variable of a settings field: REELSIEVE_ and the field in capitals, except for
    CURATION_DB_URL.

    >>> format_variable_name("frames_cap"), format_variable_name("curation_db_url")
    ('REELSIEVE_FRAMES_CAP', 'CURATION_DB_URL')
    """
    name = field.upper()
    return name if name == "CURATION_DB_URL" else f"{PREFIX}{name}"


def apply_settings_file(values: dict[str, tuple[str, str]]) -> None:
    """Set the environment variables that are unset to the values of a settings file, for this process and its children.
    values: by variable, the text and its place in the file. The values of an earlier call are removed first, unless
    they were changed since.
    """
    for variable in [name for name in _applied if find_setting_place(name)]:
        del os.environ[variable]
    _applied.clear()
    present = {name.upper() for name in os.environ}
    for variable, given in values.items():
        if variable not in present:
            _applied[variable] = given
            os.environ[variable] = given[0]


def find_setting_place(variable: str) -> str | None:
    """Return the place from which `apply_settings_file` gave a variable its value: a line of a file, or the key of a
    profile. None where the value comes from the environment, or is the default.

    A built-in profile has a place without a file.
    """
    text, place = _applied.get(variable, (None, None))
    return place if text is not None and os.environ.get(variable) == text else None


def read_settings(group: type[S]) -> S:
    """Read the settings of this class from the environment as it is now. Raises SettingsError for the first wrong
    value.
    """
    try:
        return group()
    except ValidationError as error:
        field, why = parse_first_fault(error)
        raise SettingsError(_explain_fault(group, field.lower(), why)) from None
    except UnreadableSetting as error:
        # It names the field in quotes. The value is not quoted: it may hold what it should not.
        raise SettingsError(_explain_fault(group, str(error).split('"')[1], "it is not valid JSON")) from None


def parse_first_fault(error: ValidationError) -> tuple[str, str]:
    """Return the name of the first field with a wrong value in a pydantic error, and what is wrong with it, without the
    value.
    """
    first = error.errors(include_url=False)[0]
    why = first["msg"].removeprefix("Value error, ")
    return str(first["loc"][0]), f"{why[0].lower()}{why[1:]}"


def _explain_fault(group: type[BaseSettings], field: str, why: str) -> str:
    variable = format_variable_name(field)
    known = group.model_fields.get(field)
    meaning = known.description if known else None
    remedy = f"; give {meaning}" if meaning and "as JSON" in meaning else ""
    return f"{find_setting_place(variable) or f'environment variable {variable}'} is not usable: {why}{remedy}"
