"""A small run of the simulation of draws: values that all ratings give, and fewer ratings where a draw fits."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.sampling import NUMBERS, Captions, needed, of_cuts, of_systems, simulated

VIDEOS = 400


@pytest.fixture(scope="module")
def captions() -> Captions:
    """Two systems, the second better by one; a metric that knows quality well."""
    rng = np.random.default_rng(5)
    video, system = np.repeat(np.arange(VIDEOS), 2), np.tile([0, 1], VIDEOS)
    quality = 3.0 + rng.normal(size=VIDEOS)[video] + system + 0.3 * rng.normal(size=2 * VIDEOS)
    return Captions({"m": quality + 0.5 * rng.normal(size=2 * VIDEOS)}, quality[:, None], video, system)


def test_pairs_tell_systems_apart_sooner_than_captions_at_random(captions: Captions) -> None:
    found = {name: simulated(draw, 20) for name, draw in of_systems(captions, captions.ratings[:, 0], 0, 1).items()}
    means = [captions.ratings[captions.system == system].mean() for system in (0, 1)]
    for each in found.values():
        assert each["value"] == pytest.approx(means[1] - means[0])
        assert min(each["held"].values()) >= 0.7
    assert found["drawn"]["needed"] <= found["random"]["needed"]
    assert found["drawn"]["needed"] < 100


def test_a_draw_between_two_cuts_needs_fewer_ratings(captions: Captions) -> None:
    found = of_cuts(captions, captions.ratings[:, 0], "m", 0.8, 0.9)
    drawn, random = (simulated(found[name], 15)["settled"] for name in ("drawn", "random"))
    assert sum(drawn.values()) > sum(random.values())


def test_what_is_never_reached_has_no_number() -> None:
    assert needed(np.zeros(len(NUMBERS))) is None
    assert needed(np.ones(len(NUMBERS))) == NUMBERS[0]
