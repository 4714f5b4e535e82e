"""Invents a clip: a stage, the acts that are possible on it, and one event after another."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from lab.demo.acts import ACTS, CAMERA_ACTS
from lab.demo.stage import MIN_CONTRAST, Stage, colour_distance
from lab.demo.world import (
    BACKDROP_COLOURS,
    PATTERNS,
    SHAPES,
    STYLES,
    DemoClip,
    Event,
)

INTRO_FRAMES, OUTRO_FRAMES = 20, 14


def make_clip(seed: int) -> DemoClip:
    """Return an invented clip of 10 to 16 seconds with 8 to 12 events, not drawn yet. The same seed always gives the
    same clip.

    >>> clip = make_clip(1)
    >>> clip == make_clip(1), 150 <= clip.n_frames <= 240, 8 <= len(clip.events) <= 12
    (True, True, True)
    """
    rng = Random(f"clip/{seed}")
    pattern, style = rng.choice(PATTERNS), rng.choice(STYLES)
    palette = _palette(rng, 1 if pattern == "plain" else 2)
    shapes = [s for s in SHAPES if not (s == "circle" and pattern == "polka dots")]
    stage = Stage(rng, shapes, palette, camera_moves=rng.random() < 0.75)
    stage.place_first_actors(rng.choice((1, 1, 2)))
    n_events = rng.randint(8, 12)
    start, events = INTRO_FRAMES, []
    for _ in range(n_events):
        event = choose_next_event(stage)
        end = start + rng.randint(15, min(19, 206 // n_events))
        events.append(replace(event, start=start, end=end))
        start = end
    return DemoClip(seed, pattern, palette, style, tuple(events), start + OUTRO_FRAMES)


def choose_next_event(stage: Stage) -> Event:
    """Return a random event that is possible on the stage, and change the stage as the event does. Kinds of events that
    the clip has not shown yet are preferred. The event has no frames yet (start and end are 0).

    Raises:
        RuntimeError: no event is feasible. This happens for no seed from 0 to 9,999.
    """
    choices: list[tuple[str, int | None]] = [(kind, i) for kind in ACTS for i in range(len(stage.scene.actors))]
    choices = [choice for choice in choices if choice not in stage.played_acts]
    if stage.camera_moves:
        choices += [(kind, None) for kind in CAMERA_ACTS if stage.n_played[kind] == 0] * 3
    while choices:
        kind, index = stage.rng.choices(choices, [_weight(stage, kind) for kind, _ in choices])[0]
        event = CAMERA_ACTS[kind](stage) if index is None else ACTS[kind](stage, index)
        if event is not None:
            stage.scene = event.after
            stage.played_acts.add((kind, index))
            stage.n_played[kind] += 1
            return event
        choices = [choice for choice in choices if choice != (kind, index)]
    raise RuntimeError("the demo story has no feasible event left: shorten the clip or enlarge the cast")


def _weight(stage: Stage, kind: str) -> float:
    hurry = 4.0 if kind == "enters" and stage.n_visible < 3 else 1.0
    return float(hurry * 0.2 ** stage.n_played[kind])


def _palette(rng: Random, n: int) -> tuple[str, ...]:
    first = rng.choice(list(BACKDROP_COLOURS))
    partners = [
        name for name, rgb in BACKDROP_COLOURS.items() if colour_distance(rgb, BACKDROP_COLOURS[first]) >= MIN_CONTRAST
    ]
    return (first, rng.choice(partners))[:n]
