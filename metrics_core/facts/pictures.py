"""Measures facts about the frames of a video: change, motion, sharpness, light, cuts and bars. Pure functions on
arrays.

Luma is uint8 with black at 16 and white at 235, as codecs store it. Shares lie between 0 and 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil, floor
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from metrics_core.facts.models import ModelFacts
from metrics_core.facts.motion import Motion, measure_motion
from metrics_core.facts.signatures import SignatureScan

Luma = NDArray[np.uint8]
Floats = NDArray[np.floating[Any]]

# Raised by hand when a number changes; videos are then measured anew.
PICTURE_FACTS_VERSION = "3"

BLACK, WHITE = 16, 235
# As FFmpeg's blackdetect: a pixel is dark up to a tenth of the range, and a frame black with so many dark pixels.
DARK = BLACK + 0.1 * (WHITE - BLACK)
DARK_SHARE = 0.98
BRIGHTEST_BLACK = DARK_SHARE * DARK + (1 - DARK_SHARE) * 255
# Rows and columns of the grid of pixels that are read in every frame; rows of a frame that are read for its sharpness.
GRID_ROWS, GRID_COLUMNS = 40, 72
SHARP_ROWS = 48
# Change and motion are measured over so many seconds, in copies of frames with so many rows, where the coding of single
# frames and their number a second are hardly seen; motion is measured for every second step. In a step longer than the
# second limit, where frames are rare, motion is not known.
STEP_S, LONGEST_STEP_S = 0.2, 0.3
# Steps of one held frame that are listed one by one; time stamps may jump by a day.
MOST_STEPS = 20_000
SMALL_ROWS = 72
MOTION_EVERY = 2
# Stillness is judged by the blocks that change most, so that a small actor before a still camera is not still:
# blocks of four by four pixels of the small copy of a frame, and the hundredth part of them.
BLOCK = 4
MOST_CHANGED = 0.01
# Grey levels by which these blocks change at least where something moves, and where the frame is another one at all.
# Noise of still shots stays below the first, and the moves of a coded frozen frame below the second.
STILL, FROZEN = 5.0, 1.0
# A cut changes the frame by so many grey levels, and by so many times more than any other pair within a step.
CUT_LEVELS, CUT_TIMES = 12.0, 2.5
# A frame repeats the one before if the squares that differ most, of so many rows of squares, differ by less than this
# in grey levels, or as a share of the pairs around it.
SQUARE_ROWS = 18
REPEATED_LEVELS, REPEATED_SHARE = 0.1, 0.25
# A row or column is in the frame, and no bar, where means over its parts reach a tenth of the range, or differ by so
# many grey levels, in the frames above this quantile.
BAR_PARTS, BAR_SPREAD, BAR_QUANTILE = 16, 8.0, 0.8


@dataclass(frozen=True, slots=True)
class PictureFacts:
    """Facts about the frames of one video, such as motion, sharpness and cuts; None where there is nothing to measure.
    A fact with `_min` and `_max` is the median over the measured frames or steps of 0.2 s; these two are the extremes.

    Attributes:
        motion: mean length of the motion of blocks, in heights of the upright frame a second; median over steps of
            0.2 s. None for videos shorter than that, with frames more than 0.3 s apart, and without any structure.
        camera_motion: the part of it that one shift, zoom and turn of the whole frame explains; median over steps.
        object_motion: mean length of what is left of the motion; median over steps.
        frame_change: mean absolute difference of two blurred frames 0.2 s apart, in grey levels of 0 to 255.
        static_share, frozen_share: share of the time in which the hundredth of the blocks that changes most changes by
            less than five grey levels in 0.2 s, and by less than one.
        black_share: share of the time in which 98 % of the pixels are dark.
        sharpness: variance of the Laplacian in grey levels, at the stored size. It grows with texture and noise, and
            falls with the bit rate: it is no quality.
        brightness: mean luma from black (0) to white (1).
        contrast: standard deviation of the luma on the same scale.
        cuts: number of hard cuts.
        letterbox: share of the frame that black bars at its edges take; None where all is black.
        signature: 128 bytes in hexadecimal, by which a copy is known again; None where all frames are flat.
        repeated_share: share of the frames that repeat the frame before them.
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
    repeated_share: float | None = None


class VideoMeasurement(NamedTuple):
    """The facts about the frames of a video file; whether it has a sound track, even a silent one; and facts about
    text on screen and speech, None where no model measured them.
    """

    facts: PictureFacts
    has_sound: bool
    by_models: ModelFacts = ModelFacts()


