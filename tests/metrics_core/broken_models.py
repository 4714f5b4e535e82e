"""Ways in which the folder of a model comes to be broken, by name; and too little memory for one."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from metrics_core.models.errors import ModelUnusable


def _without_tokenizer(folder: Path) -> None:
    for pattern in ("*token*", "vocab*"):
        for file in folder.glob(pattern):
            file.unlink()


def _cut_weights(folder: Path) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:500])


BREAKS: dict[str, Callable[[Path], object]] = {
    "an empty config.json": lambda folder: (folder / "config.json").write_text(""),
    "a config.json of no model": lambda folder: (folder / "config.json").write_text("{}"),
    "weights cut short": _cut_weights,
    "no weights": lambda folder: (folder / "model.safetensors").unlink(),
    "no tokenizer": _without_tokenizer,
    "a broken tokenizer": lambda folder: (folder / "tokenizer.json").write_text("{"),
    "an empty folder": lambda folder: (shutil.rmtree(folder), folder.mkdir()),
    "a file in its place": lambda folder: (shutil.rmtree(folder), folder.touch()),
}


def broken(source: Path, to: Path, how: str) -> Path:
    """A copy of a model's folder that is broken in one of these ways."""
    shutil.copytree(source, to)
    BREAKS[how](to)
    return to


def assert_halves_batches(module: Any, run: Callable[[], Any], setting: str) -> None:
    """A model gives the same where its module has memory for one row; where for none, a sentence names the setting."""
    import torch

    fits = 1

    def refuse(_: Any, args: tuple[Any, ...], given: dict[str, Any]) -> None:
        first = args[0] if args else given
        if len(first["input_ids"] if isinstance(first, Mapping) else first) > fits:
            raise torch.OutOfMemoryError("CUDA out of memory")

    whole = run()
    handle = module.register_forward_pre_hook(refuse, with_kwargs=True)
    try:
        np.testing.assert_allclose(run(), whole, atol=1e-5)
        fits = 0
        with pytest.raises(ModelUnusable, match=f"for one .* at a time: set {setting} to bf16"):
            run()
    finally:
        handle.remove()
