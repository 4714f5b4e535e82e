"""Makes training repeatable: the same settings give the same weights on the same machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def repeatable(seed: int, threads: int) -> Iterator[None]:
    """Seed torch and fix the order of its sums on `threads` threads. The former state comes back at the end.

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
