"""Read how an open_clip image transform resizes and crops."""

from __future__ import annotations

from typing import Any

from metrics_core.frames.fit import PictureFit


def build_fit(preprocess: Any) -> PictureFit:
    """Build the PictureFit that resizes and crops images as open_clip's transform for inference does. preprocess: the
    PreprocessCfg of an open_clip model; an interpolation other than "bilinear" counts as bicubic.
    """
    size = preprocess.size
    height, width = (size, size) if isinstance(size, int) else size
    # As in open_clip: outside training every value but "bilinear" means bicubic, also "random" and None.
    bilinear = preprocess.interpolation == "bilinear"
    return PictureFit(
        height,
        width,
        preprocess.resize_mode or "shortest",
        "bilinear" if bilinear else "bicubic",
        preprocess.fill_color,
    )
