"""The demo world: short synthetic clips with captions, keypoints and ratings that follow from the known truth.

``build_demo`` writes a data set. ``make_clip`` invents a single clip, ``describe`` tells it in sentences and
``render_frames`` draws it; these three write no file.
"""

from __future__ import annotations

from demo.build import build_demo
from demo.describe import describe
from demo.render import render_frames
from demo.story import make_clip

__all__ = ["build_demo", "describe", "make_clip", "render_frames"]
