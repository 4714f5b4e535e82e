"""Computes where every shape is in a frame, draws the frames of a clip, and encodes them as a video."""

from __future__ import annotations

import math
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lab.demo.outlines import signed_distance
from lab.demo.world import BACKDROP_COLOURS, COLOURS, FPS, HEIGHT, WIDTH, Actor, Camera, DemoClip, Event, Scene

Frame = NDArray[np.uint8]

COLUMNS = (np.arange(WIDTH, dtype=np.float32) - (WIDTH - 1) / 2)[None, :]
ROWS = (np.arange(HEIGHT, dtype=np.float32) - (HEIGHT - 1) / 2)[:, None]
PERIOD = 44.0
LETTERBOX, BORDER = 10, 4


def render_frames(clip: DemoClip) -> Iterator[Frame]:
    """Yield the drawn frames of a clip in order: RGB pictures, uint8 of shape (160, 224, 3).

    >>> from lab.demo.story import make_clip
    >>> next(render_frames(make_clip(1))).shape
    (160, 224, 3)
    """
    shade = _shade(clip.style)
    camera, backdrop = None, np.empty(0, np.uint8)
    for number in range(clip.n_frames):
        view, sprites = compute_view(clip, number)
        if view != camera:
            camera, backdrop = view, _backdrop(clip, view)
        frame = backdrop.copy()
        for sprite in sprites:
            _draw(frame, view, sprite)
        yield _apply_style(frame, clip.style, shade)


def write_video(clip: DemoClip, path: Path) -> None:
    """Draw a clip and write it as a video file: H.264 (yuv420p, MP4) without sound, 15 frames per second. An existing
    file is replaced. With the same version of the encoder, a clip gives the same bytes each time.
    """
    import av

    options = {"preset": "veryfast", "crf": "20", "threads": "1"}
    if platform.machine().lower() in ("x86_64", "amd64"):
        # By its AVX-512 code x264 makes other bytes of one clip in fifty; every x86-64 processor in use has SSE 4.2.
        options["x264-params"] = "asm=sse4.2"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=FPS, options=options)
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        for frame in render_frames(clip):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(stream.encode())


def _backdrop(clip: DemoClip, camera: Camera) -> Frame:
    x, y = camera.x + COLUMNS / camera.zoom, camera.y + ROWS / camera.zoom
    share = np.broadcast_to(_first_colour_share(clip.pattern, x, y), (HEIGHT, WIDTH))
    first, last = (np.array(BACKDROP_COLOURS[clip.palette[i]], np.float64) for i in (0, -1))
    steps = np.linspace(0, 1, 256)[:, None]
    return np.asarray(np.round(last + steps * (first - last)), np.uint8)[np.asarray(share * 255, np.uint8)]


