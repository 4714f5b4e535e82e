"""The parts of a demo clip: vocabulary, scenes, events, and the statements that a text may make about them.

Coordinates are pixels of the unzoomed picture, with the origin in its middle, x to the right and y down.
Times are frame numbers: ``start`` is the first frame, ``end`` the frame after the last.
"""

from __future__ import annotations

from dataclasses import dataclass

WIDTH, HEIGHT, FPS = 224, 160, 15

Colour = tuple[int, int, int]

SHAPES = (
    "circle", "square", "triangle", "star", "diamond", "ring",
    "plus", "hexagon", "heart", "crescent", "arrow",
)  # fmt: skip

COLOURS: dict[str, Colour] = {
    "red": (220, 35, 35),
    "orange": (255, 140, 0),
    "yellow": (255, 225, 30),
    "green": (35, 170, 55),
    "blue": (45, 95, 245),
    "purple": (150, 45, 200),
    "pink": (255, 125, 195),
    "cyan": (60, 225, 230),
    "white": (250, 250, 250),
    "black": (12, 12, 12),
}

BACKDROP_COLOURS: dict[str, Colour] = {
    "navy": (22, 30, 78),
    "beige": (222, 203, 160),
    "olive": (98, 102, 42),
    "grey": (128, 128, 128),
    "maroon": (92, 22, 36),
    "teal": (8, 92, 92),
    "lavender": (186, 176, 222),
    "brown": (104, 66, 36),
}

PATTERNS = (
    "plain", "gradient", "checkerboard", "vertical stripes",
    "horizontal stripes", "diagonal stripes", "grid", "polka dots",
)  # fmt: skip

STYLES = ("letterbox", "vignette", "border", "scanlines")

PLACES: dict[str, tuple[float, float]] = {
    "top left corner": (-66, -40),
    "top centre": (0, -40),
    "top right corner": (66, -40),
    "left side": (-66, 0),
    "middle": (0, 0),
    "right side": (66, 0),
    "bottom left corner": (-66, 40),
    "bottom centre": (0, 40),
    "bottom right corner": (66, 40),
}

DIRECTIONS: dict[str, tuple[int, int]] = {"left": (-1, 0), "right": (1, 0), "top": (0, -1), "bottom": (0, 1)}

CAMERA_KINDS = ("static", "pans", "zooms_in", "zooms_out", "camera_shakes")


@dataclass(frozen=True)
class Looks:
    """The looks by which a text names an actor: shape, colour, and count, the number of equal shapes. size: "small",
    "large", or "" if the text does not mention it.
    """

    shape: str
    colour: str
    count: int = 1
    size: str = ""


@dataclass(frozen=True)
class ClipStatement:
    """One statement about a clip, which is true or false of it. kind: the sort of statement, such as "grows", "pans" or
    "palette". subject: the looks of the acting actor; None for none. Two are equal exactly if they state the same.

    ``target`` is a place, an edge, a direction, a new colour, a pattern or a style, depending on ``kind``. ``number``
    counts repetitions or pieces. ``others`` are further actors that the statement names. ``palette`` has the names of
    the background's colours.
    """

    kind: str
    subject: Looks | None = None
    target: str = ""
    number: int = 0
    others: tuple[Looks, ...] = ()
    palette: tuple[str, ...] = ()

    @property
    def dimension(self) -> str:
        """The dimension that a keypoint with this statement has: video_background, shooting_style, camera_state or
        segment_detail.
        """
        if self.kind in ("pattern", "palette"):
            return "video_background"
        if self.kind == "style":
            return "shooting_style"
        return "camera_state" if self.kind in CAMERA_KINDS else "segment_detail"

    @property
    def named_looks(self) -> tuple[Looks, ...]:
        """The looks of every actor that the statement names, the acting one first; empty if it names none."""
        return self.others if self.subject is None else (self.subject, *self.others)


