"""The rule that chooses which frames of a video are sampled."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def choose_frame_indices(n_frames: int, every: int = 30, cap: int | None = None) -> NDArray[np.int64]:
    """Return the frame numbers 0, ``every``, 2 * ``every``, ... below ``n_frames``, thinned evenly to at most ``cap``
    of them; None is no limit. The first frame is always among them; without frames the result is empty.

    The step is EVQAScore's (section 3). If there are m such numbers and m is above ``cap``, the numbers at positions
    ``floor(i * m / cap)`` for i = 0 .. cap - 1 are kept. They begin ``cap`` equal stretches of the video. So the first
    frame is always sampled, no frame is sampled twice, and a cap that is not reached changes nothing.

    Args:
        n_frames: number of frames; 0 gives an empty result.
        every: distance between two sampled frames, at least 1.
        cap: largest number of sampled frames, at least 1; None for no limit.

    Returns:
        int64, shape (T,), strictly increasing.

    Raises:
        ValueError: an argument is out of its range.

    Examples:
        >>> choose_frame_indices(100, every=30).tolist()
        [0, 30, 60, 90]
        >>> choose_frame_indices(100, every=10, cap=4).tolist()
        [0, 20, 50, 70]
    """
    if n_frames < 0:
        raise ValueError(f"n_frames must not be negative, got {n_frames}")
    if every < 1:
        raise ValueError(f"every must be at least 1, got {every}")
    if cap is not None and cap < 1:
        raise ValueError(f"cap must be at least 1 or None, got {cap}")
    indices = np.arange(0, n_frames, every, dtype=np.int64)
    if cap is None or len(indices) <= cap:
        return indices
    return indices[np.arange(cap) * len(indices) // cap]
