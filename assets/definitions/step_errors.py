"""How a Dagster step fails for a mistake of a user: with one sentence, without a traceback."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from inspect import isgeneratorfunction
from typing import Any, TypeVar

import dagster as dg

from db.server.user_errors import explain_user_error

C = TypeVar("C", bound=Callable[..., Any])


class StepRefused(Exception):
    """The cause of a failed step as Dagster stores it: one sentence with what is wrong, where, and the remedy."""


def explain_failure(function: C) -> C:
    """Decorate the function of an asset, of checks or of an op, below Dagster's own decorator. If the function fails by
    a mistake of the user or trouble of the machine, Dagster shows StepRefused with one sentence and no traceback. Hooks
    and callers get the error itself, and other errors keep their traceback.
    """

    @wraps(function)
    def run(*args: Any, **named: Any) -> Any:
        with _explain_failure():
            return function(*args, **named)

    @wraps(function)
    def generate(*args: Any, **named: Any) -> Iterator[Any]:
        with _explain_failure():
            yield from function(*args, **named)

    # Dagster asks the function whether it is a generator.
    return generate if isgeneratorfunction(function) else run  # type: ignore[return-value]


@contextmanager
def _explain_failure() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        sentence = explain_user_error(error)
        if sentence is None:
            raise
        # An error of this class passes Dagster unwrapped. Its page leaves out the traceback of such an error if there
        # is a cause, and the cause has no traceback since nothing raised it.
        raise dg.DagsterUserCodeExecutionError(
            sentence, user_exception=error, original_exc_info=sys.exc_info()
        ) from StepRefused(sentence)
