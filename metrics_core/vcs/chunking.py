"""From segments (sentences, or words for short captions) to the chunks that VCS compares."""

from __future__ import annotations

from collections.abc import Sequence


def chunk_segments(segments: Sequence[str], chunk_size: int = 1) -> list[str]:
    """Join each run of `chunk_size` consecutive segments with one space; a shorter last run is kept.

    Raises ValueError when `chunk_size` is below 1.

    >>> chunk_segments(["A man enters.", "He sits.", "He reads."], chunk_size=2)
    ['A man enters. He sits.', 'He reads.']
    """
    if chunk_size < 1:
        raise ValueError(f"chunk_size is {chunk_size}: give the number of segments per chunk, 1 or more.")
    return [" ".join(segments[i : i + chunk_size]) for i in range(0, len(segments), chunk_size)]
