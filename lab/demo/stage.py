"""The stage on which a clip is invented: the present scene, free places, and the acts that were already played."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from random import Random

from lab.demo.world import (
    BACKDROP_COLOURS,
    COLOURS,
    DIRECTIONS,
    HEIGHT,
    PLACES,
    WIDTH,
    Actor,
    Camera,
    Colour,
    Scene,
)

SIZES = {"small": 8.0, "": 13.0, "large": 20.0}
MIN_CONTRAST = 100.0
SAFE_X, SAFE_Y = WIDTH / 2 - 2, HEIGHT / 2 - 10  # the letterbox takes 10 rows at the top and at the bottom


class Stage:
    """The present scene of a clip that is being invented, with its cast of five actors and its random numbers.
    `played_acts` and `n_played` keep acts from being repeated. camera_moves: whether the camera may act. spare_colours:
    colours that no actor has yet, for later changes.
    """

    def __init__(self, rng: Random, shapes: list[str], palette: tuple[str, ...], camera_moves: bool) -> None:
        backdrop = [BACKDROP_COLOURS[name] for name in palette]
        clear = [n for n, rgb in COLOURS.items() if min(colour_distance(rgb, b) for b in backdrop) >= MIN_CONTRAST]
        rng.shuffle(clear)
        self.rng = rng
        self.spare_colours = clear[5:7]
        cast = tuple(Actor(*pair) for pair in zip(rng.sample(shapes, 5), clear[:5], strict=True))
        self.scene = Scene(Camera(), cast)
        self.camera_moves = camera_moves
        self.played_acts: set[tuple[str, int | None]] = set()
        self.n_played: Counter[str] = Counter()

    def place_first_actors(self, n_actors: int) -> None:
        """Put the first n actors in view at random named places of the picture: they are visible from the first frame
        on. Changes the scene.
        """
        for index, place in zip(range(n_actors), self.rng.sample(list(PLACES), n_actors), strict=True):
            x, y = PLACES[place]
            self.scene = self.replace_actor(index, x=x, y=y, radius=SIZES[""], visible=True)

    @property
    def n_visible(self) -> int:
        """Number of actors that are visible in the present scene."""
        return sum(actor.visible for actor in self.scene.actors)

    def replace_actor(self, index: int, **changes: object) -> Scene:
        """Return the present scene with these fields of one actor changed. The stage itself does not change."""
        actors = list(self.scene.actors)
        actors[index] = replace(actors[index], **changes)  # type: ignore[arg-type]  # field names are checked at run time
        return replace(self.scene, actors=tuple(actors))

    def is_free(self, index: int, x: float, y: float, reach: float) -> bool:
        """Whether actor `index` could be at world point (x, y) with this reach: at least nine tenths of it in view, and
        more than three world units away from every other visible actor. reach: the radius of the circle around the
        actor.
        """
        camera = self.scene.camera
        return is_in_view(camera, replace(self.scene.actors[index], x=x, y=y, radius=reach, spread=0)) and all(
            math.dist((x, y), (other.x, other.y)) > reach + other.reach + 3
            for other_index, other in enumerate(self.scene.actors)
            if other.visible and other_index != index
        )

    def choose_free_place(self, index: int, reach: float) -> tuple[str, float, float] | None:
        """Return a random named place that is free for an actor of this reach, as (name, x, y) in world coordinates;
        None if no place is free. index: the actor's number, which is not compared with itself.
        """
        names = list(PLACES)
        self.rng.shuffle(names)
        for name in names:
            x, y = self.scene.camera.convert_to_world(*PLACES[name])
            if self.is_free(index, x, y, reach):
                return name, x, y
        return None

    def compute_offscreen_point(self, edge: str, x: float, y: float, reach: float) -> tuple[float, float]:
        """Return the world point outside the picture, straight behind `edge` ("left", "right", "top" or "bottom") as
        seen from (x, y), where something of this reach is just out of view.
        """
        camera, (dx, dy) = self.scene.camera, DIRECTIONS[edge]
        edge_x, edge_y = camera.convert_to_world(dx * WIDTH / 2, dy * HEIGHT / 2)
        return (edge_x + dx * reach if dx else x), (edge_y + dy * reach if dy else y)


def is_in_view(camera: Camera, actor: Actor) -> bool:
    """Whether at least nine tenths of the actor's width and height are in the safe part of the picture, which no
    letterbox covers.
    """
    x, y = camera.convert_to_picture(actor.x, actor.y)
    reach = 0.8 * actor.reach * camera.zoom
    return abs(x) + reach <= SAFE_X and abs(y) + reach <= SAFE_Y


def colour_distance(one: Colour, two: Colour) -> float:
    """Return the Euclidean distance of two RGB colours, from 0 (equal) to 442 (black and white)."""
    return math.dist(one, two)
