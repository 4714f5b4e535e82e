"""A clear error for work that fails because its dataset was dropped meanwhile. Imports nothing slow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

# For each dataset that the current work has looked up, a function that explains its change; None for no change.
_CHECKS: ContextVar[tuple[Callable[[], str | None], ...]] = ContextVar("looks", default=())


class DatasetChanged(RuntimeError):
    """Raised when work failed on a dataset that was dropped while it ran; the message says which."""

    plain = True


@contextmanager
def report_dataset_changes() -> Iterator[None]:
    """Run a block of code as a context manager. If the block fails and a dataset that it looked up was dropped since,
    raise DatasetChanged. Any other failure is raised as it is.

    A dropped dataset shows in many ways: a foreign key without its row, an empty list, an unknown name. None of them
    says what happened. So the datasets are looked up again after any exception of a command, a page or a function.
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
    """Register a function that `report_dataset_changes` calls if its block fails. The function returns a sentence that
    says what happened to a dataset, or None where the dataset did not change.
    """
    _CHECKS.set((*_CHECKS.get(), explain_change))
