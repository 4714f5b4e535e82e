"""The number type that models compute in: half of it on a GPU, where a setting asks for it."""

from __future__ import annotations

from typing import Any


def precision_in_use(precision: str) -> str:
    """`precision` ("fp32", "bf16" or "fp16") on a GPU; on a CPU always "fp32"."""
    if precision == "fp32":
        return precision
    import torch

    return precision if torch.cuda.is_available() else "fp32"


def torch_dtype(precision: str) -> Any:
    """The type of torch behind a name of `precision_in_use`."""
    import torch

    return {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[precision]
