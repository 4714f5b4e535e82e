"""Run a function on many items in threads that never keep a process from ending."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def run_in_threads(
    function: Callable[[Item], Result], items: Sequence[Item], n_threads: int, timeout_s: float | None = None
) -> list[Result]:
    """Call a function on every item in at most `n_threads` threads, and return the results in the order of the items.
    The first error is raised at once; calls under way end on their own, and no others begin. timeout_s: seconds after
    which TimeoutError is raised; None for no limit.

    An executor of the standard library would hold up the end of the process, and so a Ctrl-C, until the last call is
    answered.
    """
    results: dict[int, Result] = {}
    errors: list[BaseException] = []
    waiting = iter(range(len(items)))
    lock, ended = threading.Lock(), threading.Event()

    def work() -> None:
        while not errors:
            with lock:
                index = next(waiting, None)
            if index is None:
                return
            try:
                result = function(items[index])
            except BaseException as error:
                errors.append(error)
                ended.set()
                return
            with lock:
                results[index] = result
                if len(results) == len(items):
                    ended.set()

    for _ in range(min(n_threads, len(items))):
        threading.Thread(target=work, daemon=True).start()
    try:
        if items and not ended.wait(None if timeout_s is None else min(timeout_s, threading.TIMEOUT_MAX)):
            raise TimeoutError(f"not done in {timeout_s:g} s")
    except BaseException as interrupt:
        errors.append(interrupt)
        raise
    if errors:
        raise errors[0]
    return [results[index] for index in range(len(items))]
