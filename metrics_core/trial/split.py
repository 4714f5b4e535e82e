"""The split of a dataset's videos into training, validation and test part, by the hash of their keys."""

from __future__ import annotations

import hashlib
from typing import Literal

TEST_SHARE, VALIDATION_SHARE = 0.2, 0.1
"""The shares of the videos that a trial holds out: to compare students, and to stop their training."""

Part = Literal["training", "validation", "test"]


def choose_part(key: str) -> Part:
    """Choose the part of a video by its key: each part has a fixed share of all keys, whatever other videos there are.

    >>> [choose_part(f"video_{i}") for i in range(1000)].count("test")
    194
    """
    digest = hashlib.sha256(f"0\t{key}".encode()).digest()
    place = int.from_bytes(digest[:8], "big") / 2**64
    if place < TEST_SHARE:
        return "test"
    return "validation" if place < TEST_SHARE + VALIDATION_SHARE else "training"
