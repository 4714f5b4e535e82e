"""A few clips of the demo, not rendered."""

from __future__ import annotations

import pytest

from demo.build import demo_clips
from demo.systems import Candidate, candidates, least_alike
from demo.world import Clip


@pytest.fixture(scope="session")
def clips() -> list[Clip]:
    return list(demo_clips(30, 7).values())


@pytest.fixture(scope="session")
def captioned(clips: list[Clip]) -> list[tuple[Clip, dict[str, Candidate]]]:
    """Each clip with its candidates by system."""
    return [
        (clip, {c.system: c for c in candidates(clip, least_alike(clips, index))}) for index, clip in enumerate(clips)
    ]
