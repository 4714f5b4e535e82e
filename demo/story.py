"""Invents a clip: a stage, the acts that can happen on it, and one feasible event after another."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from random import Random

from demo.world import (
    BACKDROP_COLOURS,
    COLOURS,
    DIRECTIONS,
    HEIGHT,
    PATTERNS,
    PLACES,
    SHAPES,
    STYLES,
    WIDTH,
    Actor,
    Camera,
    Clip,
    Colour,
    Event,
    Fact,
    Scene,
)

# The stage on which a clip is invented: the scene so far, free places, and events that have already happened.

SIZES = {"small": 8.0, "": 13.0, "large": 20.0}
MIN_CONTRAST = 100.0
SAFE_X, SAFE_Y = WIDTH / 2 - 2, HEIGHT / 2 - 10  # the letterbox takes 10 rows at the top and at the bottom


class Stage:
    """The scene so far, with its random numbers. ``done`` and ``used`` keep events from being repeated."""

    def __init__(self, rng: Random, shapes: list[str], palette: tuple[str, ...], camera_moves: bool) -> None:
        backdrop = [BACKDROP_COLOURS[name] for name in palette]
        clear = [n for n, rgb in COLOURS.items() if min(contrast(rgb, b) for b in backdrop) >= MIN_CONTRAST]
        rng.shuffle(clear)
        self.rng = rng
        self.spare_colours = clear[5:7]
        cast = tuple(Actor(*pair) for pair in zip(rng.sample(shapes, 5), clear[:5], strict=True))
        self.scene = Scene(Camera(), cast)
        self.camera_moves = camera_moves
        self.done: set[tuple[str, int | None]] = set()
        self.used: Counter[str] = Counter()

    def open(self, n_actors: int) -> None:
        """Place the actors that are in view from the first frame on."""
        for index, place in zip(range(n_actors), self.rng.sample(list(PLACES), n_actors), strict=True):
            x, y = PLACES[place]
            self.scene = self.with_actor(index, x=x, y=y, radius=SIZES[""], visible=True)

    @property
    def n_visible(self) -> int:
        """The number of actors in view."""
        return sum(actor.visible for actor in self.scene.actors)

    def with_actor(self, index: int, **changes: object) -> Scene:
        """The current scene with one actor changed."""
        actors = list(self.scene.actors)
        actors[index] = replace(actors[index], **changes)  # type: ignore[arg-type]  # field names are checked at run time
        return replace(self.scene, actors=tuple(actors))

    def is_free(self, index: int, x: float, y: float, reach: float) -> bool:
        """Whether actor ``index`` could stand at (x, y) without covering another or leaving the picture."""
        camera = self.scene.camera
        return in_view(camera, replace(self.scene.actors[index], x=x, y=y, radius=reach, spread=0)) and all(
            math.dist((x, y), (other.x, other.y)) > reach + other.reach + 3
            for other_index, other in enumerate(self.scene.actors)
            if other.visible and other_index != index
        )

    def free_place(self, index: int, reach: float) -> tuple[str, float, float] | None:
        """Choose a random named place that is free for the actor, with its world position; None where none is free."""
        names = list(PLACES)
        self.rng.shuffle(names)
        for name in names:
            x, y = self.scene.camera.to_world(*PLACES[name])
            if self.is_free(index, x, y, reach):
                return name, x, y
        return None

    def beyond(self, edge: str, x: float, y: float, reach: float) -> tuple[float, float]:
        """Find the point outside the picture that lies straight behind ``edge``, seen from (x, y)."""
        camera, (dx, dy) = self.scene.camera, DIRECTIONS[edge]
        edge_x, edge_y = camera.to_world(dx * WIDTH / 2, dy * HEIGHT / 2)
        return (edge_x + dx * reach if dx else x), (edge_y + dy * reach if dy else y)


def in_view(camera: Camera, actor: Actor) -> bool:
    """Whether nine tenths of the actor's height and width lie inside the picture."""
    x, y = camera.to_picture(actor.x, actor.y)
    reach = 0.8 * actor.reach * camera.zoom
    return abs(x) + reach <= SAFE_X and abs(y) + reach <= SAFE_Y


