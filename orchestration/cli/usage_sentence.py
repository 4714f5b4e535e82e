"""The sentence about arguments that cannot be used."""

from __future__ import annotations

import re
from collections.abc import Collection

import typer

_EXPECTED = {"float_parsing": "is not a number", "int_parsing": "is not a whole number"}
_PERCENT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*%\s*")
_COMMAND = re.compile(r"No such command '([^']*)'.*", re.DOTALL)
_OPTION = re.compile(r"No such option: (\S+).*", re.DOTALL)
_CHOICE = re.compile(r"(.*?)'([^']*)' is not one of ('[^']*'(?:, '[^']*')*)\.?", re.DOTALL)
_DECIMAL_COMMA = re.compile(r"\s*\d*,\d+\s*")


def explain_usage_error(error: typer.TyperException) -> str:
    """Return one sentence on what is wrong with the arguments of a command and which help lists the right ones. Empty
    if Typer has shown the help already.
    """
    # Imported late, so that commands start fast.
    from db.spelling import find_similar_name, suggest_name

    context = getattr(error, "ctx", None)
    message = (_explain_value(error) or error.format_message()).strip().removesuffix(".")
    if not message:
        return ""
    if option := _OPTION.fullmatch(message):
        known = [name for parameter in context.command.params for name in parameter.opts] if context else []
        message = f"no such option: {option[1]}{_suggest_field(option[1], known) or suggest_name(option[1], known, '')}"
    elif unknown := _COMMAND.fullmatch(message):
        groups = getattr(context.command, "commands", {}) if context else {}
        inner = [name for name, group in groups.items() if unknown[1] in getattr(group, "commands", {})]
        if inner:
            message = f"no such command {unknown[1]!r}, did you mean '{inner[0]} {unknown[1]}'?"
    elif (choice := _CHOICE.fullmatch(message)) and (
        meant := find_similar_name(choice[2], choice[3].strip("'").split("', '"))
    ):
        message = f"{choice[1]}{choice[2]!r} is not one of {choice[3]}, did you mean {meant!r}?"
    command = context.command_path if context else "reelsieve"
    return f"{message[0].lower()}{message[1:]} (see {command} --help)"


def _explain_value(error: typer.TyperException) -> str:
    """Return what is wrong with a refused value, by its name; an empty text for other errors."""
    # The error of pydantic, by which Typer reads values; it is not imported, since most commands end without one.
    problems = getattr(error.__cause__, "errors", None)
    parameter = getattr(error, "param", None)
    if problems is None or parameter is None:
        return ""
    problem = problems(include_url=False)[0]
    value, name = problem["input"], parameter.get_error_hint().split(" / ")[0].strip("'")
    if expected := _EXPECTED.get(problem["type"]):
        return f"{name}: {value!r} {expected}{_suggest_number(str(value))}"
    return f"{name}: {problem['msg'].removeprefix('Value error, ').replace('Input', repr(value), 1)}"


def _suggest_field(option: str, known: Collection[str]) -> str:
    """Return the remedy for `--ties` and for an option that only a recipe file has; an empty text for anything else."""
    if "--recipe" not in known:
        return ""
    from db.selection.recipes import WITHOUT_TIES, Recipe

    name = option.removeprefix("--").replace("-", "_")
    fields = Recipe.model_fields if "--keep" in known else ()
    field = next((field for field in fields if field in (name, f"{name}s")), None)
    return WITHOUT_TIES if name == "ties" else f": write {field} into a recipe file for --recipe" if field else ""


def _suggest_number(text: str) -> str:
    """Return the remedy for a percentage or a decimal comma; an empty text for anything else.

    >>> _suggest_number("12.5%"), _suggest_number("0,5"), _suggest_number("half")
    (': write 0.125', ': write 0.5', '')
    """
    if percent := _PERCENT.fullmatch(text):
        return f": write {float(percent[1]) / 100:g}"
    return f": write {float(text.replace(',', '.')):g}" if _DECIMAL_COMMA.fullmatch(text) else ""
