"""SodaM written a second time, in fractions and by enumeration, to check the fast one against.

Shares neither code nor method with metrics_core: every matching is tried, and times are whole seconds.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator
from fractions import Fraction
from typing import Any

Span = tuple[int, int]


def matchings(n: int, m: int) -> Iterator[tuple[tuple[int, int], ...]]:
    """Every way to pair some of n with some of m in order."""
    for size in range(min(n, m) + 1):
        for left in itertools.combinations(range(n), size):
            for right in itertools.combinations(range(m), size):
                yield tuple(zip(left, right, strict=True))


def best_matching(iou: list[list[Fraction]], m: int) -> tuple[Fraction, tuple[tuple[int, int], ...]]:
    """The greatest sum over all matchings of positive pairs, and of the best ones the earliest seen from the end."""
    allowed = [pairs for pairs in matchings(len(iou), m) if all(iou[i][j] > 0 for i, j in pairs)]
    worth = {pairs: sum((iou[i][j] for i, j in pairs), Fraction(0)) for pairs in allowed}
    best = max(worth.values())
    return best, min((pairs for pairs in allowed if worth[pairs] == best), key=lambda pairs: pairs[::-1])


def fraction_iou(a: Span, b: Span) -> Fraction:
    overlap = min(a[1], b[1]) - max(a[0], b[0])
    union = (a[1] - a[0]) + (b[1] - b[0]) - max(overlap, 0)
    return Fraction(max(overlap, 0), union) if union else Fraction(0)


def merged_by_loops(
    references: list[Span], predictions: list[Span], anchors: dict[int, int], official: bool
) -> tuple[dict[int, list[int]], list[int]]:
    """Members of each reference and the orphans, from anchors {prediction: reference}; both sides in order."""
    members: dict[int, list[int]] = {reference: [] for reference in anchors.values()}
    orphans = []
    for j, prediction in enumerate(predictions):
        before = [anchors[k] for k in range(j + 1) if k in anchors][-1:]
        after = [anchors[k] for k in range(j, len(predictions)) if k in anchors][:1]
        if official:
            choice = (before + after)[:1]
        else:
            overlaps = [(fraction_iou(references[i], prediction), -i) for i in before + after]
            choice = [-max(overlaps)[1]] if overlaps and max(overlaps)[0] > 0 else []
        for reference in choice:
            members[reference].append(j)
        if not choice:
            orphans.append(j)
    return members, orphans


def f1_by_hand(
    matched: Collection[int], n_orphans: int, segments: list[tuple[int, int]], official: bool = False
) -> tuple[Any, Any, Any]:
    """Precision, recall and F1 in fractions: the matched segments, and (covered, all) of each reference segment."""
    counted = {i for i, (_, total) in enumerate(segments) if total or official}
    if not counted:
        return None, None, None
    credit = sum((Fraction(*segments[i]) for i in matched if segments[i][1]), Fraction(0))
    n_predicted = len(counted & set(matched)) + n_orphans
    recall = credit / len(counted)
    if not n_predicted:
        return None, recall, Fraction(0)
    precision = credit / n_predicted
    f1 = 2 * precision * recall / (precision + recall) if credit else Fraction(0)
    return precision, recall, f1
