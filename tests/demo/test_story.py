"""The story of a clip: repeatable, in order, and always in view."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest

from lab.demo.stage import MIN_CONTRAST, colour_distance, is_in_view
from lab.demo.story import make_clip
from lab.demo.world import BACKDROP_COLOURS, COLOURS, FPS, DemoClip

SEEDS = range(200)


def test_same_seed_same_clip_other_seed_other_clip() -> None:
    assert make_clip(5) == make_clip(5)
    assert len({make_clip(seed).events for seed in range(20)}) == 20


@pytest.mark.parametrize("seed", [0, 7000, 10**12])
def test_events_follow_each_other_without_gap_and_scenes_connect(seed: int) -> None:
    events = make_clip(seed).events
    for earlier, later in pairwise(events):
        assert earlier.end == later.start
        visible = [actor for actor in later.before.actors if actor.visible]
        assert visible == [a for a in earlier.after.actors if a.visible]
        assert later.before.camera == earlier.after.camera


def test_length_and_number_of_events() -> None:
    for seed in SEEDS:
        clip = make_clip(seed)
        assert 10 <= clip.n_frames / FPS <= 16
        assert 8 <= len(clip.events) <= 12
        assert clip.events[-1].end < clip.n_frames


def test_whoever_is_visible_after_an_event_is_inside_the_picture_and_covers_nobody() -> None:
    for seed in SEEDS:
        for event in make_clip(seed).events:
            visible = [actor for actor in event.after.actors if actor.visible]
            assert visible
            assert all(is_in_view(event.after.camera, actor) for actor in visible)
            for index, one in enumerate(visible):
                for two in visible[index + 1 :]:
                    assert math.dist((one.x, one.y), (two.x, two.y)) > one.reach + two.reach


def test_no_two_actors_share_a_shape_or_ever_a_colour() -> None:
    for seed in SEEDS:
        clip = make_clip(seed)
        worn: dict[str, set[str]] = {}
        for event in clip.events:
            for actor in (*event.before.actors, *event.after.actors):
                worn.setdefault(actor.colour, set()).add(actor.shape)
        assert all(len(shapes) == 1 for shapes in worn.values())
        assert len({actor.shape for actor in clip.events[0].before.actors}) == 5


def test_no_event_happens_twice() -> None:
    for seed in SEEDS:
        facts = [moment.statement for moment in make_clip(seed).list_moments()]
        assert len(set(facts)) == len(facts)


def test_actors_stand_out_from_the_backdrop() -> None:
    for seed in SEEDS:
        clip = make_clip(seed)
        for actor in (actor for event in clip.events for actor in event.after.actors):
            for name in clip.palette:
                assert colour_distance(COLOURS[actor.colour], BACKDROP_COLOURS[name]) >= MIN_CONTRAST


def test_stillness_is_told_only_of_a_still_camera() -> None:
    still = 0
    for seed in SEEDS:
        clip = make_clip(seed)
        cameras = {event.after.camera for event in clip.events} | {clip.events[0].before.camera}
        told = any(moment.statement.kind == "static" for moment in clip.list_moments())
        shaken = any(event.statement.kind == "camera_shakes" for event in clip.events)
        assert told == (len(cameras) == 1 and not shaken)
        still += told
    assert 0 < still < len(SEEDS)


def test_every_dimension_but_the_audible_ones_occurs(clips: list[DemoClip]) -> None:
    dimensions = {moment.statement.dimension for clip in clips for moment in clip.list_moments()}
    assert dimensions == {"segment_detail", "video_background", "shooting_style", "camera_state"}
