"""The split of a dataset's videos into training part and test part, by the hash of their keys."""

from __future__ import annotations

import hashlib

TEST_SHARE = 0.2
"""The share of the videos that a trial holds out."""


def is_test_video(key: str, share: float = TEST_SHARE, seed: int = 0) -> bool:
    """Whether a video belongs to the test part: a fixed share of all keys does, whatever other videos there are.

    Raises ValueError for a share outside (0, 1).

    >>> sum(is_test_video(f"video_{i}") for i in range(1000))
    194
    """
    if not 0 < share < 1:
        raise ValueError(f"share is {share}: give the share of test videos, above 0 and below 1.")
    digest = hashlib.sha256(f"{seed}\t{key}".encode()).digest()
    return int.from_bytes(digest[:8], "big") < share * 2**64
