"""The image-text encoder that the settings name: the demo's own, or any of open_clip."""

from __future__ import annotations

from functools import lru_cache

from metrics_core.models.clip_encoder import OpenClipEncoder

DEMO = "demo"
DEMO_DATASET = "demo"


@lru_cache(maxsize=4)
def make_image_text_encoder(architecture: str, checkpoint: str, precision: str) -> OpenClipEncoder:
    """The encoder of the settings, one per process: `demo`, or an open_clip architecture with its checkpoint."""
    if architecture == DEMO:
        from demo.encoder import demo_encoder

        return demo_encoder()
    return OpenClipEncoder(architecture, checkpoint, precision=precision)
