"""Facts about the frames of a video: change, motion, sharpness, light, cuts and bars. Pure functions on arrays.

Luma is uint8 with black at 16 and white at 235, as codecs store it. Shares lie between 0 and 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from metrics_core.facts.signatures import SignatureScan

Luma = NDArray[np.uint8]
Floats = NDArray[np.float64]
Complex = NDArray[np.complex128]

# Raised by hand when a number changes; videos are then measured anew.
PICTURE_RULE = "2"

BLACK, WHITE = 16, 235
# As FFmpeg's blackdetect: a pixel is dark up to a tenth of the range, and a picture black with so many dark pixels.
DARK = BLACK + 0.1 * (WHITE - BLACK)
DARK_SHARE = 0.98
BRIGHTEST_BLACK = DARK_SHARE * DARK + (1 - DARK_SHARE) * 255
# Bars are darker than a dark scene.
BAR = BLACK + 0.05 * (WHITE - BLACK)
# Rows and columns of the grid of pixels that are looked at in every frame; many rows of a frame for its sharpness.
GRID_ROWS, GRID_COLUMNS = 40, 72
SHARP_ROWS = 48
# Mean difference of two frames in grey levels: the same picture again, and one in which next to nothing moves.
FROZEN, STATIC = 0.1, 1.0
# A cut changes the picture by so many grey levels, and by so many times more than each of the four pairs around it.
CUT_LEVELS, CUT_TIMES = 12.0, 2.5
# Of a frame with fewer blocks, or with vectors on less of its area, the motion is not known.
LEAST_BLOCKS, LEAST_AREA = 8, 0.5
# Rounds of fitting the camera's motion, each without the blocks that move otherwise.
ROUNDS = 4
MOST_BLOCKS = 256


@dataclass(frozen=True, slots=True)
class PictureFacts:
    """Facts about the frames of one video; None where there is nothing to measure.

    A fact with `_min` and `_max` is the median over frames; these are the extremes.

    Attributes:
        motion: mean length of the codec's motion vectors, in stored pixels a frame, over predicted frames. None for
            codecs that give no vectors.
        camera_motion: the part of it that one shift, zoom and turn of the whole picture explains; median over frames.
        object_motion: mean length of what is left of the vectors; median over frames.
        frame_change: mean absolute difference of two frames in a row, in grey levels of 0 to 255. For every codec, and
            another thing than motion.
        static_share, frozen_share: share of the pairs of frames that differ by less than a grey level on average, and
            by less than a tenth.
        black_share: share of the frames of which 98 % of the pixels are dark.
        sharpness: variance of the Laplacian in grey levels, at the stored size. It grows with texture and noise: it is
            no quality.
        brightness: mean luma from black (0) to white (1).
        contrast: standard deviation of the luma on the same scale.
        cuts: number of hard cuts.
        letterbox: share of the picture that black bars at its edges take; None where all is black.
        signature: 128 bytes in hexadecimal, by which a copy is known again; None where all frames are flat.
    """

    motion: float | None = None
    motion_min: float | None = None
    motion_max: float | None = None
    camera_motion: float | None = None
    object_motion: float | None = None
    frame_change: float | None = None
    frame_change_min: float | None = None
    frame_change_max: float | None = None
    static_share: float | None = None
    frozen_share: float | None = None
    black_share: float | None = None
    sharpness: float | None = None
    sharpness_min: float | None = None
    sharpness_max: float | None = None
    brightness: float | None = None
    brightness_min: float | None = None
    brightness_max: float | None = None
    contrast: float | None = None
    contrast_min: float | None = None
    contrast_max: float | None = None
    cuts: int | None = None
    letterbox: float | None = None
    signature: str | None = None


@dataclass
class FrameScan:
    """What the frames of one video have shown so far: `look` at each in order, at some `closely`, then `facts`."""

    light: list[float] = field(default_factory=list)
    n_black: int = 0
    changes: list[float] = field(default_factory=list)
    contrast: list[float] = field(default_factory=list)
    sharpness: list[float] = field(default_factory=list)
    motions: list[Motion] = field(default_factory=list)
    signature: SignatureScan = field(default_factory=SignatureScan)
    _last: NDArray[np.int16] | None = None
    _rows: Luma | None = None
    _columns: Luma | None = None

    def look(self, luma: Luma) -> None:
        """Take in the next frame, shape (H, W); a frame of another size is compared with none."""
        # Every frame comes by here: a few whole-number operations on few pixels, or it would cost as much as decoding.
        grid = grid_of(luma).astype(np.int16)
        mean = int(grid.sum()) / grid.size
        self.light.append(mean)
        self.signature.look(luma)
        if mean <= BRIGHTEST_BLACK:
            self.n_black += bool((grid <= DARK).mean() >= DARK_SHARE)
        if self._last is not None and self._last.shape == grid.shape:
            self._last -= grid
            np.abs(self._last, out=self._last)
            self.changes.append(int(self._last.sum()) / grid.size)
        self._last = grid

    def look_closely(self, luma: Luma) -> None:
        """Take in contrast, sharpness and bars of a frame, shape (H, W)."""
        self.contrast.append(float(grid_of(luma).std()))
        if (value := sharpness(luma)) is not None:
            self.sharpness.append(value)
        rows, columns = luma.max(axis=1), luma.max(axis=0)
        if self._rows is None or self._columns is None:
            self._rows, self._columns = rows, columns
        elif (len(rows), len(columns)) == (len(self._rows), len(self._columns)):
            self._rows, self._columns = np.maximum(self._rows, rows), np.maximum(self._columns, columns)

    def facts(self) -> PictureFacts:
        """Sum up the frames seen so far."""
        means, spreads = np.array(self.light), np.array(self.contrast)
        changes, lengths = np.array(self.changes), [motion.length for motion in self.motions]
        bars = None if self._rows is None or self._columns is None else letterbox(self._rows, self._columns)
        scale = WHITE - BLACK
        return PictureFacts(
            *_spread(lengths),
            _median([motion.camera for motion in self.motions]),
            _median([motion.objects for motion in self.motions]),
            *_spread(changes),
            _share(changes < STATIC),
            _share(changes < FROZEN),
            self.n_black / len(self.light) if self.light else None,
            *_spread(self.sharpness),
            *_spread(np.clip((means - BLACK) / scale, 0, 1)),
            *_spread(spreads / scale),
            len(cuts(self.changes)) if self.light else None,
            bars,
            None if (signature := self.signature.signature()) is None else signature.hex(),
        )


def grid_of(luma: Luma) -> Luma:
    """Return every so many pixels of a frame, about 40 rows by 72 columns: enough for its light and its change."""
    rows, columns = max(1, luma.shape[0] // GRID_ROWS), max(1, luma.shape[1] // GRID_COLUMNS)
    return luma[rows // 2 :: rows, columns // 2 :: columns]


def sharpness(luma: Luma) -> float | None:
    """Return the variance of the Laplacian of a frame over some of its rows; None for fewer than 3 x 3 pixels.

    >>> sharpness(np.full((9, 9), 80, dtype=np.uint8))
    0.0
    """
    height, width = luma.shape
    if height < 3 or width < 3:
        return None
    at = np.arange(1, height - 1, max(1, height // SHARP_ROWS))
    centre, above, below = (luma[at + step].astype(np.int16) for step in (0, -1, 1))
    laplacian = 4 * centre[:, 1:-1] - centre[:, :-2] - centre[:, 2:] - above[:, 1:-1] - below[:, 1:-1]
    return float(laplacian.var(dtype=np.float64))


def cuts(changes: Sequence[float]) -> list[int]:
    """Return the frames that begin a new shot, given the change from frame t to t + 1 at place t.

    A cut is one great change among small ones: a flash makes two, fast motion many, a fade none.

    >>> cuts([1, 1, 1, 40, 1, 1]), cuts([1, 1, 40, 40, 1, 1]), cuts([40, 38, 41, 40])
    ([4], [], [])
    """
    found = []
    for place, change in enumerate(changes):
        around = [*changes[max(0, place - 2) : place], *changes[place + 1 : place + 3]]
        if around and change >= CUT_LEVELS and change >= CUT_TIMES * max(around):
            found.append(place + 1)
    return found


def letterbox(rows: Luma, columns: Luma) -> float | None:
    """Return the share of the picture that bars take; None where no row is bright in any frame.

    Args:
        rows, columns: the brightest luma of each row and column over frames.

    >>> dark, bright = [16] * 2, [200] * 8
    >>> letterbox(np.array([*dark, *bright], np.uint8), np.array(bright, np.uint8))
    0.2
    """
    (lit_rows,), (lit_columns,) = np.nonzero(rows > BAR), np.nonzero(columns > BAR)
    if not len(lit_rows) or not len(lit_columns):
        return None
    inside = (lit_rows[-1] - lit_rows[0] + 1) * (lit_columns[-1] - lit_columns[0] + 1)
    return round(1 - float(inside) / (len(rows) * len(columns)), 12)


@dataclass(frozen=True, slots=True)
class Motion:
    """The motion of one frame, in pixels a frame.

    length: of the mean vector's length. camera: of what one shift, zoom and turn explains. objects: of the rest.
    """

    length: float
    camera: float
    objects: float


def motion_of(places: Complex, vectors: Complex, areas: Floats) -> Motion | None:
    """Tell the motion of the camera from that of things in a frame; None for too few blocks.

    Args:
        places: centres of the blocks in pixels, x + iy, shape (n,).
        vectors: how far each block has moved, in pixels a frame, shape (n,).
        areas: pixels of each block, shape (n,).
    """
    if len(places) < LEAST_BLOCKS:
        return None
    camera = _camera(places, vectors, areas)
    shares = areas / areas.sum()
    return Motion(*(float(np.abs(each) @ shares) for each in (vectors, camera, vectors - camera)))


def _camera(places: Complex, vectors: Complex, areas: Floats) -> Complex:
    """The vectors of the shift, zoom and turn that most blocks follow: least squares, repeated without the outliers.

    A shift, a zoom and a turn are together one complex line: vector = shift + factor * place.
    """
    step = -(-len(places) // MOST_BLOCKS)
    some, target, share = places[::step], vectors[::step], areas[::step]
    # The median shift comes first: a thing that covers less than half of the picture does not draw the fit to it.
    shift, factor, centre = complex(np.median(target.real), np.median(target.imag)), 0j, 0j
    for _ in range(ROUNDS):
        residual = np.abs(target - shift - factor * (some - centre))
        weights = share * (residual <= max(0.5, 2 * float(np.median(residual))))
        weights /= weights.sum()
        centre, shift = complex(weights @ some), complex(weights @ target)
        around = some - centre
        spread = float(weights @ np.abs(around) ** 2)
        factor = complex((weights * around.conj()) @ (target - shift)) / spread if spread else 0j
    return shift + factor * (places - centre)


def _spread(values: Sequence[float] | Floats) -> tuple[float | None, float | None, float | None]:
    """Median, least and greatest."""
    if not len(values):
        return None, None, None
    return float(np.median(values)), float(np.min(values)), float(np.max(values))


def _median(values: Sequence[float]) -> float | None:
    return float(np.median(values)) if values else None


def _share(which: NDArray[np.bool_]) -> float | None:
    return float(which.mean()) if len(which) else None
