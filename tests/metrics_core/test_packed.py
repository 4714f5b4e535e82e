"""Packed linear layers say what the plain ones say."""

from __future__ import annotations

import copy

import pytest
import torch

from metrics_core.models.packed_linears import pack_linears


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(1, 24), (7, 24), (3, 11, 24), (0, 24)])
def test_outputs_agree_for_any_number_of_rows(shape: tuple[int, ...], bias: bool) -> None:
    torch.manual_seed(0)
    plain = torch.nn.Sequential(torch.nn.Linear(24, 40, bias=bias), torch.nn.GELU(), torch.nn.Linear(40, 5)).eval()
    packed = pack_linears(copy.deepcopy(plain))
    rows = torch.randn(shape)
    with torch.inference_mode():
        torch.testing.assert_close(packed(rows), plain(rows), rtol=1e-5, atol=1e-6)
    assert not any(type(layer) is torch.nn.Linear for layer in packed.modules())


def test_other_number_types_stay() -> None:
    layer = torch.nn.Linear(4, 2, dtype=torch.bfloat16)
    assert pack_linears(torch.nn.Sequential(layer))[0] is layer