def contrast(one: Colour, two: Colour) -> float:
    """Compute the Euclidean distance of two RGB colours, 0 to 442."""
    return math.dist(one, two)


# The acts of the demo world. An act proposes an event for the stage as it stands, or None when it is not feasible.

MAX_VISIBLE = 4
MIN_RADIUS, MAX_RADIUS = 6.0, 26.0  # on the screen

Act = Callable[[Stage, int], Event | None]


def _enters(stage: Stage, index: int) -> Event | None:
    actor = stage.scene.actors[index]
    if actor.visible or actor.radius or stage.n_visible == MAX_VISIBLE:
        return None
    count = stage.rng.choice((1, 1, 1, 2, 3, 4))
    size = "small" if count > 1 else stage.rng.choice(("", "small", "large"))
    radius = SIZES[size] / stage.scene.camera.zoom
    spread = 1.7 * radius if count > 1 else 0.0
    place, edge = stage.free_place(index, radius + spread), stage.rng.choice(list(DIRECTIONS))
    if place is None:
        return None
    _, x, y = place
    from_x, from_y = stage.beyond(edge, x, y, radius + spread)
    group = {"count": count, "radius": radius, "spread": spread}
    before = stage.with_actor(index, x=from_x, y=from_y, **group)
    after = stage.with_actor(index, x=x, y=y, visible=True, **group)
    return Event(Fact("enters", after.actors[index].looks(size), edge), index, before, after)


def _crosses(stage: Stage, index: int) -> Event | None:
    actor = stage.scene.actors[index]
    if actor.visible or actor.radius:
        return None
    size = stage.rng.choice(("small", "", "large"))
    radius = SIZES[size] / stage.scene.camera.zoom
    y = stage.scene.camera.to_world(0, stage.rng.choice((-40, 0, 40)))[1]
    to, start = stage.rng.choice((("left", "right"), ("right", "left")))
    from_x, to_x = stage.beyond(start, 0, y, radius)[0], stage.beyond(to, 0, y, radius)[0]
    before = stage.with_actor(index, x=from_x, y=y, radius=radius)
    after = stage.with_actor(index, x=to_x, y=y, radius=radius)
    return Event(Fact("crosses", actor.looks(size), to), index, before, after)


def _leaves(stage: Stage, index: int) -> Event | None:
    actor = stage.scene.actors[index]
    if not actor.visible or stage.n_visible < 3:
        return None
    edge = stage.rng.choice(list(DIRECTIONS))
    x, y = stage.beyond(edge, actor.x, actor.y, actor.reach)
    after = stage.with_actor(index, x=x, y=y, visible=False)
    return Event(Fact("leaves", actor.looks(), edge), index, stage.scene, after)


def _fades(stage: Stage, index: int) -> Event | None:
    actor = stage.scene.actors[index]
    if not actor.visible or stage.n_visible < 3:
        return None
    return Event(Fact("fades", actor.looks()), index, stage.scene, stage.with_actor(index, visible=False))


def _travels(kind: str) -> Act:
    def act(stage: Stage, index: int) -> Event | None:
        actor, camera = stage.scene.actors[index], stage.scene.camera
        place = stage.free_place(index, actor.reach) if actor.visible else None
        if place is None or math.dist(place[1:], (actor.x, actor.y)) * camera.zoom < 45:
            return None
        name, x, y = place
        return Event(Fact(kind, actor.looks(), name), index, stage.scene, stage.with_actor(index, x=x, y=y))

    return act


def _resizes(kind: str, factor: float) -> Act:
    def act(stage: Stage, index: int) -> Event | None:
        actor, zoom = stage.scene.actors[index], stage.scene.camera.zoom
        radius = actor.radius * factor
        if not actor.visible or actor.count > 1 or not MIN_RADIUS <= radius * zoom <= MAX_RADIUS:
            return None
        if not stage.is_free(index, actor.x, actor.y, radius):
            return None
        return Event(Fact(kind, actor.looks()), index, stage.scene, stage.with_actor(index, radius=radius))

    return act


