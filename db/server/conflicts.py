"""Try a transaction again that the server ended because it conflicted with another one."""

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
    """Whether a psycopg or SQLAlchemy error is a deadlock or a failed serialization, so that the transaction can be
    tried again.
    """
    driver = error.orig if isinstance(error, sa.exc.DBAPIError) else error
    return isinstance(driver, psycopg.Error) and driver.sqlstate in _CONFLICTS


def retry_conflicts(work: Callable[P, T]) -> Callable[P, T]:
    """Decorate a function that runs whole transactions, so that it is called again after a deadlock or a failed
    serialization. There are up to three further calls, after pauses of 0.1 to 4 seconds; the error of the last one is
    raised. The function must do all its work in transactions, since a failed call is repeated from the start.
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
