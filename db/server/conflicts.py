"""Transactions that the server ends because of another one, and that go through when they are tried again."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import psycopg
import sqlalchemy as sa

P = ParamSpec("P")
T = TypeVar("T")

# SQLSTATEs: two transactions waited for each other; a transaction saw rows that another one changed meanwhile.
_CONFLICTS = ("40P01", "40001")
# Seconds before each further try, up to twice as long by chance, so that two that met do not meet again.
_PAUSES = (0.1, 0.5, 2.0)


def is_conflict(error: BaseException) -> bool:
    """Whether the server ended a transaction because of another one, so that it can be tried again."""
    driver = error.orig if isinstance(error, sa.exc.DBAPIError) else error
    return isinstance(driver, psycopg.Error) and driver.sqlstate in _CONFLICTS


def retry_conflicts(work: Callable[P, T]) -> Callable[P, T]:
    """Make a function of whole transactions try up to three times more after a deadlock or a failed serialization.

    The last error is raised. Nothing that the function did before may stay, so it must do all in its transactions.
    """

    @wraps(work)
    def retry(*args: P.args, **kwargs: P.kwargs) -> T:
        for pause in _PAUSES:
            try:
                return work(*args, **kwargs)
            except (psycopg.Error, sa.exc.DBAPIError) as error:
                if not is_conflict(error):
                    raise
            time.sleep(pause * (1 + random.random()))
        return work(*args, **kwargs)

    return retry
