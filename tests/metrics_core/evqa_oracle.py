"""EVQAScore written a second time, one cosine after the other, to check the fast one against."""

from __future__ import annotations

import math
from typing import Any


def unit(vector: list[float]) -> list[float]:
    length = math.sqrt(math.fsum(x * x for x in vector))
    return [x / length for x in vector]


def cosine(left: list[float], right: list[float]) -> float:
    return math.fsum(x * y for x, y in zip(unit(left), unit(right), strict=True))


def by_loops(problem: dict[str, Any]) -> dict[str, float]:
    """P, R, C by the book, one cosine at a time."""
    frames, keywords = problem["frames"], problem["keywords"]
    local = problem["regions"] or frames
    weights = problem["weights"] or [1.0] * len(keywords)
    precision = recall = 0.0
    for keyword, weight in zip(keywords, weights, strict=True):
        precision += weight * max(cosine(keyword, frame) for frame in local)
    for frame in local:
        recall += max(cosine(keyword, frame) for keyword in keywords)
    mean = [math.fsum(unit(frame)[i] for frame in frames) / len(frames) for i in range(len(frames[0]))]
    return {
        "precision": precision / math.fsum(weights),
        "recall": recall / len(local),
        "coarse": cosine(mean, problem["text"]),
    }
