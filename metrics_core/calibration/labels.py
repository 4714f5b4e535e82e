"""The split of videos into those whose labels thresholds are chosen on, and the other ones."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np

from metrics_core.arrays import BoolArray

CALIBRATION_SHARE = 0.20


def compute_split_position(key: str) -> float:
    """Compute the position of a key in [0, 1] for a split by hash: the first 64 bits of its SHA-256 (UTF-8), divided by
    2^64. Raises ValueError for an empty key.

    >>> round(compute_split_position("v_uqiMw7tQ1Cc"), 6)
    0.067378
    """
    if not key:
        raise ValueError("The key is empty: give the id of the source video, or the video's own where it has none.")
    return int.from_bytes(hashlib.sha256(key.encode("utf-8")).digest()[:8], "big") / 2**64


def mark_calibration_keys(keys: Iterable[str], share: float = CALIBRATION_SHARE) -> BoolArray:
    """Return a mask (n,) of the keys whose labels thresholds may be chosen on: those with a `compute_split_position`
    below `share`, by default about 20 %. keys: ids of source videos, or of videos without a source. Raises ValueError
    for an empty key and for a share outside [0, 1].

    The split is by hash, so that adding a video never moves another one. Two parts of one film on both sides of the
    split would leak, so they share the key of their source.

    >>> mark_calibration_keys(["v_uqiMw7tQ1Cc", "v_FsS_NCZEfaI"]).tolist()
    [True, False]
    """
    if not 0 <= share <= 1:
        raise ValueError(f"share is {share}: give the share of keys to calibrate with, in [0, 1].")
    return np.array([compute_split_position(key) < share for key in keys], dtype=np.bool_)
