"""What the text says can be seen: checked in the pixels of frames before, during and after an event."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from lab.demo.outlines import OUTLINES, signed_distance
from lab.demo.render import Frame, compute_view, render_frames
from lab.demo.story import make_clip
from lab.demo.world import COLOURS, HEIGHT, SHAPES, WIDTH, DemoClip, Event

UNSHADED = ("letterbox", "border")


def n_pixels(frame: Frame, colour: str) -> int:
    """How many pixels have the fill colour of an actor."""
    return int((np.abs(frame.astype(int) - COLOURS[colour]).max(axis=2) <= 12).sum())


def found(kind: str, limit: int = 4) -> list[tuple[DemoClip, Event]]:
    """Events of one kind in clips whose colours no style shades."""
    events_found = []
    for seed in range(2000):
        clip = make_clip(seed)
        # White and black occur in the border and in the letterbox too.
        events = [e for e in clip.events if e.statement.kind == kind]
        if clip.style in UNSHADED and events and not {"white", "black"} & set(colours_of(clip)):
            events_found.append((clip, events[0]))
            if len(events_found) == limit:
                break
    return events_found


def seen(kind: str, limit: int = 4) -> list[tuple[Event, list[Frame]]]:
    """The same events, each with all frames of its clip."""
    return [(event, list(render_frames(clip))) for clip, event in found(kind, limit)]


def colours_of(clip: DemoClip) -> list[str]:
    return [actor.colour for event in clip.events for actor in event.after.actors]


def test_frames_have_the_promised_number_size_and_type() -> None:
    clip = make_clip(3)
    frames = list(render_frames(clip))
    assert len(frames) == clip.n_frames
    assert {(f.shape, f.dtype.name) for f in frames} == {((HEIGHT, WIDTH, 3), "uint8")}


def test_rendering_repeats_exactly() -> None:
    for one, two in zip(render_frames(make_clip(4)), render_frames(make_clip(4)), strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("kind", ["enters", "leaves", "fades"])
def test_who_enters_is_absent_before_and_who_leaves_is_absent_after(kind: str) -> None:
    for event, frames in seen(kind):
        assert event.statement.subject is not None
        before, after = (n_pixels(frames[i], event.statement.subject.colour) for i in (event.start - 1, event.end))
        assert (before == 0) == (kind == "enters")
        assert (after == 0) == (kind != "enters")


def test_who_enters_comes_from_the_named_edge() -> None:
    for event, frames in seen("enters", limit=6):
        assert event.statement.subject is not None
        strips = {
            "left": (slice(None), slice(0, 40)),
            "right": (slice(None), slice(-40, None)),
            "top": (slice(0, 40), slice(None)),
            "bottom": (slice(-40, None), slice(None)),
        }
        first = next(f for f in frames if n_pixels(f, event.statement.subject.colour))
        whole = n_pixels(first, event.statement.subject.colour)
        assert n_pixels(first[strips[event.statement.target]], event.statement.subject.colour) == whole


def test_who_crosses_is_seen_only_meanwhile() -> None:
    for event, frames in seen("crosses"):
        assert event.statement.subject is not None
        shown = [n_pixels(f, event.statement.subject.colour) > 0 for f in frames]
        assert any(shown[event.start : event.end])
        assert not any(shown[: event.start] + shown[event.end :])


def test_growing_and_shrinking_change_the_area() -> None:
    for kind, low, high in (("grows", 2.0, 5.0), ("shrinks", 0.1, 0.45)):
        for event, frames in seen(kind):
            assert event.statement.subject is not None
            before, after = (n_pixels(frames[i], event.statement.subject.colour) for i in (event.start - 1, event.end))
            assert low < after / before < high


def test_a_new_colour_replaces_the_old_one() -> None:
    for event, frames in seen("recolours"):
        assert event.statement.subject is not None
        old, new = event.statement.subject.colour, event.statement.target
        assert n_pixels(frames[event.start - 1], old) > 0 == n_pixels(frames[event.start - 1], new)
        assert n_pixels(frames[event.end], new) > 0 == n_pixels(frames[event.end], old)


def test_blinking_hides_the_actor_as_often_as_told() -> None:
    for event, frames in seen("blinks"):
        assert event.statement.subject is not None
        shown = [n_pixels(f, event.statement.subject.colour) > 0 for f in frames[event.start : event.end + 1]]
        assert sum(now and not then for now, then in pairwise(shown)) == event.statement.number


def test_bouncing_lifts_the_actor_as_often_as_told() -> None:
    for clip, event in found("bounces"):
        assert event.statement.subject is not None
        heights = [
            min(s.y for s in compute_view(clip, frame)[1] if s.shape == event.statement.subject.shape)
            for frame in range(event.start - 1, event.end + 1)
        ]
        peaks = sum(b < a and b <= c for a, b, c in zip(heights, heights[1:], heights[2:], strict=False))
        assert peaks == event.statement.number


def test_splitting_leaves_the_told_number_of_separate_pieces() -> None:
    for clip, event in found("splits"):
        assert event.statement.subject is not None
        pieces = [s for s in compute_view(clip, event.end)[1] if s.shape == event.statement.subject.shape]
        if clip.events[-1] is event or all(e.actor != event.actor or e is event for e in clip.events):
            assert len(pieces) == event.statement.number
        for i, one in enumerate(pieces):
            assert all(np.hypot(one.x - two.x, one.y - two.y) > 2 * one.radius for two in pieces[i + 1 :])


def test_zooming_and_panning_move_the_whole_picture() -> None:
    for kind in ("pans", "zooms_in", "zooms_out"):
        for clip, event in found(kind, limit=3):
            before, after = compute_view(clip, event.start - 1)[0], compute_view(clip, event.end - 1)[0]
            if kind == "pans":
                axis, sign = {"left": (0, -1), "right": (0, 1), "top": (1, -1), "bottom": (1, 1)}[
                    event.statement.target
                ]
                moved = (after.x - before.x, after.y - before.y)
                assert moved[axis] * sign > 10
                assert moved[1 - axis] == 0
            else:
                assert (after.zoom > before.zoom) == (kind == "zooms_in")


def test_styles_change_the_frame() -> None:
    edges: dict[str, Frame] = {}
    for seed in range(40):
        clip = make_clip(seed)
        edges.setdefault(clip.style, next(iter(render_frames(clip))))
    assert edges["letterbox"][:10].max() == edges["letterbox"][-10:].max() == 0
    assert edges["border"][:4].min() == edges["border"][:, -4:].min() == 255
    assert edges["vignette"][0, 0].max() < edges["vignette"][HEIGHT // 2, 0].max()
    assert (edges["scanlines"][3::4].mean() < edges["scanlines"][2::4].mean() * 0.8).all()


def test_shapes_differ_and_fit_their_circle() -> None:
    assert set(OUTLINES) == set(SHAPES)
    grid = np.arange(-30, 31, dtype=np.float32)
    masks = {name: signed_distance(name, grid[None, :], grid[:, None], 20) < 0 for name in SHAPES}
    far = np.hypot(grid[None, :], grid[:, None]) > 24
    for name, mask in masks.items():
        assert mask.sum() > 300, name
        assert not (mask & far).any(), name
    assert len({mask.tobytes() for mask in masks.values()}) == len(SHAPES)
