"""The commands config and config init: show the settings, and write a file for them."""

from __future__ import annotations

import json
import os
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from orchestration.cli.output import AsJson, console, print_json, print_rows, print_sentence
from orchestration.cli.refusals import RequestRefused

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

# FILE is one of your choice.
_NAME_FILE = "run reelsieve --config FILE config init"

config = typer.Typer(help="Settings: those in force, and a file for them.", no_args_is_help=False)


@config.callback(invoke_without_command=True)
def show_settings(context: typer.Context, as_json: AsJson = False) -> None:
    """Show the settings that differ from their defaults, and their origin; with --json all settings."""
    if context.invoked_subcommand is not None:
        return
    from orchestration.settings.files import find_settings_file

    rows = _list_settings()
    if as_json:
        print_json(rows)
        return
    chosen = [row for row in rows if row["from"] != "default"]
    print_rows(chosen, empty="every setting has its default")
    path = find_settings_file()
    shown = path if path and os.path.isfile(path) else "none; reelsieve config init writes one"
    console.print(f"file: {shown}")
    print_sentence(f"{len(rows) - len(chosen)} settings have their defaults: --json lists them")


@config.command("init")
def write_default_settings() -> None:
    """Write your settings file, or the one that --config names: every setting with its meaning and default, commented
    out.
    """
    from orchestration.settings.files import find_settings_file

    path = find_settings_file()
    if path is None:
        raise RequestRefused(f"this account has no folder for settings: {_NAME_FILE}")
    if path.is_dir():
        raise RequestRefused(f"{path} is a folder: {_NAME_FILE}")
    if os.path.lexists(path):
        raise RequestRefused(f"{path} exists already: edit it, or remove it to have a new one written")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(format_default_settings())
    except OSError as error:
        raise RequestRefused(f"{path} cannot be written ({error.strerror}): {_NAME_FILE}") from None
    console.print(f"written: {path}; take the # from a line to change its setting")


def format_default_settings() -> str:
    """Return the text of a settings file in TOML, all as comments: every setting that a file may hold, with its meaning
    and default (blank if there is none or it depends on the folder), then the built-in profiles.
    """
    from assets.models.profiles import PROFILES
    from orchestration.settings.groups import ENVIRONMENT_ONLY, PROFILE, list_setting_fields

    lines = [
        "# Settings of Reelsieve. Variables of the environment win: frames_cap is REELSIEVE_FRAMES_CAP there.",
    ]
    for name, field in list_setting_fields().items():
        if name not in ENVIRONMENT_ONLY:
            lines += ["", f"# {field.description}", f"# {name} = {_format_toml_default(field)}".rstrip()]
    lines += [
        "",
        f"# Profiles: with REELSIEVE_{PROFILE.upper()}=gpu its values replace those above, and the values in",
        f"# your table [{PROFILE}.gpu] replace both. These are built in; a table of another name is your own profile.",
    ]
    for name, profile in PROFILES.items():
        lines += ["", f"# {name}: {profile.meaning}", f"# [{PROFILE}.{name}]"]
        for role, model in profile.models.items():
            lines += [f"# {model.purpose}; licence {model.licence}, GB: {model.size_text}"]
            lines += [f"# {setting} = {json.dumps(value)}" for setting, value in model.list_settings(role).items()]
    return "\n".join(lines) + "\n"


def _format_toml_default(field: FieldInfo) -> str:
    """Return a default in TOML; empty if there is none, or if it depends on the folder."""
    # Empty tables and lists, strings, numbers and booleans look as in JSON.
    return "" if field.default_factory or field.default is None else json.dumps(field.default)


def _list_settings() -> list[dict[str, Any]]:
    from assets.home.settings import MODELS, list_settings, read_settings
    from orchestration.settings import get_settings
    from orchestration.settings.groups import list_settings_groups

    _, *others = list_settings_groups()
    # The installation's own group last: it gives the value of a field that several groups have.
    groups = reversed([get_settings(), *map(read_settings, others)])
    groups_by_name = {name: group for group in groups for name in list_settings(type(group))}
    return [
        {
            "setting": name,
            "value": _format_value(attrgetter(name.removeprefix(f"{MODELS}."))(group)),
            "from": _explain_origin(name),
        }
        for name, group in groups_by_name.items()
    ]


def _explain_origin(name: str) -> str:
    """Return the origin of a value: "default", "environment", or the key with the name of its file, whose folder is
    printed below the table.
    """
    from assets.home.settings import find_setting_place, format_variable_name

    variable = format_variable_name(name)
    if file_place := find_setting_place(variable):
        return file_place.removeprefix(f"{Path(file_place.partition(': ')[0]).parent}/")
    return "environment" if variable in map(str.upper, os.environ) else "default"


def _format_value(value: Any) -> Any:
    """Return a value as the table shows it; a secret becomes "(secret)"."""
    from pydantic import SecretStr

    if isinstance(value, SecretStr):
        return "(secret)"
    return value if isinstance(value, str | int | float | dict | None) else json.loads(json.dumps(value, default=str))
