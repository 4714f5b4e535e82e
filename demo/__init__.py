"""The demo world: short synthetic clips whose captions, keypoints and ratings are known to be true or false.

``build_demo`` writes a data set; ``make_clip``, ``describe`` and ``render_frames`` give single clips, their
sentences and their frames without any file.
"""

from __future__ import annotations

from demo.build import build_demo
from demo.describe import describe
from demo.render import render_frames
from demo.story import make_clip

__all__ = ["build_demo", "describe", "make_clip", "render_frames"]
