"""The loop of all models, where a batch does not fit into the memory of a GPU: fakes refuse large batches."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from metrics_core.models.batches import compute_in_batches, explain_lack_of_memory, split_by_size
from metrics_core.models.errors import ModelUnusable, convert_load_errors


class Narrow:
    """A model that doubles numbers, and has memory for no more than n of them at a time."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.asked: list[int] = []

    def __call__(self, rows: list[int]) -> torch.Tensor:
        self.asked.append(len(rows))
        if len(rows) > self.n:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return torch.tensor([[2 * row, row] for row in rows], dtype=torch.bfloat16)


@given(st.integers(0, 40), st.integers(1, 16), st.integers(1, 16))
def test_every_row_has_its_own_numbers_whatever_fits(n: int, size: int, fits: int) -> None:
    backwards = list(split_by_size(range(n - 1, -1, -1), size))
    computed = compute_in_batches(n, backwards, Narrow(fits), "too small")
    assert computed.dtype == np.float32
    assert computed.tolist() == [[2 * row, row] for row in range(n)]


def test_a_refused_batch_is_halved_and_the_next_ones_are_cut_as_small() -> None:
    narrow = Narrow(3)
    compute_in_batches(24, split_by_size(range(24), 8), narrow, "too small")
    assert narrow.asked == [8, 4, *[2] * 12]


def test_one_row_that_does_not_fit_is_said_in_a_sentence() -> None:
    narrow = Narrow(0)
    with pytest.raises(ModelUnusable) as caught:
        compute_in_batches(
            5,
            split_by_size(range(5), 4),
            narrow,
            explain_lack_of_memory("large-v2", "text", "REELSIEVE_TEXT_ENCODER_PRECISION"),
        )
    assert narrow.asked == [4, 2, 1]
    assert str(caught.value) == (
        "the GPU lacks memory for large-v2, even for one text at a time: set REELSIEVE_TEXT_ENCODER_PRECISION to bf16, "
        "end other programs on the GPU, or name a smaller model"
    )
    with pytest.raises(ModelUnusable, match="end other programs on the GPU"), convert_load_errors("large-v2"):
        raise torch.OutOfMemoryError("CUDA out of memory")
