"""Prepare a video's features once for all its texts: unit rows to compare with keywords, and one pooled vector."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from metrics_core.arrays import FloatArray
from metrics_core.evqa.result import Status
from metrics_core.vectors import BadFeature, average_unit_rows, normalise_rows, require_feature_rows


@dataclass(frozen=True, slots=True, eq=False)
class VideoFeatures:
    """Features of one video, to compare with any number of texts. pooled_vector (d,): f_V, the mean of the frames' unit
    vectors, scaled to length 1. local_rows (n, d): the unit vectors that keywords are matched with, of regions if there
    are any, else of frames. Where `status` is not "ok", `reason` explains why, and both are empty.
    """

    pooled_vector: FloatArray
    local_rows: FloatArray
    status: Status = "ok"
    reason: str | None = None


def prepare_frames(frames: npt.ArrayLike, regions: npt.ArrayLike | None = None) -> VideoFeatures:
    """Return the features of a video's sampled frames (T, d), normalised and pooled once for all its texts. Without
    frames, or with a bad feature, they are a status and empty arrays. regions (n, d): crops of these frames; if there
    are any, keywords are matched with them instead. Raises ValueError for arrays of a wrong shape.

    The pooled vector stays the mean of the frames. Rows need not have unit length. A video without frames or with a bad
    feature gets a status, because one video of thousands may be such.

    >>> prepare_frames([[3.0, 0.0], [0.0, 0.5]]).pooled_vector.round(4).tolist()
    [0.7071, 0.7071]
    >>> prepare_frames([]).status
    'no_frames'
    """
    frame_rows = require_feature_rows("frames", frames)
    region_rows = require_feature_rows("regions", [] if regions is None else regions)
    if len(frame_rows) == 0:
        return VideoFeatures(np.empty(0), np.empty((0, 0)), "no_frames", "no frame of the video could be sampled")
    if len(region_rows) and region_rows.shape[1] != frame_rows.shape[1]:
        raise ValueError(
            f"frames have {frame_rows.shape[1]} dimensions, regions {region_rows.shape[1]}: use one encoder for both."
        )
    try:
        units = normalise_rows("frame", frame_rows)
        pooled = average_unit_rows("frames", units)
        local = normalise_rows("region", region_rows) if len(region_rows) else units
    except BadFeature as error:
        return VideoFeatures(np.empty(0), np.empty((0, 0)), "bad_feature", str(error))
    return VideoFeatures(pooled, local)
