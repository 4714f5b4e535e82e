"""Coverage: the share of a checklist's keypoints that is covered, over all keypoints or as a mean over dimensions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

Counts = Mapping[str, tuple[int, int]]
"""By dimension: (covered keypoints, all keypoints)."""

Average = Literal["micro", "macro"]


def count_covered(dimensions: Iterable[str], covered: Iterable[bool]) -> dict[str, tuple[int, int]]:
    """Count (covered, all) keypoints by dimension, given the dimension and the verdict of every keypoint.

    Dimensions come in order of first appearance.

    >>> count_covered(["events", "camera", "events"], [True, False, False])
    {'events': (1, 2), 'camera': (0, 1)}
    """
    counts: dict[str, tuple[int, int]] = {}
    for dimension, is_covered in zip(dimensions, covered, strict=True):
        hits, total = counts.get(dimension, (0, 0))
        counts[dimension] = hits + bool(is_covered), total + 1
    return counts


def coverage(counts: Counts, average: Average = "micro") -> float | None:
    """Compute the covered share of the keypoints, in [0, 1]; None where there is no keypoint.

    "micro" counts every keypoint alike (Eq. 2 of arXiv 2602.08711); "macro" averages over the dimensions that have
    keypoints. The coverage of a reference segment is the score of a pair; the coverage of a whole clip is its score
    without alignment (flat_micro, flat_macro). Raises ValueError for another average and for impossible counts.

    >>> counts = {"events": (2, 4), "camera": (1, 1), "speech": (0, 0)}
    >>> coverage(counts), coverage(counts, "macro"), coverage({"speech": (0, 0)})
    (0.6, 0.75, None)
    """
    if average not in ("micro", "macro"):
        raise ValueError(f'average is {average!r}: give "micro" or "macro".')
    for dimension, (covered, total) in counts.items():
        if not 0 <= covered <= total:
            raise ValueError(f"{dimension!r} has {covered} of {total} keypoints covered: give 0 <= covered <= all.")
    filled = [(covered, total) for covered, total in counts.values() if total]
    if not filled:
        return None
    if average == "macro":
        return sum(covered / total for covered, total in filled) / len(filled)
    return sum(covered for covered, _ in filled) / sum(total for _, total in filled)


def verifier_passes(n_keypoints: int, n_sentences: int, r: int | None = None) -> int:
    """Count the verifier's forward passes on one text: every keypoint meets its best r sentences, or all (r=None).

    >>> verifier_passes(3, 5, r=2), verifier_passes(3, 5), verifier_passes(3, 1, r=2), verifier_passes(3, 0, r=2)
    (6, 15, 3, 0)
    """
    if r is not None and r < 1:
        raise ValueError(f"r is {r}: give at least 1 sentence for each keypoint, or None for all of them.")
    return n_keypoints * (n_sentences if r is None else min(r, n_sentences))
