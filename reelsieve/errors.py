"""The error that the functions of this package raise for everything that a caller can mend."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, ParamSpec, SupportsIndex, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
# By the annotation of a parameter: the classes that it takes, and their name in a sentence.
_KINDS: Mapping[str, tuple[tuple[type, ...], str]] = {
    "str": ((str,), "a text"),
    "str | None": ((str, type(None)), "a text"),
    "int": ((SupportsIndex,), "a whole number"),
    "Place | None": ((str, os.PathLike, type(None)), "a path"),
}


class ReelsieveError(ValueError):
    """Raised when Reelsieve cannot do as asked; the message is one sentence with the reason and, mostly, the remedy. It
    is a ValueError.
    """


# In a traceback it has the name by which it is caught.
ReelsieveError.__module__ = "reelsieve"


def raise_reelsieve_errors(function: Callable[P, R]) -> Callable[P, R]:
    """Return the function wrapped so that mistakes of the user and trouble of the machine raise ReelsieveError with one
    sentence, in which passwords are hidden; so do arguments that are no text, path or number where one is meant. Faults
    of the program pass unchanged.
    """
    signature = inspect.signature(function)

    @wraps(function)
    def call_plainly(*args: P.args, **named: P.kwargs) -> R:
        # Imported late: importing assets fails with another version of Dagster, by an error for the command line.
        from assets.datasets.changes import report_dataset_changes

        arguments = signature.bind(*args, **named).arguments
        for name, value in arguments.items():
            _check_argument(name, str(signature.parameters[name].annotation), value)
        try:
            with report_dataset_changes():
                return function(*args, **named)
        except ReelsieveError:
            raise
        except Exception as error:
            # Imported late: with it come the drivers of the database.
            from db.server.user_errors import explain_user_error
            from orchestration.passwords import hide_passwords

            sentence = explain_user_error(error)
            if sentence is None:
                raise
            raise ReelsieveError(_name_keywords(hide_passwords(sentence), signature, arguments)) from None

    return call_plainly


def _name_keywords(sentence: str, signature: inspect.Signature, arguments: Mapping[str, Any]) -> str:
    """Return a sentence with the keywords of a function in place of the variables that it does not read: those of the
    metrics' settings, and those of a home or url that was given.
    """
    from reelsieve.samples import replace_variables_by_keywords

    for keyword, variable in (("home", "REELSIEVE_HOME"), ("url", "CURATION_DB_URL")):
        if arguments.get(keyword) is not None:
            sentence = sentence.replace(variable, keyword)
    has_settings = any(each.kind is each.VAR_KEYWORD for each in signature.parameters.values())
    return replace_variables_by_keywords(sentence) if has_settings else sentence


def _check_argument(name: str, annotation: str, value: Any) -> None:
    """Raise ReelsieveError for a value of another class than a parameter of this annotation takes, an empty path, and a
    text or path with a character that neither a database nor a folder can hold.
    """
    classes, what = _KINDS.get(annotation, ((object,), ""))
    is_path = "Place" in annotation or "PathLike" in annotation
    if not isinstance(value, classes):
        raise ReelsieveError(f"{name} is {repr(value)[:60]}: give {what}")
    if is_path and value == "":
        raise ReelsieveError(f"{name} is empty: give a path")
    text = str(value) if is_path and isinstance(value, os.PathLike) else value
    if (what or is_path) and isinstance(text, str):
        for position, character in enumerate(text, 1):
            # The names of files may have bytes that are no UTF-8.
            if character == "\0" or ("\ud800" <= character <= "\udfff" and not is_path):
                raise ReelsieveError(
                    f"{name} has the character {character!a} at position {position:,}, which cannot be stored: "
                    "remove it"
                )
