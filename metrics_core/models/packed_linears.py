"""Run linear layers with oneDNN: in float32 as before, at the full speed of every make of CPU."""

from __future__ import annotations

from typing import Any

# Rows that the layout of the weights is chosen for; any other number of rows works too.
LAYOUT_ROWS = 2048


def pack_linears(model: Any) -> Any:
    """Replace the float32 linear layers inside a torch model by layers that oneDNN computes, in place, and return the
    model. They serve inference only; outputs differ by rounding. Layers off the CPU stay as they are, and so do all
    layers where PyTorch comes without oneDNN.

    >>> import torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(8, 3))
    >>> rows = torch.ones(2, 8)
    >>> with torch.inference_mode():
    ...     before = model(rows)
    ...     bool(torch.allclose(pack_linears(model)(rows), before, atol=1e-6))
    True
    """
    import torch

    if not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        return model

    class PackedLinear(torch.nn.Module):
        def __init__(self, layer: Any) -> None:
            super().__init__()
            self.weight = torch.ops.mkldnn._reorder_linear_weight(layer.weight.detach(), LAYOUT_ROWS)
            self.bias = None if layer.bias is None else layer.bias.detach()

        def forward(self, rows: Any) -> Any:
            return torch.ops.mkldnn._linear_pointwise(rows, self.weight, self.bias, "none", [], "")

    for parent in list(model.modules()):
        for name, layer in parent.named_children():
            plain = type(layer) is torch.nn.Linear and layer.weight.dtype == torch.float32
            if plain and layer.weight.device.type == "cpu":
                setattr(parent, name, PackedLinear(layer))
    return model
