"""A few clips of the demo, not rendered."""

from __future__ import annotations

import pytest

from lab.demo.build import make_demo_clips
from lab.demo.systems import Candidate, build_candidates, find_least_similar_clip
from lab.demo.world import DemoClip


@pytest.fixture(scope="session")
def clips() -> list[DemoClip]:
    return list(make_demo_clips(30, 7).values())


@pytest.fixture(scope="session")
def captioned(clips: list[DemoClip]) -> list[tuple[DemoClip, dict[str, Candidate]]]:
    """Each clip with its candidates by system."""
    return [
        (clip, {c.system: c for c in build_candidates(clip, find_least_similar_clip(clips, index))})
        for index, clip in enumerate(clips)
    ]
