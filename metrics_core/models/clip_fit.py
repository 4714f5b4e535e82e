"""The part of an open_clip transform that resizes and crops."""

from __future__ import annotations

from typing import Any

from metrics_core.frames.fit import PictureFit


def build_fit(preprocess: Any) -> PictureFit:
    """How the transform for inference of an open_clip PreprocessCfg resizes and crops a picture."""
    size = preprocess.size
    height, width = (size, size) if isinstance(size, int) else size
    # As open_clip reads it: whatever is not bilinear, "random" and none at all too, is bicubic outside training.
    bilinear = preprocess.interpolation == "bilinear"
    return PictureFit(
        height,
        width,
        preprocess.resize_mode or "shortest",
        "bilinear" if bilinear else "bicubic",
        preprocess.fill_color,
    )