def _bounces(stage: Stage, index: int) -> Event | None:
    actor, camera = stage.scene.actors[index], stage.scene.camera
    if not actor.visible or not in_view(camera, replace(actor, y=actor.y - 24 / camera.zoom)):
        return None
    fact = Fact("bounces", actor.looks(), number=stage.rng.choice((2, 3)))
    return Event(fact, index, stage.scene, stage.scene)


def _blinks(stage: Stage, index: int) -> Event | None:
    actor = stage.scene.actors[index]
    fact = Fact("blinks", actor.looks(), number=stage.rng.choice((2, 3)))
    return Event(fact, index, stage.scene, stage.scene) if actor.visible else None


def _in_place(kind: str, excluded: tuple[str, ...] = ()) -> Act:
    def act(stage: Stage, index: int) -> Event | None:
        actor = stage.scene.actors[index]
        if not actor.visible or actor.count > 1 or actor.shape in excluded:
            return None
        return Event(Fact(kind, actor.looks()), index, stage.scene, stage.scene)

    return act


def _recolours(stage: Stage, index: int) -> Event | None:
    actor = stage.scene.actors[index]
    if not actor.visible or not stage.spare_colours:
        return None
    colour = stage.spare_colours.pop()
    after = stage.with_actor(index, colour=colour)
    return Event(Fact("recolours", actor.looks(), colour), index, stage.scene, after)


def _splits(stage: Stage, index: int) -> Event | None:
    actor = stage.scene.actors[index]
    radius = 0.55 * actor.radius
    if not actor.visible or actor.count > 1 or radius * stage.scene.camera.zoom < MIN_RADIUS:
        return None
    number, spread = stage.rng.choice((2, 3, 4)), 1.7 * radius
    if not stage.is_free(index, actor.x, actor.y, radius + spread):
        return None
    after = stage.with_actor(index, count=number, radius=radius, spread=spread)
    return Event(Fact("splits", actor.looks(), number=number), index, stage.scene, after)


def _merges(stage: Stage, index: int) -> Event | None:
    actor = stage.scene.actors[index]
    if not actor.visible or actor.count == 1:
        return None
    after = stage.with_actor(index, count=1, radius=1.6 * actor.radius, spread=0.0)
    return Event(Fact("merges", actor.looks()), index, stage.scene, after)


def _orbits(stage: Stage, index: int) -> Event | None:
    actor, camera = stage.scene.actors[index], stage.scene.camera
    if not actor.visible or actor.count > 1:
        return None
    for other in stage.rng.sample(stage.scene.actors, len(stage.scene.actors)):
        path = replace(other, radius=other.reach + 2 * actor.radius + 4, spread=0)
        if other.visible and other.shape != actor.shape and in_view(camera, path):
            fact = Fact("orbits", actor.looks(), others=(other.looks(),))
            return Event(fact, index, stage.scene, stage.scene)
    return None


ACTS: dict[str, Act] = {
    "enters": _enters,
    "crosses": _crosses,
    "leaves": _leaves,
    "fades": _fades,
    "moves": _travels("moves"),
    "stops": _travels("stops"),
    "grows": _resizes("grows", 1.75),
    "shrinks": _resizes("shrinks", 0.55),
    "bounces": _bounces,
    "blinks": _blinks,
    "spins": _in_place("spins", excluded=("circle", "ring")),
    "trembles": _in_place("trembles"),
    "recolours": _recolours,
    "splits": _splits,
    "merges": _merges,
    "orbits": _orbits,
}


def _camera_event(stage: Stage, fact: Fact, camera: Camera) -> Event | None:
    visible = [actor for actor in stage.scene.actors if actor.visible]
    if not all(in_view(camera, a) and a.radius * camera.zoom >= MIN_RADIUS for a in visible):
        return None
    return Event(fact, None, stage.scene, replace(stage.scene, camera=camera))


