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


def _pickle_weights(folder: Path) -> None:
    import torch
    from safetensors.torch import load_file

    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


BREAKS: dict[str, Callable[[Path], object]] = {
    "an empty config.json": lambda folder: (folder / "config.json").write_text(""),
    "a config.json of no model": lambda folder: (folder / "config.json").write_text("{}"),
    "weights cut short": _cut_weights,
    "no weights": lambda folder: (folder / "model.safetensors").unlink(),
    "weights in pickle": _pickle_weights,
    "no tokenizer": _without_tokenizer,
    "a broken tokenizer": lambda folder: (folder / "tokenizer.json").write_text("{"),
    "an empty folder": lambda folder: (shutil.rmtree(folder), folder.mkdir()),
    "a file in its place": lambda folder: (shutil.rmtree(folder), folder.touch()),
}


def assert_names_broken_folder(source: Path, to: Path, how: str, use: Callable[[str], object]) -> None:
    """A copy of a model's folder that is broken in one of these ways is named in one sentence when it is used."""
    shutil.copytree(source, to)
    BREAKS[how](to)
    with pytest.raises(ModelUnusable) as caught:
        use(str(to))
    assert str(caught.value).startswith(f"model {to} ")
    assert "\n" not in str(caught.value)
    assert "safetensors" in str(caught.value) or how != "weights in pickle"


def spoil_word(folder: Path, row: int) -> Path:
    """Make the embedding of one word of a model in this folder not finite; returns the folder."""
    import torch
    from safetensors.torch import load_file, save_file

    weights = load_file(folder / "model.safetensors")
    name = next(name for name in weights if name.endswith("word_embeddings.weight"))
    weights[name][row] = torch.nan
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


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
