"""A tiny image-text encoder that knows the demo world and nothing else; RECORD.md tells how it was trained."""

from __future__ import annotations

from pathlib import Path

from metrics_core.models.clip_encoder import OpenClipEncoder

FOLDER = Path(__file__).parent
CONFIGURATION, WEIGHTS = "demo_clip.json", "demo_clip.safetensors"

__all__ = ["demo_encoder"]


def demo_encoder(folder: Path = FOLDER) -> OpenClipEncoder:
    """The encoder of the demo, or one that `demo.encoder.train` wrote to another folder; loaded at its first use."""
    return OpenClipEncoder(str(folder / CONFIGURATION), str(folder / WEIGHTS), name="demo encoder")
