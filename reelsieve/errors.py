"""The error that the functions of this package raise for everything that a caller can mend."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class ReelsieveError(ValueError):
    """Raised when Reelsieve cannot do as asked; the message is one sentence with the reason and, mostly, the remedy. It
    is a ValueError.
    """


# In a traceback it has the name by which it is caught.
ReelsieveError.__module__ = "reelsieve"


def raise_reelsieve_errors(function: Callable[P, R]) -> Callable[P, R]:
    """Return the function wrapped so that mistakes of the user and trouble of the machine raise ReelsieveError with one
    sentence, in which passwords are hidden. Faults of the program pass unchanged.
    """

    @wraps(function)
    def call_plainly(*args: P.args, **named: P.kwargs) -> R:
        # Imported late: importing assets fails with another version of Dagster, by an error for the command line.
        from assets.dataset_changes import report_dataset_changes

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
            raise ReelsieveError(hide_passwords(sentence)) from None

    return call_plainly
