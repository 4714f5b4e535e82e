"""What is told where work fails because its dataset was dropped or renamed meanwhile. Imports nothing that is slow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

# For each dataset that the work under way has looked up, a function that says what became of it; None for nothing.
_CHECKS: ContextVar[tuple[Callable[[], str | None], ...]] = ContextVar("looks", default=())


class DatasetChanged(RuntimeError):
    """A dataset was dropped or renamed while something worked on it."""

    plain = True


@contextmanager
def report_dataset_changes() -> Iterator[None]:
    """Let a block that fails end with DatasetChanged where a dataset that it looked up was dropped or renamed since.

    A dropped dataset shows in many ways: a foreign key without its row, an empty list, a name that nobody knows. None
    of them says what happened. So whatever a command, a page or a function fails with, its datasets
    are looked at again.
    """
    before = _CHECKS.set(())
    try:
        yield
    except Exception as error:
        change = next(filter(None, (look() for look in _CHECKS.get())), None)
        if change is None:
            raise
        raise DatasetChanged(change) from error
    finally:
        _CHECKS.reset(before)


def add_dataset_check(explain_change: Callable[[], str | None]) -> None:
    """Have `look` called if the work under way fails; it says in a sentence what became of a dataset, or None."""
    _CHECKS.set((*_CHECKS.get(), explain_change))
