"""A tiny image-text encoder that knows only the demo world. RECORD.md describes how it was trained."""

from __future__ import annotations

from pathlib import Path

from metrics_core.models.clip_encoder import OpenClipEncoder

FOLDER = Path(__file__).parent
CONFIGURATION, WEIGHTS = "demo_clip.json", "demo_clip.safetensors"

__all__ = ["make_demo_encoder"]


def make_demo_encoder(folder: Path = FOLDER) -> OpenClipEncoder:
    """Return the demo's image-text encoder, which knows only drawn shapes. Its first use loads the weights. folder:
    where its files are; `lab.encoder.train` may have written others there.
    """
    return OpenClipEncoder(str(folder / CONFIGURATION), str(folder / WEIGHTS), name="demo encoder")
