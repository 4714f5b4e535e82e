"""The split of a dataset's videos into training part and test part, by the hash of their keys."""

from __future__ import annotations

import hashlib

TEST_SHARE = 0.2
"""The share of the videos that a trial holds out."""


def is_test_video(key: str) -> bool:
    """Whether a video belongs to the test part: a fixed share of all keys does, whatever other videos there are.

    >>> sum(is_test_video(f"video_{i}") for i in range(1000))
    194
    """
    digest = hashlib.sha256(f"0\t{key}".encode()).digest()
    return int.from_bytes(digest[:8], "big") < TEST_SHARE * 2**64
