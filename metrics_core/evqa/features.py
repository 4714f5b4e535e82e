"""Raw features of an image-text encoder made comparable: unit rows, and the pooled vector of a video."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from metrics_core.evqa.result import Status

FloatArray = npt.NDArray[np.float64]

CANCELLED = 1e-12
"""A mean of unit vectors shorter than this is rounding noise and has no direction."""


class BadFeature(ValueError):
    """A feature without a direction: zero, NaN or infinite."""


@dataclass(frozen=True, slots=True, eq=False)
class FrameFeatures:
    """A video ready to be compared with any number of texts; made by `prepare_frames`.

    `pooled` is f_V (d,), `local` the unit rows (n, d) that keywords are matched with: regions where there are any,
    else frames. Where `status` is not "ok" the video cannot be scored, `reason` says why and both arrays are empty.
    """

    pooled: FloatArray
    local: FloatArray
    status: Status = "ok"
    reason: str | None = None


def prepare_frames(frames: npt.ArrayLike, regions: npt.ArrayLike | None = None) -> FrameFeatures:
    """Normalise and pool the features of a video's sampled frames (T, d) once, for all its texts.

    regions: features (n, d) of crops of these frames; where given and not empty, the keywords are matched with them
    instead of the frames, while f_V stays the mean of the frames. Rows may be raw. No frames or a bad feature give a
    status, because one video of thousands may have them; ValueError is for arrays of a wrong shape.

    >>> prepare_frames([[3.0, 0.0], [0.0, 0.5]]).pooled.round(4).tolist()
    [0.7071, 0.7071]
    >>> prepare_frames([]).status
    'no_frames'
    """
    frame_rows = feature_rows("frames", frames)
    region_rows = feature_rows("regions", [] if regions is None else regions)
    if len(frame_rows) == 0:
        return FrameFeatures(np.empty(0), np.empty((0, 0)), "no_frames", "no frame of the video could be sampled")
    if len(region_rows) and region_rows.shape[1] != frame_rows.shape[1]:
        raise ValueError(
            f"frames have {frame_rows.shape[1]} dimensions, regions {region_rows.shape[1]}: use one encoder for both."
        )
    try:
        units = unit_rows("frame", frame_rows)
        pooled = unit_mean("frames", units)
        local = unit_rows("region", region_rows) if len(region_rows) else units
    except BadFeature as error:
        return FrameFeatures(np.empty(0), np.empty((0, 0)), "bad_feature", str(error))
    return FrameFeatures(pooled, local)


def feature_rows(name: str, values: npt.ArrayLike) -> FloatArray:
    """`values` as float64 (n, d), n possibly 0; ValueError for another shape."""
    rows = np.asarray(values, dtype=np.float64)
    if rows.ndim in (1, 2) and len(rows) == 0:
        return np.empty((0, 0))
    if rows.ndim != 2 or rows.shape[1] == 0:
        raise ValueError(f"{name} have shape {rows.shape}: give one row of features each, (n, d) with d at least 1.")
    return rows


def unit_rows(name: str, rows: FloatArray) -> FloatArray:
    """Rows scaled to length 1; BadFeature names the first row that has no direction."""
    peak = np.abs(rows).max(axis=1, keepdims=True)
    bad = np.flatnonzero(~(np.isfinite(peak) & (peak > 0)))
    if bad.size:
        raise BadFeature(f"row {bad[0]} of the {name} features is zero or not finite: check the encoder's output")
    # Squares of very large or small values would leave the range of float64, so the largest becomes 1 first.
    scaled = rows / peak
    unit: FloatArray = scaled / np.linalg.norm(scaled, axis=1, keepdims=True)
    return unit


def unit_mean(name: str, units: FloatArray, weights: FloatArray | None = None) -> FloatArray:
    """Mean of unit rows (n, d), scaled to length 1 again; BadFeature where the rows cancel out."""
    mean = np.asarray(np.average(units, axis=0, weights=weights), dtype=np.float64)
    length = float(np.linalg.norm(mean))
    if length < CANCELLED:
        raise BadFeature(f"the features of the {name} cancel out: their mean has no direction")
    return mean / length
