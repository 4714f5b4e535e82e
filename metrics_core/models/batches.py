"""Run any model of this process over batches of similar length; the next batch is prepared while a GPU computes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from metrics_core.models.errors import ModelUnusable

RowNumbers = list[int]
# Tokens, padding included, that keep a GPU busy. A CPU gains nothing from more than a few thousand.
GPU_BATCH_TOKENS = 16384


def split_by_tokens(lengths: Sequence[int], max_tokens: int) -> Iterator[RowNumbers]:
    """Yield lists of row numbers, the longest rows first; together they hold every row once. lengths: the number of
    tokens of every row, at least 1. A list has at most `max_tokens` tokens when its rows are padded to the longest; a
    longer row has a list to itself.

    Rows of a batch have similar lengths. The longest come first so that a batch that is too large for the memory fails
    at once.

    >>> list(split_by_tokens([3, 9, 4, 1], max_tokens=8))
    [[1], [2, 0], [3]]
    """
    order = sorted(range(len(lengths)), key=lambda row: -lengths[row])
    start = 0
    while start < len(order):
        size = max(1, max_tokens // lengths[order[start]])
        yield order[start : start + size]
        start += size


def split_by_size(rows: Sequence[int], size: int) -> Iterator[RowNumbers]:
    """Yield the given row numbers in batches of `size`, in their order; the last batch may be smaller."""
    return (list(rows[start : start + size]) for start in range(0, len(rows), size))


def move_to_device(tensor: Any, device: Any) -> Any:
    """Return a tensor of the CPU on the torch device `device`. A copy to a GPU goes through pinned memory and may still
    be under way on return, so that the caller does not wait for it.
    """
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)


def compute_in_batches(
    n: int, batches: Iterable[RowNumbers], compute: Callable[[RowNumbers], Any], memory_message: str = ""
) -> npt.NDArray[Any]:
    """Call `compute` with every batch of row numbers, without gradients, and return all results as float32 (n, ...),
    row i for row number i; (n, 0) without batches. compute: returns a torch tensor with one row per number. Where a GPU
    lacks memory, batches are halved; raises ModelUnusable with `memory_message` where one row is still too much.

    A model that never leaves the CPU needs no `memory_message`.
    """
    computed = np.empty((n, 0), dtype=np.float32)
    waiting: tuple[RowNumbers, Any, Any] | None = None

    def keep(rows: RowNumbers, numbers: Any, done: Any) -> None:
        nonlocal computed
        if done is not None:
            done.synchronize()
        if not computed.size:
            computed = np.empty((n, *numbers.shape[1:]), dtype=np.float32)
        computed[rows] = numbers.numpy()

    for part in _compute_parts(batches, compute, memory_message):
        if waiting is not None:
            keep(*waiting)
        waiting = part
    if waiting is not None:
        keep(*waiting)
    return computed


def _compute_parts(
    batches: Iterable[RowNumbers], compute: Callable[[RowNumbers], Any], memory_message: str
) -> Iterator[tuple[RowNumbers, Any, Any]]:
    """Yield (rows, their numbers on the way to the CPU, the event of their arrival); the event is None on a CPU."""
    import torch

    n_parts = 1
    for rows in batches:
        start = 0
        while start < len(rows):
            part = rows[start : start + -(-len(rows) // n_parts)]
            try:
                with torch.inference_mode():
                    numbers = compute(part).float()
                    arriving = numbers.to("cpu", non_blocking=numbers.is_cuda)
            except torch.OutOfMemoryError:
                if len(part) == 1:
                    raise ModelUnusable(memory_message) from None
                n_parts *= 2
                arriving = None
            if arriving is None:
                # Only now that the error is gone, whose traceback keeps the batch's tensors alive.
                torch.cuda.empty_cache()
                continue
            yield part, arriving, torch.cuda.current_stream().record_event() if numbers.is_cuda else None
            start += len(part)


def explain_lack_of_memory(model: str, row_name: str, setting: str) -> str:
    """Return the error message for a GPU that lacks memory for one row of a model's input, with three remedies.
    row_name: the kind of row, such as "text". setting: the environment variable that sets the model's precision.
    """
    return (
        f"the GPU lacks memory for {model}, even for one {row_name} at a time: set {setting} to bf16, "
        "end other programs on the GPU, or name a smaller model"
    )