def _pans(stage: Stage) -> Event | None:
    camera, side = stage.scene.camera, stage.rng.choice(list(DIRECTIONS))
    dx, dy = DIRECTIONS[side]
    x, y = camera.to_world(28 * dx, 16 * dy)
    return _camera_event(stage, Fact("pans", target=side), replace(camera, x=x, y=y))


def _zooms(kind: str, factor: float) -> Callable[[Stage], Event | None]:
    def act(stage: Stage) -> Event | None:
        zoom = stage.scene.camera.zoom * factor
        if not 0.65 < zoom < 1.5:
            return None
        return _camera_event(stage, Fact(kind), replace(stage.scene.camera, zoom=zoom))

    return act


def _camera_shakes(stage: Stage) -> Event | None:
    return _camera_event(stage, Fact("camera_shakes"), stage.scene.camera)


CAMERA_ACTS: dict[str, Callable[[Stage], Event | None]] = {
    "pans": _pans,
    "zooms_in": _zooms("zooms_in", 1.35),
    "zooms_out": _zooms("zooms_out", 1 / 1.35),
    "camera_shakes": _camera_shakes,
}


INTRO_FRAMES, OUTRO_FRAMES = 20, 14


def make_clip(seed: int) -> Clip:
    """Invent one clip of 10 to 16 seconds. The same seed always gives the same clip.

    >>> clip = make_clip(1)
    >>> clip == make_clip(1), 150 <= clip.n_frames <= 240, 8 <= len(clip.events) <= 12
    (True, True, True)
    """
    rng = Random(f"clip/{seed}")
    pattern, style = rng.choice(PATTERNS), rng.choice(STYLES)
    palette = _palette(rng, 1 if pattern == "plain" else 2)
    shapes = [s for s in SHAPES if not (s == "circle" and pattern == "polka dots")]
    stage = Stage(rng, shapes, palette, camera_moves=rng.random() < 0.75)
    stage.open(rng.choice((1, 1, 2)))
    n_events = rng.randint(8, 12)
    start, events = INTRO_FRAMES, []
    for _ in range(n_events):
        event = next_event(stage)
        end = start + rng.randint(15, min(19, 206 // n_events))
        events.append(replace(event, start=start, end=end))
        start = end
    return Clip(seed, pattern, palette, style, tuple(events), start + OUTRO_FRAMES)


def next_event(stage: Stage) -> Event:
    """Choose a feasible event, preferring kinds that the clip has not shown yet, and bring it onto the stage.

    Raises:
        RuntimeError: no event is feasible. This happens for no seed from 0 to 9,999.
    """
    choices: list[tuple[str, int | None]] = [(kind, i) for kind in ACTS for i in range(len(stage.scene.actors))]
    choices = [choice for choice in choices if choice not in stage.done]
    if stage.camera_moves:
        choices += [(kind, None) for kind in CAMERA_ACTS if stage.used[kind] == 0] * 3
    while choices:
        kind, index = stage.rng.choices(choices, [_weight(stage, kind) for kind, _ in choices])[0]
        event = CAMERA_ACTS[kind](stage) if index is None else ACTS[kind](stage, index)
        if event is not None:
            stage.scene = event.after
            stage.done.add((kind, index))
            stage.used[kind] += 1
            return event
        choices = [choice for choice in choices if choice != (kind, index)]
    raise RuntimeError("the demo story has no feasible event left: shorten the clip or enlarge the cast")


def _weight(stage: Stage, kind: str) -> float:
    hurry = 4.0 if kind == "enters" and stage.n_visible < 3 else 1.0
    return float(hurry * 0.2 ** stage.used[kind])


def _palette(rng: Random, n: int) -> tuple[str, ...]:
    first = rng.choice(list(BACKDROP_COLOURS))
    partners = [
        name for name, rgb in BACKDROP_COLOURS.items() if contrast(rgb, BACKDROP_COLOURS[first]) >= MIN_CONTRAST
    ]
    return (first, rng.choice(partners))[:n]