def _first_colour_share(pattern: str, x: NDArray[np.float32], y: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the share of the palette's first colour at every point, 0 to 1."""
    if pattern == "plain":
        return np.ones((1, 1), np.float32)
    if pattern == "gradient":
        return np.clip(0.5 - y / HEIGHT, 0, 1)
    if pattern == "polka dots":
        inside = np.hypot((x % PERIOD) - PERIOD / 2, (y % PERIOD) - PERIOD / 2) < PERIOD / 5
    elif pattern == "grid":
        inside = ((x % PERIOD) < 3) | ((y % PERIOD) < 3)
    elif pattern == "checkerboard":
        inside = (x % PERIOD < PERIOD / 2) ^ (y % PERIOD < PERIOD / 2)
    else:
        along = {"vertical stripes": x, "horizontal stripes": y, "diagonal stripes": (x + y) * 0.7}[pattern]
        inside = along % PERIOD < PERIOD / 2
    return inside.astype(np.float32)


def _draw(frame: Frame, camera: Camera, sprite: Sprite) -> None:
    x, y = camera.convert_to_picture(sprite.x, sprite.y)
    radius = sprite.radius * camera.zoom
    left, right = _span(x + WIDTH / 2, 1.15 * radius + 2, WIDTH)
    top, bottom = _span(y + HEIGHT / 2, 1.15 * radius + 2, HEIGHT)
    if left >= right or top >= bottom:
        return
    distance = signed_distance(
        sprite.shape,
        COLUMNS[:, left:right] - np.float32(x),
        ROWS[top:bottom] - np.float32(y),
        radius,
        sprite.rotation,
    )
    cover = (np.clip(0.5 - distance, 0, 1) * np.float32(sprite.alpha))[..., None]
    inner = np.clip(0.5 - distance - min(1.5, 0.1 * radius), 0, 1)[..., None]
    fill = np.array(sprite.colour, np.float32)
    edge = fill * np.float32(0.4) if fill.max() > 60 else np.full(3, 170, np.float32)
    box = frame[top:bottom, left:right]
    box[:] = box + cover * (edge + inner * (fill - edge) - box) + np.float32(0.5)


def _span(middle: float, reach: float, limit: int) -> tuple[int, int]:
    """Return the first pixel of a box, and the pixel after its last one, both inside the picture."""
    return max(0, int(middle - reach)), max(0, min(limit, int(middle + reach) + 1))


def _shade(style: str) -> NDArray[np.uint16]:
    """Return the brightness of every pixel in 256ths; 256 leaves a pixel unchanged."""
    if style == "vignette":
        distance = np.hypot(COLUMNS / (WIDTH / 2), ROWS / (HEIGHT / 2))
        light = 1 - 0.8 * np.clip((distance - 0.8) / 0.55, 0, 1)
    elif style == "scanlines":
        light = np.where(np.arange(HEIGHT)[:, None] % 4 == 3, 0.55, 1.0) * np.ones((1, WIDTH))
    else:
        light = np.ones((HEIGHT, WIDTH))
    return np.asarray(light * 256, np.uint16)[..., None]


def _apply_style(frame: Frame, style: str, shade: NDArray[np.uint16]) -> Frame:
    if style == "letterbox":
        frame[:LETTERBOX] = frame[-LETTERBOX:] = 0
    elif style == "border":
        frame[:BORDER] = frame[-BORDER:] = frame[:, :BORDER] = frame[:, -BORDER:] = 255
    else:
        frame = np.asarray(frame * shade >> 8, np.uint8)
    return frame


@dataclass(frozen=True)
class Sprite:
    """One shape to draw. x, y and radius are in world coordinates. `colour` is RGB, 0 to 255; `rotation` an angle in
    radians, anticlockwise; `alpha` from 0 (invisible) to 1.
    """

    shape: str
    colour: tuple[float, ...]
    x: float
    y: float
    radius: float
    rotation: float = 0.0
    alpha: float = 1.0


def compute_view(clip: DemoClip, frame: int) -> tuple[Camera, list[Sprite]]:
    """Return the camera and the sprites to draw in one frame of a clip. frame: its number from 0. The sprites of the
    actor that acts come last, so that they are in front; actors out of view have no sprite.
    """
    current = next((e for e in clip.events if e.start <= frame < e.end), None)
    if current is None:
        scene = clip.events[0].before if frame < clip.events[0].start else clip.events[-1].after
        return scene.camera, _build_resting_sprites(scene)
    progress = (frame - current.start + 1) / (current.end - current.start)
    acting = [] if current.actor is None else _build_acting_sprites(current, progress)
    return _camera(current, progress), _build_resting_sprites(current.before, current.actor) + acting


def _build_resting_sprites(scene: Scene, skip: int | None = None) -> list[Sprite]:
    return [
        sprite
        for index, actor in enumerate(scene.actors)
        if actor.visible and index != skip
        for sprite in _build_pieces(actor.count, actor, COLOURS[actor.colour], 0.0, 1.0)
    ]


def _camera(event: Event, progress: float) -> Camera:
    start, end, way = event.before.camera, event.after.camera, _ease(progress)
    shake = 4 * math.sin(10 * math.pi * progress) if event.statement.kind == "camera_shakes" else 0.0
    zoom = start.zoom * (end.zoom / start.zoom) ** way
    return Camera(_mix(start.x, end.x, way) + shake / zoom, _mix(start.y, end.y, way) - 0.6 * shake / zoom, zoom)


def _build_acting_sprites(event: Event, progress: float) -> list[Sprite]:
    assert event.actor is not None
    kind, start, end = event.statement.kind, event.before.actors[event.actor], event.after.actors[event.actor]
    alpha, rotation = 1.0, 0.0
    if kind == "blinks" and progress * event.statement.number % 1 > 0.5:
        return []
    if kind == "fades":
        alpha = 1 - progress
    if kind == "spins":
        rotation = -2 * math.pi * _ease(progress)
    way = min(1.0, progress / 0.45) if kind == "stops" else progress if kind == "crosses" else _ease(progress)
    dx, dy = _compute_detour(event, start, progress)
    pose = Actor(
        start.shape,
        start.colour,
        x=_mix(start.x, end.x, way) + dx,
        y=_mix(start.y, end.y, way) + dy,
        radius=_mix(start.radius, end.radius, way),
        spread=_mix(start.spread, end.spread, way),
    )
    colour = tuple(_mix(a, b, way) for a, b in zip(COLOURS[start.colour], COLOURS[end.colour], strict=True))
    return _build_pieces(max(start.count, end.count), pose, colour, rotation, alpha)


def _compute_detour(event: Event, actor: Actor, progress: float) -> tuple[float, float]:
    """Return the acting actor's offset from the straight way."""
    zoom = event.before.camera.zoom
    if event.statement.kind == "bounces":
        return 0.0, -24 / zoom * abs(math.sin(event.statement.number * math.pi * progress))
    if event.statement.kind == "trembles":
        return 5 / zoom * math.sin(12 * math.pi * progress + 0.4) * (progress < 1), 0.0
    if event.statement.kind == "orbits":
        named = event.statement.others[0]
        other = next(a for a in event.before.actors if a.shape == named.shape)
        far = math.dist((actor.x, actor.y), (other.x, other.y))
        near = min(far, other.reach + actor.radius + 4)
        distance = _mix(far, near, _ease(min(1.0, 4 * min(progress, 1 - progress))))
        angle = math.atan2(actor.y - other.y, actor.x - other.x) + 2 * math.pi * progress
        return other.x + distance * math.cos(angle) - actor.x, other.y + distance * math.sin(angle) - actor.y
    return 0.0, 0.0


def _build_pieces(count: int, pose: Actor, colour: tuple[float, ...], rotation: float, alpha: float) -> list[Sprite]:
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
