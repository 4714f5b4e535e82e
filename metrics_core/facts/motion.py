"""Measures how far things and the camera move between two frames of a video. Pure functions on arrays.

Blocks of the first frame are looked for in the second one. Motion vectors of the codec are no measure: they are the
vectors that were cheap to code, fewer under strong coding, and many codecs give none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]
Integers = NDArray[np.int64]
Complex = NDArray[np.complex128]

# Pixels of a block's side. Blocks are looked for first at half the size, by so many rows and columns (pans are mostly
# level), then at full size by so many pixels around the best place there.
BLOCK = 8
REACH_ROWS, REACH_COLUMNS = 4, 8
REFINED = 1
_NEAR = np.arange(-REFINED, REFINED + 1)
# Grey levels a pixel that a step of one pixel must gain: of like places the nearest is taken.
PRICE = 0.3
# A block whose mean squared slope, in its flattest direction, is this (two levels in four pixels) counts half.
HALF_SLOPE = 2.0
# Mean squared slope below which a block's place is not known exactly.
LEAST_SLOPE = 0.25
# The motion of a frame with fewer blocks, or with structure on less of its area, is not known.
LEAST_BLOCKS, LEAST_STRUCTURE = 8, 0.02
# Pixels that the camera may take of a block at the edge.
LEAST_LOST = 0.5
# Rounds of fitting the camera's motion, each without the blocks that move otherwise.
ROUNDS = 4


@dataclass(frozen=True, slots=True)
class Motion:
    """The motion between two frames, in frame heights a second. length: mean length of the blocks' motion vectors.
    camera: mean length of the part that one shift, zoom and turn of the whole frame explains. objects: mean length of
    the rest.
    """

    length: float
    camera: float
    objects: float


def measure_motion(before: Floats, after: Floats, seconds: float) -> Motion | None:
    """Measure the motion from one frame to the next of the same size, `seconds` later, in frame heights a second.
    before, after: mean luma, shape (H, W). None where the frame is too small or too flat to see motion, or the camera
    moves all of it out of sight.

    Args:
        before, after: mean luma in grey levels, float, shape (H, W); some 72 rows serve best. Faster motion than 18
            columns or 10 rows is not followed.
        seconds: time between the two, above 0.

    Returns:
        None where the frame is too small or too flat to see motion.
    """
    rows, columns = (side // BLOCK * BLOCK for side in before.shape)
    if rows * columns < LEAST_BLOCKS * BLOCK**2:
        return None
    places, vectors, slopes = _match_blocks(_smooth(before)[:rows, :columns], _smooth(after)[:rows, :columns])
    weights = slopes / (slopes + HALF_SLOPE)
    if weights.mean() < LEAST_STRUCTURE:
        return None
    return split_motion(places, vectors, weights, (rows, columns), 1 / (before.shape[0] * seconds))


def split_motion(
    places: Complex, vectors: Complex, weights: Floats, shape: tuple[int, int], unit: float
) -> Motion | None:
    """Separate the motion of the camera from that of things in the frame, by the motion of blocks. Lengths are means,
    in pixels times `unit`. None where the camera moves all blocks out of the frame.

    Args:
        places: centres of the blocks in pixels, x + iy, shape (n,).
        vectors: how far each block has moved, in pixels, shape (n,).
        weights: how much each block counts, shape (n,), 0 or more and not all 0.
        shape: rows and columns of the frame.
        unit: what a pixel is in the result.
    """
    camera = _fit_camera(places, vectors, weights)
    # A block that the camera takes out of the frame, be it by a pixel, is not seen in the second one.
    there, room = places + camera, BLOCK / 2 - LEAST_LOST
    stays = (np.minimum(there.real, shape[1] - there.real) >= room) & (
        np.minimum(there.imag, shape[0] - there.imag) >= room
    )
    shares = weights * stays
    if not shares.sum() > 0:
        return None
    shares = shares * (unit / shares.sum())
    return Motion(*(float(np.abs(part) @ shares) for part in (vectors, camera, vectors - camera)))


def _match_blocks(before: Floats, after: Floats) -> tuple[Complex, Complex, Floats]:
    """Find where the blocks of a frame, 8 x 8 pixels, have moved to in the next frame. Return their centres and
    their motion, both in pixels as x + iy, and a number for how well their places are known; all are arrays (n,).

    Args:
        before, after: frames of the same shape, whose sides are multiples of 8.

    Returns:
        The centres of the blocks and how far they moved, in pixels, x + iy; and the mean squared slope of each block in
        its flattest direction, which shows how well its place is known.
    """
    coarse = _match_coarsely(_halve(before), _halve(after)) * 2
    n_rows, n_columns = (side // BLOCK for side in before.shape)
    corners = np.indices((n_rows, n_columns)).reshape(2, -1) * BLOCK
    # Room for the farthest place, the refinement, and two pixels more for slopes.
    room = 2 * max(REACH_ROWS, REACH_COLUMNS) + REFINED + 2
    around = np.pad(after, room, mode="edge")
    blocks = _crop_squares(before, corners, BLOCK)
    # Between two pixels of half the size a block may look more like another place: the way that most go is tried, too.
    common = np.broadcast_to(np.median(coarse, axis=1, keepdims=True).astype(np.int64), coarse.shape)
    (moved, cost), (moved_so, cost_so) = (_refine(blocks, around, corners + room, start) for start in (coarse, common))
    moved = np.where(cost <= cost_so, moved, moved_so)
    rest, slopes = _place_exactly(blocks, _crop_squares(around, corners + moved + room - 2, BLOCK + 4))
    exact = moved + rest
    centres = corners + BLOCK / 2
    return centres[1] + 1j * centres[0], exact[1] + 1j * exact[0], slopes


def _refine(blocks: Floats, around: Floats, corners: Integers, start: Integers) -> tuple[Integers, Floats]:
    """Find the steps near the starting ones by which blocks fit best, shape (2, n), and their costs."""
    wide = _crop_squares(around, corners + start - REFINED, BLOCK + 2 * REFINED)
    steps = np.stack([np.repeat(_NEAR, len(_NEAR)), np.tile(_NEAR, len(_NEAR))])
    costs = np.empty((steps.shape[1], blocks.shape[2]))
    for place, (row, column) in enumerate(steps.T + REFINED):
        differences = np.abs(wide[row : row + BLOCK, column : column + BLOCK] - blocks)
        costs[place] = differences.reshape(BLOCK**2, -1).sum(axis=0)
    moved = start[:, None] + steps[:, :, None]
    costs = costs / BLOCK**2 + PRICE / 2 * np.hypot(*moved)
    best = costs.argmin(axis=0)
    along = np.arange(len(best))
    return moved[:, best, along], costs[best, along]


def _match_coarsely(before: Floats, after: Floats) -> Integers:
    """Find the steps, rows and columns, shape (2, n), by which the blocks of half the size fit best."""
    side = BLOCK // 2
    height, width = before.shape
    rows, columns = (np.arange(-reach, reach + 1) for reach in (REACH_ROWS, REACH_COLUMNS))
    around = np.pad(after, ((REACH_ROWS,) * 2, (REACH_COLUMNS,) * 2), mode="edge")
    # All steps along a row at once: shape (H, steps, W).
    along = np.lib.stride_tricks.sliding_window_view(around, width, axis=1)
    sums = np.empty((len(rows), height // side, len(columns), width), dtype=np.float32)
    for row in range(len(rows)):
        differences = np.abs(along[row : row + height] - before[:, None])
        differences.reshape(height // side, side, len(columns), width).sum(axis=1, out=sums[row])
    parts = [sums[..., start::side] for start in range(side)]
    costs = sum(parts[1:], start=parts[0]) / side**2 + PRICE * np.hypot(*np.ix_(rows, columns))[:, None, :, None]
    by_block = costs.transpose(1, 3, 0, 2).reshape(-1, len(rows) * len(columns))
    best = by_block.argmin(axis=1)
    return np.stack([rows[best // len(columns)], columns[best % len(columns)]])


def _place_exactly(blocks: Floats, there: Floats) -> tuple[Floats, Floats]:
    """Compute the fractions of a pixel that blocks are off, rows and columns, and their slopes in the flattest
    direction.

    Least squares: the difference of the two blocks is explained by their slopes and a small step.
    """
    down, right = _slope(there)[:, 2:-2], _slope(there.swapaxes(0, 1)).swapaxes(0, 1)[2:-2]
    difference = there[2:-2, 2:-2] - blocks
    dd, rr, dr = ((one * other).mean(axis=(0, 1)) for one, other in ((down, down), (right, right), (down, right)))
    d, r = ((slope * difference).mean(axis=(0, 1)) for slope in (down, right))
    half = (dd + rr) / 2
    slopes = np.maximum(half - np.sqrt(np.maximum(half**2 - (dd * rr - dr**2), 0)), 0)
    dd, rr = dd + LEAST_SLOPE, rr + LEAST_SLOPE
    rest = np.stack([dr * r - rr * d, dr * d - dd * r]) / (dd * rr - dr**2)
    return np.clip(rest, -1, 1), slopes


def _slope(squares: Floats) -> Floats:
    """Compute how much squares rise from row to row, without the two first and last rows; exact for polynomials of
    degree 4.
    """
    slope: Floats = (8 * (squares[3:-1] - squares[1:-3]) - (squares[4:] - squares[:-4])) / 12
    return slope


def _smooth(picture: Floats) -> Floats:
    """Return the frame without its finest waves, whose slopes cannot be seen from single pixels."""
    wide = np.pad(picture, 1, mode="edge")
    rows = wide[:-2] + 2 * wide[1:-1] + wide[2:]
    smooth: Floats = (rows[:, :-2] + 2 * rows[:, 1:-1] + rows[:, 2:]) / 16
    return smooth


def _crop_squares(picture: Floats, corners: Integers, side: int) -> Floats:
    """Crop squares of a frame, shape (side, side, n), with the given upper left corners, shape (2, n)."""
    along = np.arange(side)
    squares: Floats = picture[corners[0] + along[:, None, None], corners[1] + along[:, None]]
    return squares


def _halve(picture: Floats) -> Floats:
    """Compute the means of two by two pixels."""
    halved: Floats = (picture[::2] + picture[1::2])[:, ::2] / 4 + (picture[::2] + picture[1::2])[:, 1::2] / 4
    return halved


def _fit_camera(places: Complex, vectors: Complex, weights: Floats) -> Complex:
    """Fit the shift, zoom and turn that most blocks follow, and return their vectors: least squares, repeated without
    the outliers.

    A shift, a zoom and a turn are together one complex line: vector = shift + factor * place.
    """
    # The median shift comes first: a thing that covers less than half of the frame does not draw the fit to it.
    shift, factor, centre = complex(_median(vectors.real, weights), _median(vectors.imag, weights)), 0j, 0j
    for _ in range(ROUNDS):
        residual = np.abs(vectors - shift - factor * (places - centre))
        fitting = weights * (residual <= 2 * _median(residual, weights))
        fitting = fitting / fitting.sum()
        centre, shift = complex(fitting @ places), complex(fitting @ vectors)
        around = places - centre
        spread = float(fitting @ np.abs(around) ** 2)
        factor = complex((fitting * around.conj()) @ (vectors - shift)) / spread if spread else 0j
    camera: Complex = shift + factor * (places - centre)
    return camera


def _median(values: Floats, weights: Floats) -> float:
    """Return the value at which half of the weight is reached."""
    order = np.argsort(values)
    total = np.cumsum(weights[order])
    return float(values[order[np.searchsorted(total, total[-1] / 2)]])
