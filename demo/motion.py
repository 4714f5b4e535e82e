"""Computes where everything is in a frame: at rest, or on the way from the scene before an event to the scene after."""

from __future__ import annotations

import math
from dataclasses import dataclass

from demo.world import COLOURS, Actor, Camera, Clip, Event, Scene


@dataclass(frozen=True)
class Sprite:
    """One shape to draw, in world coordinates. ``colour`` is RGB, 0 to 255; ``alpha`` lies in 0 to 1."""

    shape: str
    colour: tuple[float, ...]
    x: float
    y: float
    radius: float
    rotation: float = 0.0
    alpha: float = 1.0


def view_at(clip: Clip, frame: int) -> tuple[Camera, list[Sprite]]:
    """The camera and the sprites of one frame. The sprites of the acting actor come last, so they are in front."""
    current = next((e for e in clip.events if e.start <= frame < e.end), None)
    if current is None:
        scene = clip.events[0].before if frame < clip.events[0].start else clip.events[-1].after
        return scene.camera, _resting(scene)
    progress = (frame - current.start + 1) / (current.end - current.start)
    acting = [] if current.actor is None else _acting(current, progress)
    return _camera(current, progress), _resting(current.before, current.actor) + acting


def _resting(scene: Scene, skip: int | None = None) -> list[Sprite]:
    return [
        sprite
        for index, actor in enumerate(scene.actors)
        if actor.visible and index != skip
        for sprite in _pieces(actor.count, actor, COLOURS[actor.colour], 0.0, 1.0)
    ]


def _camera(event: Event, progress: float) -> Camera:
    one, two, way = event.before.camera, event.after.camera, _ease(progress)
    shake = 4 * math.sin(10 * math.pi * progress) if event.fact.kind == "camera_shakes" else 0.0
    zoom = one.zoom * (two.zoom / one.zoom) ** way
    return Camera(_mix(one.x, two.x, way) + shake / zoom, _mix(one.y, two.y, way) - 0.6 * shake / zoom, zoom)


def _acting(event: Event, progress: float) -> list[Sprite]:
    assert event.actor is not None
    kind, one, two = event.fact.kind, event.before.actors[event.actor], event.after.actors[event.actor]
    alpha, rotation = 1.0, 0.0
    if kind == "blinks" and progress * event.fact.number % 1 > 0.5:
        return []
    if kind == "fades":
        alpha = 1 - progress
    if kind == "spins":
        rotation = -2 * math.pi * _ease(progress)
    way = min(1.0, progress / 0.45) if kind == "stops" else progress if kind == "crosses" else _ease(progress)
    dx, dy = _detour(event, one, progress)
    pose = Actor(
        one.shape,
        one.colour,
        x=_mix(one.x, two.x, way) + dx,
        y=_mix(one.y, two.y, way) + dy,
        radius=_mix(one.radius, two.radius, way),
        spread=_mix(one.spread, two.spread, way),
    )
    colour = tuple(_mix(a, b, way) for a, b in zip(COLOURS[one.colour], COLOURS[two.colour], strict=True))
    return _pieces(max(one.count, two.count), pose, colour, rotation, alpha)


def _detour(event: Event, actor: Actor, progress: float) -> tuple[float, float]:
    """The acting actor's offset from the straight way."""
    zoom = event.before.camera.zoom
    if event.fact.kind == "bounces":
        return 0.0, -24 / zoom * abs(math.sin(event.fact.number * math.pi * progress))
    if event.fact.kind == "trembles":
        return 5 / zoom * math.sin(12 * math.pi * progress + 0.4) * (progress < 1), 0.0
    if event.fact.kind == "orbits":
        named = event.fact.others[0]
        other = next(a for a in event.before.actors if a.shape == named.shape)
        far = math.dist((actor.x, actor.y), (other.x, other.y))
        near = min(far, other.reach + actor.radius + 4)
        distance = _mix(far, near, _ease(min(1.0, 4 * min(progress, 1 - progress))))
        angle = math.atan2(actor.y - other.y, actor.x - other.x) + 2 * math.pi * progress
        return other.x + distance * math.cos(angle) - actor.x, other.y + distance * math.sin(angle) - actor.y
    return 0.0, 0.0


def _pieces(count: int, pose: Actor, colour: tuple[float, ...], rotation: float, alpha: float) -> list[Sprite]:
    first = {3: 1.5, 4: 0.25}.get(count, 0.0)  # three stand like a triangle, four like a square
    angles = [math.pi * (first + 2 * k / count) for k in range(count)]
    return [
        Sprite(
            pose.shape,
            colour,
            pose.x + pose.spread * math.cos(angle),
            pose.y + pose.spread * math.sin(angle),
            pose.radius,
            rotation,
            alpha,
        )
        for angle in angles
    ]


def _mix(one: float, two: float, way: float) -> float:
    return one + (two - one) * way


def _ease(progress: float) -> float:
    return progress * progress * (3 - 2 * progress)
