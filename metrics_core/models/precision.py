"""The number type that models compute in: 32 bits, or 16 bits on a GPU where a setting asks for them."""

from __future__ import annotations

from typing import Any

# The names that torch gives them.
DTYPES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}


def choose_precision(precision: str) -> str:
    """Return `precision` ("fp32", "bf16" or "fp16") if this machine has a GPU that CUDA knows, else "fp32"."""
    if precision == "fp32":
        return precision
    import torch

    return precision if torch.cuda.is_available() else "fp32"


def find_torch_dtype(precision: str) -> Any:
    """Return torch's number type for "fp32", "bf16" or "fp16"."""
    import torch

    return getattr(torch, DTYPES[precision])