@dataclass(frozen=True)
class Camera:
    """The camera's position and zoom. x, y: the world point in the middle of the picture. zoom: the magnification; 1
    for none.
    """

    x: float = 0.0
    y: float = 0.0
    zoom: float = 1.0

    def convert_to_world(self, x: float, y: float) -> tuple[float, float]:
        """Return the world point (x, y) that a point of the picture shows. Picture coordinates are pixels from the
        middle of the picture, x right and y down.
        """
        return self.x + x / self.zoom, self.y + y / self.zoom

    def convert_to_picture(self, x: float, y: float) -> tuple[float, float]:
        """Return the point (x, y) of the picture where a world point is seen. It is in pixels from the middle of the
        picture, x right and y down, and may lie outside the picture.
        """
        return (x - self.x) * self.zoom, (y - self.y) * self.zoom


@dataclass(frozen=True)
class Actor:
    """A shape, or a group of ``count`` equal shapes on a circle of radius ``spread``. x, y: its middle. radius: that of
    one shape. Both, and spread, are in world coordinates. visible: whether it is drawn while it does not act.
    """

    shape: str
    colour: str
    count: int = 1
    x: float = 0.0
    y: float = 0.0
    radius: float = 0.0
    spread: float = 0.0
    visible: bool = False

    @property
    def reach(self) -> float:
        """Radius of the circle around the actor that contains all of it, in world coordinates."""
        return self.radius + self.spread

    def build_looks(self, size: str = "") -> Looks:
        """Return the looks by which a text names the actor: its shape, colour and count, with this size. "" is for no
        size mentioned.
        """
        return Looks(self.shape, self.colour, self.count, size)


@dataclass(frozen=True)
class Scene:
    """The camera and all actors of a clip at one moment; actors out of view are included."""

    camera: Camera
    actors: tuple[Actor, ...]


@dataclass(frozen=True)
class Event:
    """A change from one scene to the next, with the statement that it makes true. actor: the index of the acting actor;
    None if the camera acts. start: its first frame. end: the frame after its last one.
    """

    statement: ClipStatement
    actor: int | None
    before: Scene
    after: Scene
    start: int = 0
    end: int = 0


@dataclass(frozen=True)
class Moment:
    """A true statement about a clip, with the frames in which it can be seen. start: the first frame. end: the frame
    after the last one.
    """

    statement: ClipStatement
    start: int
    end: int


@dataclass(frozen=True)
class DemoClip:
    """A complete invented clip before it is drawn. Frames, texts and labels are computed from it. pattern, palette: of
    the background. style: of the picture, such as "letterbox". events: in time order, each beginning where the last one
    ends.
    """

    seed: int
    pattern: str
    palette: tuple[str, ...]
    style: str
    events: tuple[Event, ...]
    n_frames: int

    @property
    def duration_s(self) -> float:
        """Length of the clip in seconds."""
        return self.n_frames / FPS

    @property
    def shapes(self) -> frozenset[str]:
        """The names of all shapes that a true statement about the clip names, such as "star"."""
        return frozenset(looks.shape for moment in self.list_moments() for looks in moment.statement.named_looks)

    def list_moments(self) -> tuple[Moment, ...]:
        """Return every true statement about the clip with its frames. The order is setting, opening, events by time,
        ending.
        """
        whole = [
            ClipStatement("pattern", target=self.pattern),
            ClipStatement("palette", palette=self.palette),
            ClipStatement("style", target=self.style),
        ]
        if all(event.statement.kind not in CAMERA_KINDS for event in self.events):
            whole.append(ClipStatement("static"))
        first, last = self.events[0], self.events[-1]
        opening = [ClipStatement("waits", a.build_looks(), _place_name(a)) for a in first.before.actors if a.visible]
        ending = ClipStatement("remains", others=tuple(a.build_looks() for a in last.after.actors if a.visible))
        return (
            *(Moment(statement, 0, self.n_frames) for statement in whole),
            *(Moment(statement, 0, first.start) for statement in opening),
            *(Moment(event.statement, event.start, event.end) for event in self.events),
            Moment(ending, last.end, self.n_frames),
        )


def _place_name(actor: Actor) -> str:
    return min(PLACES, key=lambda name: (PLACES[name][0] - actor.x) ** 2 + (PLACES[name][1] - actor.y) ** 2)
