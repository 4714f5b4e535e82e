"""Draws the frames of a clip and encodes them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from demo.motion import Sprite, view_at
from demo.shapes import signed_distance
from demo.world import BACKDROP_COLOURS, FPS, HEIGHT, WIDTH, Camera, Clip

Frame = NDArray[np.uint8]

COLUMNS = (np.arange(WIDTH, dtype=np.float32) - (WIDTH - 1) / 2)[None, :]
ROWS = (np.arange(HEIGHT, dtype=np.float32) - (HEIGHT - 1) / 2)[:, None]
PERIOD = 44.0
LETTERBOX, BORDER = 10, 4


def render_frames(clip: Clip) -> Iterator[Frame]:
    """Draw the frames of a clip in order: RGB, uint8 (160, 224, 3).

    >>> from demo.story import make_clip
    >>> next(render_frames(make_clip(1))).shape
    (160, 224, 3)
    """
    shade = _shade(clip.style)
    camera, backdrop = None, np.empty(0, np.uint8)
    for number in range(clip.n_frames):
        view, sprites = view_at(clip, number)
        if view != camera:
            camera, backdrop = view, _backdrop(clip, view)
        frame = backdrop.copy()
        for sprite in sprites:
            _draw(frame, view, sprite)
        yield _styled(frame, clip.style, shade)


def write_video(clip: Clip, path: Path) -> None:
    """Encode a clip as H.264 (yuv420p, MP4) without sound. A single encoder thread keeps the result repeatable."""
    import av

    options = {"preset": "veryfast", "crf": "20", "threads": "1"}
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=FPS, options=options)
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        for frame in render_frames(clip):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(stream.encode())


def _backdrop(clip: Clip, camera: Camera) -> Frame:
    x, y = camera.x + COLUMNS / camera.zoom, camera.y + ROWS / camera.zoom
    share = np.broadcast_to(_first_colour_share(clip.pattern, x, y), (HEIGHT, WIDTH))
    first, last = (np.array(BACKDROP_COLOURS[clip.palette[i]], np.float64) for i in (0, -1))
    steps = np.linspace(0, 1, 256)[:, None]
    return np.asarray(np.round(last + steps * (first - last)), np.uint8)[np.asarray(share * 255, np.uint8)]


def _first_colour_share(pattern: str, x: NDArray[np.float32], y: NDArray[np.float32]) -> NDArray[np.float32]:
    """The share of the palette's first colour at every point, 0 to 1."""
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
    x, y = camera.to_picture(sprite.x, sprite.y)
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
    """The first pixel of a box, and the pixel after its last one, both inside the picture."""
    return max(0, int(middle - reach)), max(0, min(limit, int(middle + reach) + 1))


def _shade(style: str) -> NDArray[np.uint16]:
    """The brightness of every pixel in 256ths; 256 leaves a pixel unchanged."""
    if style == "vignette":
        distance = np.hypot(COLUMNS / (WIDTH / 2), ROWS / (HEIGHT / 2))
        light = 1 - 0.8 * np.clip((distance - 0.8) / 0.55, 0, 1)
    elif style == "scanlines":
        light = np.where(np.arange(HEIGHT)[:, None] % 4 == 3, 0.55, 1.0) * np.ones((1, WIDTH))
    else:
        light = np.ones((HEIGHT, WIDTH))
    return np.asarray(light * 256, np.uint16)[..., None]


def _styled(frame: Frame, style: str, shade: NDArray[np.uint16]) -> Frame:
    if style == "letterbox":
        frame[:LETTERBOX] = frame[-LETTERBOX:] = 0
    elif style == "border":
        frame[:BORDER] = frame[-BORDER:] = frame[:, :BORDER] = frame[:, -BORDER:] = 255
    else:
        frame = np.asarray(frame * shade >> 8, np.uint8)
    return frame
