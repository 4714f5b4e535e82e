"""Which videos calibrate and which evaluate: a split by hash, so that adding a video never moves another one."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

CALIBRATION_SHARE = 0.20


def split_position(key: str) -> float:
    """Where a key falls in [0, 1]: the first 64 bits of its SHA-256 (UTF-8), over 2^64.

    >>> round(split_position("v_uqiMw7tQ1Cc"), 6)
    0.067378
    """
    if not key:
        raise ValueError("The key is empty: give the id of the source video, or of the clip where it has none.")
    return int.from_bytes(hashlib.sha256(key.encode("utf-8")).digest()[:8], "big") / 2**64


def calibration_mask(keys: Iterable[str], share: float = CALIBRATION_SHARE) -> npt.NDArray[np.bool_]:
    """True (n,) for the keys in the calibration part: those that fall below `share`.

    The key is the source video's id, else the clip's: clips of one film in both parts would leak. Raises ValueError
    for an empty key and for a share outside [0, 1].

    >>> calibration_mask(["v_uqiMw7tQ1Cc", "v_FsS_NCZEfaI"]).tolist()
    [True, False]
    """
    if not 0 <= share <= 1:
        raise ValueError(f"share is {share}: give the share of keys to calibrate with, in [0, 1].")
    return np.array([split_position(key) < share for key in keys], dtype=np.bool_)
