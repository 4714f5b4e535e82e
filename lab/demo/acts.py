"""The acts of the demo world: each act proposes an event for the present stage, or None if it is not possible."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from lab.demo.stage import SIZES, Stage, is_in_view
from lab.demo.world import (
    DIRECTIONS,
    Camera,
    ClipStatement,
    Event,
)

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
    place, edge = stage.choose_free_place(index, radius + spread), stage.rng.choice(list(DIRECTIONS))
    if place is None:
        return None
    _, x, y = place
    from_x, from_y = stage.compute_offscreen_point(edge, x, y, radius + spread)
    group = {"count": count, "radius": radius, "spread": spread}
    before = stage.replace_actor(index, x=from_x, y=from_y, **group)
    after = stage.replace_actor(index, x=x, y=y, visible=True, **group)
    return Event(ClipStatement("enters", after.actors[index].build_looks(size), edge), index, before, after)


def _crosses(stage: Stage, index: int) -> Event | None:
    actor = stage.scene.actors[index]
    if actor.visible or actor.radius:
        return None
    size = stage.rng.choice(("small", "", "large"))
    radius = SIZES[size] / stage.scene.camera.zoom
    y = stage.scene.camera.convert_to_world(0, stage.rng.choice((-40, 0, 40)))[1]
    to, start = stage.rng.choice((("left", "right"), ("right", "left")))
    from_x, to_x = (
        stage.compute_offscreen_point(start, 0, y, radius)[0],
        stage.compute_offscreen_point(to, 0, y, radius)[0],
    )
    before = stage.replace_actor(index, x=from_x, y=y, radius=radius)
    after = stage.replace_actor(index, x=to_x, y=y, radius=radius)
    return Event(ClipStatement("crosses", actor.build_looks(size), to), index, before, after)


def _leaves(stage: Stage, index: int) -> Event | None:
    actor = stage.scene.actors[index]
    if not actor.visible or stage.n_visible < 3:
        return None
    edge = stage.rng.choice(list(DIRECTIONS))
    x, y = stage.compute_offscreen_point(edge, actor.x, actor.y, actor.reach)
    after = stage.replace_actor(index, x=x, y=y, visible=False)
    return Event(ClipStatement("leaves", actor.build_looks(), edge), index, stage.scene, after)


def _fades(stage: Stage, index: int) -> Event | None:
    actor = stage.scene.actors[index]
    if not actor.visible or stage.n_visible < 3:
        return None
    return Event(
        ClipStatement("fades", actor.build_looks()), index, stage.scene, stage.replace_actor(index, visible=False)
    )


def _make_travel_act(kind: str) -> Act:
    def act(stage: Stage, index: int) -> Event | None:
        actor, camera = stage.scene.actors[index], stage.scene.camera
        place = stage.choose_free_place(index, actor.reach) if actor.visible else None
        if place is None or math.dist(place[1:], (actor.x, actor.y)) * camera.zoom < 45:
            return None
        name, x, y = place
        return Event(
            ClipStatement(kind, actor.build_looks(), name), index, stage.scene, stage.replace_actor(index, x=x, y=y)
        )

    return act


def _make_resize_act(kind: str, factor: float) -> Act:
    def act(stage: Stage, index: int) -> Event | None:
        actor, zoom = stage.scene.actors[index], stage.scene.camera.zoom
        radius = actor.radius * factor
        if not actor.visible or actor.count > 1 or not MIN_RADIUS <= radius * zoom <= MAX_RADIUS:
            return None
        if not stage.is_free(index, actor.x, actor.y, radius):
            return None
        return Event(
            ClipStatement(kind, actor.build_looks()), index, stage.scene, stage.replace_actor(index, radius=radius)
        )

    return act


def _bounces(stage: Stage, index: int) -> Event | None:
    actor, camera = stage.scene.actors[index], stage.scene.camera
    if not actor.visible or not is_in_view(camera, replace(actor, y=actor.y - 24 / camera.zoom)):
        return None
    statement = ClipStatement("bounces", actor.build_looks(), number=stage.rng.choice((2, 3)))
    return Event(statement, index, stage.scene, stage.scene)


def _blinks(stage: Stage, index: int) -> Event | None:
    actor = stage.scene.actors[index]
    statement = ClipStatement("blinks", actor.build_looks(), number=stage.rng.choice((2, 3)))
    return Event(statement, index, stage.scene, stage.scene) if actor.visible else None


def _make_in_place_act(kind: str, excluded: tuple[str, ...] = ()) -> Act:
    def act(stage: Stage, index: int) -> Event | None:
        actor = stage.scene.actors[index]
        if not actor.visible or actor.count > 1 or actor.shape in excluded:
            return None
        return Event(ClipStatement(kind, actor.build_looks()), index, stage.scene, stage.scene)

    return act


def _recolours(stage: Stage, index: int) -> Event | None:
    actor = stage.scene.actors[index]
    if not actor.visible or not stage.spare_colours:
        return None
    colour = stage.spare_colours.pop()
    after = stage.replace_actor(index, colour=colour)
    return Event(ClipStatement("recolours", actor.build_looks(), colour), index, stage.scene, after)


def _splits(stage: Stage, index: int) -> Event | None:
    actor = stage.scene.actors[index]
    radius = 0.55 * actor.radius
    if not actor.visible or actor.count > 1 or radius * stage.scene.camera.zoom < MIN_RADIUS:
        return None
    number, spread = stage.rng.choice((2, 3, 4)), 1.7 * radius
    if not stage.is_free(index, actor.x, actor.y, radius + spread):
        return None
    after = stage.replace_actor(index, count=number, radius=radius, spread=spread)
    return Event(ClipStatement("splits", actor.build_looks(), number=number), index, stage.scene, after)


def _merges(stage: Stage, index: int) -> Event | None:
    actor = stage.scene.actors[index]
    if not actor.visible or actor.count == 1:
        return None
    after = stage.replace_actor(index, count=1, radius=1.6 * actor.radius, spread=0.0)
    return Event(ClipStatement("merges", actor.build_looks()), index, stage.scene, after)


def _orbits(stage: Stage, index: int) -> Event | None:
    actor, camera = stage.scene.actors[index], stage.scene.camera
    if not actor.visible or actor.count > 1:
        return None
    for other in stage.rng.sample(stage.scene.actors, len(stage.scene.actors)):
        path = replace(other, radius=other.reach + 2 * actor.radius + 4, spread=0)
        if other.visible and other.shape != actor.shape and is_in_view(camera, path):
            statement = ClipStatement("orbits", actor.build_looks(), others=(other.build_looks(),))
            return Event(statement, index, stage.scene, stage.scene)
    return None


ACTS: dict[str, Act] = {
    "enters": _enters,
    "crosses": _crosses,
    "leaves": _leaves,
    "fades": _fades,
    "moves": _make_travel_act("moves"),
    "stops": _make_travel_act("stops"),
    "grows": _make_resize_act("grows", 1.75),
    "shrinks": _make_resize_act("shrinks", 0.55),
    "bounces": _bounces,
    "blinks": _blinks,
    "spins": _make_in_place_act("spins", excluded=("circle", "ring")),
    "trembles": _make_in_place_act("trembles"),
    "recolours": _recolours,
    "splits": _splits,
    "merges": _merges,
    "orbits": _orbits,
}


def _build_camera_event(stage: Stage, statement: ClipStatement, camera: Camera) -> Event | None:
    visible = [actor for actor in stage.scene.actors if actor.visible]
    if not all(is_in_view(camera, a) and a.radius * camera.zoom >= MIN_RADIUS for a in visible):
        return None
    return Event(statement, None, stage.scene, replace(stage.scene, camera=camera))


def _pans(stage: Stage) -> Event | None:
    camera, side = stage.scene.camera, stage.rng.choice(list(DIRECTIONS))
    dx, dy = DIRECTIONS[side]
    x, y = camera.convert_to_world(28 * dx, 16 * dy)
    return _build_camera_event(stage, ClipStatement("pans", target=side), replace(camera, x=x, y=y))


def _make_zoom_act(kind: str, factor: float) -> Callable[[Stage], Event | None]:
    def act(stage: Stage) -> Event | None:
        zoom = stage.scene.camera.zoom * factor
        if not 0.65 < zoom < 1.5:
            return None
        return _build_camera_event(stage, ClipStatement(kind), replace(stage.scene.camera, zoom=zoom))

    return act


def _camera_shakes(stage: Stage) -> Event | None:
    return _build_camera_event(stage, ClipStatement("camera_shakes"), stage.scene.camera)


CAMERA_ACTS: dict[str, Callable[[Stage], Event | None]] = {
    "pans": _pans,
    "zooms_in": _make_zoom_act("zooms_in", 1.35),
    "zooms_out": _make_zoom_act("zooms_out", 1 / 1.35),
    "camera_shakes": _camera_shakes,
}
