"""The shapes' outlines as signed distances, so that shapes can be drawn smoothly at any size and angle."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Plane = NDArray[np.floating[Any]]


def _polygon(corners: int) -> Callable[[Plane, Plane], Plane]:
    normals = [math.pi / 2 + (2 * k + 1) * math.pi / corners for k in range(corners)]

    def distance(u: Plane, v: Plane) -> Plane:
        sides = [u * math.cos(a) + v * math.sin(a) for a in normals]
        return np.maximum.reduce(sides) - np.float32(math.cos(math.pi / corners))

    return distance


def _disc(u: Plane, v: Plane, x: float = 0.0, y: float = 0.0, radius: float = 1.0) -> Plane:
    return np.hypot(u - x, v - y) - radius


def _star(u: Plane, v: Plane) -> Plane:
    sector = 2 * math.pi / 5
    angle = np.abs((np.arctan2(u, v) + sector / 2) % sector - sector / 2)
    x, y = np.hypot(u, v) * np.cos(angle), np.hypot(u, v) * np.sin(angle)
    inner_x, inner_y = 0.42 * math.cos(sector / 2), 0.42 * math.sin(sector / 2)
    length = math.hypot(1 - inner_x, inner_y)
    return ((x - 1) * inner_y + y * (1 - inner_x)) / length


def _plus(u: Plane, v: Plane) -> Plane:
    u, v = np.abs(u), np.abs(v)
    return np.minimum(np.maximum(u - 1, v - 0.34), np.maximum(u - 0.34, v - 1))


def _heart(u: Plane, v: Plane) -> Plane:
    u = np.abs(u)
    lobe, tip = _disc(u, v, 0.45, 0.35, 0.636), (u + np.abs(v + 0.1) - 0.9) * 0.707
    return np.minimum(lobe, tip)


def _arrow(u: Plane, v: Plane) -> Plane:
    v = np.abs(v)
    shaft = np.maximum(np.maximum(-1 - u, u - 0.1), v - 0.3)
    return np.minimum(shaft, np.maximum(-u, (v - 0.9 * (1 - u)) / 1.345))


OUTLINES: dict[str, Callable[[Plane, Plane], Plane]] = {
    "circle": _disc,
    "square": lambda u, v: np.maximum(np.abs(u), np.abs(v)) - 0.82,
    "triangle": _polygon(3),
    "star": _star,
    "diamond": lambda u, v: (np.abs(u) / 0.7 + np.abs(v) - 1) * 0.573,
    "ring": lambda u, v: np.abs(np.hypot(u, v) - 0.74) - 0.26,
    "plus": _plus,
    "hexagon": _polygon(6),
    "heart": _heart,
    "crescent": lambda u, v: np.maximum(_disc(u, v), -_disc(u, v, 0.45, 0.15, 0.78)),
    "arrow": _arrow,
}


def signed_distance(shape: str, x: Plane, y: Plane, radius: float, rotation: float = 0.0) -> Plane:
    """Compute the distance in pixels from points to the outline of a shape, negative inside. For some shapes it is only
    nearly the distance. x and y are the points' coordinates from the shape's centre, x right and y down; the result has
    their broadcast shape.

    Args:
        shape: a name of ``lab.demo.world.SHAPES``.
        x: columns, any shape that broadcasts with ``y``.
        y: rows.
        radius: radius in pixels of the circle around the shape.
        rotation: angle in radians, anticlockwise.

    >>> zero = np.zeros((1, 1), np.float32)
    >>> float(signed_distance("circle", zero, zero, 10.0)[0, 0])
    -10.0
    """
    cos, sin = np.float32(math.cos(rotation) / radius), np.float32(math.sin(rotation) / radius)
    return OUTLINES[shape](x * cos - y * sin, -x * sin - y * cos) * np.float32(radius)
