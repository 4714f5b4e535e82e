"""Ways in which the folder of a model comes to be broken, by name."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path


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
