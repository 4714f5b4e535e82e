"""Training that gives the same weights each time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def repeatable(seed: int, threads: int) -> Iterator[None]:
    """Seeds torch and fixes the order of its sums on `threads` threads; its former state comes back at the end.

    >>> import torch
    >>> with repeatable(seed=3, threads=1):
    ...     first = torch.rand(2)
    >>> with repeatable(seed=3, threads=1):
    ...     bool((torch.rand(2) == first).all())
    True
    """
    import torch

    before, deterministic = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        torch.use_deterministic_algorithms(True)
        torch.set_num_threads(threads)
        try:
            yield
        finally:
            torch.use_deterministic_algorithms(deterministic)
            torch.set_num_threads(before)