@dataclass(frozen=True, slots=True)
class PictureChange:
    """The change from one small copy of a frame to a later one, `seconds` apart, in grey levels. mean: over all blocks
    of 4 x 4 pixels; greatest: over the hundredth of the blocks that change most.
    """

    seconds: float
    mean: float
    greatest: float


@dataclass
class FrameScan:
    """The measurements of one video so far: call `add_frame` with each frame in order, `add_details` with some of them,
    then `compute_facts`. frame_s: seconds of a frame where none is held longer than usual; 0 where unknown, and none
    then counts as held. turns: quarter turns, anticlockwise, that make a frame upright.

    A frame that is held counts as the copies of it that a file of a constant rate would have: they change by 0, and
    `is_held` marks these changes.
    """

    frame_s: float = 0.0
    turns: int = 0
    start_times: list[float] = field(default_factory=list)
    mean_luma: list[float] = field(default_factory=list)
    is_black: list[bool] = field(default_factory=list)
    changes: list[float] = field(default_factory=list)
    most_changes: list[float] = field(default_factory=list)
    is_held: list[bool] = field(default_factory=list)
    steps: list[PictureChange] = field(default_factory=list)
    contrast: list[float] = field(default_factory=list)
    sharpness: list[float] = field(default_factory=list)
    motions: list[Motion] = field(default_factory=list)
    signature_scan: SignatureScan = field(default_factory=SignatureScan)
    bar_scan: BarScan = field(default_factory=lambda: BarScan())
    end_s: float | None = None
    _luma: Luma | None = None
    _last: NDArray[np.int16] | None = None
    _squares: Floats = field(default_factory=lambda: np.zeros(0))
    _small: Floats | None = None
    _small_at: float = 0.0
    _next_at: float = 0.0

    def add_frame(self, luma: Luma, time_s: float) -> None:
        """Measure the next frame, luma of shape (H, W), shown from `time_s` (seconds) on: light, change, motion and
        signature. A frame of another size than the last is not compared with it.
        """
        step_s = self.hold_last_frame(time_s) if self.start_times else 0.0
        # Every frame comes by here: a few whole-number operations on few pixels, or it would cost as much as decoding.
        grid = _pick_grid_pixels(luma).astype(np.int16)
        squares = _average_squares(luma)
        mean = int(grid.sum()) / grid.size
        self.mean_luma.append(mean)
        self.signature_scan.add_frame(np.rot90(luma, self.turns))
        self.is_black.append(mean <= BRIGHTEST_BLACK and bool((grid <= DARK).mean() >= DARK_SHARE))
        if self._last is not None and self._last.shape == grid.shape:
            self._last -= grid
            np.abs(self._last, out=self._last)
            self.changes.append(int(self._last.sum()) / grid.size)
            self.most_changes.append(_average_greatest(np.abs(squares - self._squares)))
            self.is_held.append(False)
        self._last, self._squares, self._luma = grid, squares, luma
        if not self.start_times:
            self._next_at = time_s
        # The frame nearest to the end of the step, judged by the frames so far.
        if not self.start_times or time_s >= self._next_at - step_s / 2:
            self._add_small_picture(shrink_picture(luma, self.turns), time_s)
        self.start_times.append(time_s)

    def hold_last_frame(self, end_s: float) -> float:
        """Count the last frame as shown until `end_s` (seconds), if that is longer than usual. Return the seconds from
        the frame's start to `end_s`, or where copies of it were measured, from the start of the last copy.
        """
        self.end_s = end_s
        seconds = end_s - self.start_times[-1]
        n_copies = round(seconds / self.frame_s) - 1 if self.frame_s else 0
        if n_copies < 1 or self._luma is None:
            return seconds
        copies = min(n_copies, 2 * self._compute_reach())
        self.changes += [0.0] * copies
        self.most_changes += [0.0] * copies
        self.is_held += [True] * copies
        if seconds <= LONGEST_STEP_S:
            return seconds
        small, until_s, n_motions = shrink_picture(self._luma, self.turns), end_s - self.frame_s / 2, len(self.motions)
        # A step that may change, and the copies of which motion is measured; the others change nothing.
        for _ in range(1 + MOTION_EVERY):
            if self._next_at < until_s:
                self._add_small_picture(small, self._next_at)
        n = max(0, ceil((until_s - self._next_at) / STEP_S))
        n_steps = min(n, MOST_STEPS)
        self.steps += [PictureChange(n * STEP_S / n_steps, 0.0, 0.0)] * n_steps if n else []
        self.motions += self.motions[n_motions:][-1:] * (n_steps // MOTION_EVERY)
        self._next_at += n * STEP_S
        self._small_at += n * STEP_S
        return self.frame_s

    def _compute_reach(self) -> int:
        """Compute how many frames a cut is compared with on either side."""
        frame_s = self.frame_s or float(np.median(compute_frame_durations(self.start_times)))
        return max(2, round(STEP_S / frame_s))

    def _add_small_picture(self, small: Floats, time_s: float) -> None:
        """Compare the small copy of a frame with the one a step before."""
        seconds = time_s - self._small_at
        if self._small is not None and self._small.shape == small.shape:
            self.steps.append(_measure_change(self._small, small, seconds))
            if seconds <= LONGEST_STEP_S and len(self.steps) % MOTION_EVERY == 1:
                motion = measure_motion(self._small, small, seconds)
                self.motions += [motion] if motion else []
        self._small, self._small_at = small, time_s
        # Steps keep their grid, so that frames that lie off it make them no longer.
        self._next_at += STEP_S * max(1, floor((time_s - self._next_at) / STEP_S + 1.5))

    def add_details(self, luma: Luma) -> None:
        """Measure contrast, sharpness and black bars of a frame, luma of shape (H, W). A frame of fewer than 3 x 3
        pixels has no sharpness.
        """
        self.contrast.append(float(_pick_grid_pixels(luma).std()))
        if (value := laplacian_variance(luma)) is not None:
            self.sharpness.append(value)
        self.bar_scan.add_frame(luma)

    def compute_facts(self) -> PictureFacts:
        """Compute the facts about the frames added so far. A fact that cannot be measured is None; without a frame
        every fact is.
        """
        means, spreads = np.array(self.mean_luma), np.array(self.contrast)
        shown = compute_frame_durations(self.start_times, self.end_s)
        seconds = np.array([step.seconds for step in self.steps])
        most = np.array([step.greatest for step in self.steps])
        reach = self._compute_reach() if len(shown) else 2
        looks = BarScan()
        for look in self.signature_scan.looks:
            looks.add_frame(look)
        signature = self.signature_scan.compute_signature(looks.find_picture())
        cuts = list_cuts(self.changes, reach)
        repeats = mark_repeated_frames(self.most_changes, reach, cuts)
        n_repeats = sum(is_repeat > is_held for is_repeat, is_held in zip(repeats, self.is_held, strict=True))
        scale = WHITE - BLACK
        return PictureFacts(
            *_spread([motion.length for motion in self.motions]),
            _median([motion.camera for motion in self.motions]),
            _median([motion.objects for motion in self.motions]),
            *_spread([step.mean for step in self.steps]),
            _share(most < STILL, seconds),
            _share(most < FROZEN, seconds),
            _share(np.array(self.is_black), shown),
            *_spread(self.sharpness),
            *_spread(np.clip((means - BLACK) / scale, 0, 1)),
            *_spread(spreads / scale),
            len(cuts) if self.mean_luma else None,
            self.bar_scan.compute_share(),
            None if signature is None else signature.hex(),
            n_repeats / len(self.mean_luma) if self.mean_luma else None,
        )


def _pick_grid_pixels(luma: Luma) -> Luma:
    """Return an even grid of a frame's pixels, luma of shape (H, W), as a view: enough for its light and its change. It
    has at least 40 rows and 72 columns, up to twice as many, or all pixels of a smaller frame.
    """
    rows, columns = max(1, luma.shape[0] // GRID_ROWS), max(1, luma.shape[1] // GRID_COLUMNS)
    return luma[rows // 2 :: rows, columns // 2 :: columns]


def _average_squares(luma: Luma) -> Floats:
    """Return the means of a frame over squares in 18 rows, float32 of shape (h, w), from all pixels but some at its
    edges; of every pixel of a frame with fewer rows.
    """
    height, width = luma.shape
    n_rows = min(SQUARE_ROWS, height)
    n_columns = max(1, min(width, round(n_rows * width / height)))
    high, wide = height // n_rows, width // n_columns
    top, left = (height - high * n_rows) // 2, (width - wide * n_columns) // 2
    # Whole rows are added in the smallest numbers that hold the sum: ten times as fast as adding both ways at once.
    rows = luma[top : top + high * n_rows].reshape(n_rows, high, width)
    sums = rows.sum(axis=1, dtype=np.uint16 if high <= 257 else np.uint32)[:, left : left + wide * n_columns]
    squares: Floats = sums.reshape(n_rows, n_columns, wide).sum(axis=2, dtype=np.uint32) / np.float32(high * wide)
    return squares


def shrink_picture(luma: Luma, turns: int = 0) -> Floats:
    """Return a small upright copy of a frame in its proportions: the means over squares, in 72 rows, float32 (h, w). A
    frame with fewer rows keeps them all. turns: quarter turns that make the frame upright.
    """
    height, width = luma.shape
    if turns % 2:
        n_columns = min(SMALL_ROWS, width)
        n_rows = max(1, min(height, round(n_columns * height / width)))
    else:
        n_rows = min(SMALL_ROWS, height)
        n_columns = max(1, min(width, round(n_rows * width / height)))
    rows, columns = _edges(height, n_rows)[:-1], _edges(width, n_columns)
    # Whole rows are added, as many to every square: many times as fast as adding both ways at once.
    sums = luma[rows].astype(np.uint32)
    for row in range(1, height // n_rows):
        sums += luma[rows + row]
    areas = height // n_rows * np.diff(columns)
    means = (np.add.reduceat(sums, columns[:-1], axis=1) / areas).astype(np.float32)
    return np.ascontiguousarray(np.rot90(means, turns))


def _measure_change(before: Floats, after: Floats, seconds: float) -> PictureChange:
    """Measure the change between two small copies of frames, of the same shape, `seconds` apart: in grey levels on
    average, and in the hundredth of the blocks that change most. Changes are scaled to 0.2 s, except where the frames
    are more than 0.3 s apart.
    """
    rows, columns = (_edges(side, max(1, round(side / BLOCK)))[:-1] for side in before.shape)
    differences = np.add.reduceat(np.add.reduceat(after - before, rows, axis=0), columns, axis=1)
    sizes = np.outer(np.diff([*rows, before.shape[0]]), np.diff([*columns, before.shape[1]]))
    changes = np.abs(differences / sizes)
    if seconds <= LONGEST_STEP_S:
        changes = changes * (STEP_S / seconds)
    return PictureChange(seconds, float(changes.mean()), _average_greatest(changes))


def _average_greatest(changes: Floats) -> float:
    """Return the mean of the hundredth part of the changes that is largest."""
    n = max(1, round(MOST_CHANGED * changes.size))
    return float(np.partition(changes, changes.size - n, axis=None)[-n:].mean())


def compute_frame_durations(times: Sequence[float], end_s: float | None = None) -> NDArray[np.float64]:
    """Compute how many seconds each frame is shown, from the times (seconds) at which frames begin: an array (n,). The
    last frame is shown until `end_s`; with None it counts as long as the median, a single one for one second. An empty
    array without frames.

    >>> compute_frame_durations([0.0, 0.5, 1.0, 3.0]).tolist()
    [0.5, 0.5, 2.0, 0.5]
    """
    if not times:
        return np.empty(0)
    shown = np.diff(times)
    usual = float(np.median(shown)) if len(shown) else 1.0
    return np.append(shown, usual if end_s is None or end_s <= times[-1] else end_s - times[-1])


def laplacian_variance(luma: Luma) -> float | None:
    """Compute the variance of the Laplacian of a frame, a measure of its sharpness. luma: shape (H, W), of which about
    48 rows or more are read. None for fewer than 3 rows or columns.

    >>> laplacian_variance(np.full((9, 9), 80, dtype=np.uint8))
    0.0
    """
    height, width = luma.shape
    if height < 3 or width < 3:
        return None
    at = np.arange(1, height - 1, max(1, height // SHARP_ROWS))
    centre, above, below = (luma[at + step].astype(np.int16) for step in (0, -1, 1))
    laplacian = 4 * centre[:, 1:-1] - centre[:, :-2] - centre[:, 2:] - above[:, 1:-1] - below[:, 1:-1]
    return float(laplacian.var(dtype=np.float64))


def list_cuts(changes: Sequence[float], reach: int) -> list[int]:
    """List the numbers of the frames that begin a new shot, in ascending order; frame 0 never does. `changes[t]` is the
    change from frame t to frame t + 1, in grey levels. A cut is a change of 12 or more that is at least 2.5
    times as great as any other within `reach` changes on either side.

    A flash makes two great changes, fast motion many, a fade none, and a single change has nothing to be compared with.
    `reach` must go farther than frames are repeated: where a file of thirty frames a second shows ten, every third
    pair is a great change and two are none.

    >>> list_cuts([1, 1, 1, 40, 1, 1], 2), list_cuts([1, 1, 40, 40, 1, 1], 2)
    ([4], [])
    >>> list_cuts([0, 0, 40, 0, 0, 38, 0, 0, 41], 6)
    []
    """
    frames = []
    for place, change in enumerate(changes):
        if change >= CUT_LEVELS:
            around = [*changes[max(0, place - reach) : place], *changes[place + 1 : place + 1 + reach]]
            if around and change >= CUT_TIMES * max(around):
                frames.append(place + 1)
    return frames


def mark_repeated_frames(changes: Sequence[float], reach: int, cuts: Sequence[int] = ()) -> list[bool]:
    """Mark the frames that repeat the frame before: a list of bools, where place t belongs to frame t + 1; [] without
    `changes`, from frame t to frame t + 1 in grey levels. A repeat changes by less than 0.1, or than a quarter of the
    largest change within `reach` places. `cuts`, which begin shots, do not count.

    Coding changes a repeated frame a little.

    >>> mark_repeated_frames([0, 0.5, 9, 0.5, 0.5, 8, 0.5, 40, 2], 2, [8])
    [True, True, False, True, True, False, True, False, False]
    """
    if not changes:
        return []
    kept = np.array(changes, dtype=np.float64)
    kept[[frame - 1 for frame in cuts]] = 0.0
    greatest = np.lib.stride_tricks.sliding_window_view(np.pad(kept, reach), 2 * reach + 1).max(axis=1)
    limits = np.maximum(REPEATED_LEVELS, REPEATED_SHARE * greatest)
    is_repeat: list[bool] = (np.array(changes) < limits).tolist()
    return is_repeat


@dataclass
class BarScan:
    """Counts in how many of a video's `n` frames each row and each column shows more than an even dark grey (`rows`,
    `columns`), to find black bars at the edges.
    """

    n: int = 0
    rows: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    columns: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))

    def add_frame(self, luma: Luma) -> None:
        """Count a frame, luma of shape (H, W). A frame of another size than the first is left out."""
        if not self.n:
            self.rows, self.columns = (np.zeros(side, np.int64) for side in luma.shape)
        if luma.shape == (len(self.rows), len(self.columns)):
            self.n += 1
            self.rows += _is_lit(luma)
            self.columns += _is_lit(luma.T)

    def find_picture(self) -> tuple[slice, slice] | None:
        """Find the rows and columns of the frame between black bars at its edges. A row or column belongs to the
        frame, and to no bar, if it shows something in about a fifth of the frames or more. None without such a row or
        column, as without frames.

        Of n frames a row must be lit in n - floor(.8 (n - 1)), so in both of two: a white frame does not end a bar, nor
        does a dark scene make one.
        """
        least = self.n - floor(BAR_QUANTILE * (self.n - 1))
        (rows,), (columns,) = np.nonzero(self.rows >= least), np.nonzero(self.columns >= least)
        if not len(rows) or not len(columns):
            return None
        return slice(int(rows[0]), int(rows[-1]) + 1), slice(int(columns[0]), int(columns[-1]) + 1)

    def compute_share(self) -> float | None:
        """Compute the share of the frame that black bars at its edges take, in [0, 1); None where all is black, or
        without frames.
        """
        if (inside := self.find_picture()) is None:
            return None
        rows, columns = (each.stop - each.start for each in inside)
        return round(1 - float(rows * columns) / (len(self.rows) * len(self.columns)), 12)


def _is_lit(luma: Luma) -> NDArray[np.bool_]:
    """Mark the rows of a frame that show something, shape (H,); means over parts of a row remove the grain."""
    edges = _edges(luma.shape[1], min(BAR_PARTS, luma.shape[1]))
    means = np.add.reduceat(luma, edges[:-1], axis=1, dtype=np.uint32) / np.diff(edges)
    is_lit: NDArray[np.bool_] = (means.max(axis=1) > DARK) | (np.ptp(means, axis=1) > BAR_SPREAD)
    return is_lit


def _edges(size: int, n: int) -> NDArray[np.int64]:
    """Return where n parts of a size begin and end, as equal as whole numbers allow."""
    return np.arange(n + 1) * size // n


def _spread(values: Sequence[float] | Floats) -> tuple[float | None, float | None, float | None]:
    """Return the median, the lowest and the highest value; None for no values."""
    if not len(values):
        return None, None, None
    return float(np.median(values)), float(np.min(values)), float(np.max(values))


def _median(values: Sequence[float]) -> float | None:
    return float(np.median(values)) if values else None


def _share(which: NDArray[np.bool_], seconds: Floats) -> float | None:
    """Compute the share of the time for which something is true."""
    return float(np.average(which, weights=seconds)) if len(which) else None
