"""Quotients that several metrics need, and their value where the divisor is 0."""

from __future__ import annotations


def harmonic_mean(precision: float, recall: float) -> float:
    """F1 = 2PR / (P + R), and 0 where P + R is 0. It lies between P and R unless their signs differ.

    >>> harmonic_mean(1.0, 0.5), harmonic_mean(0.0, 0.0)
    (0.6666666666666666, 0.0)
    """
    total = precision + recall
    return 2 * precision * recall / total if total else 0.0


def ratio(part: int, whole: int) -> float | None:
    """part / whole; None where `whole` is 0.

    >>> ratio(1, 4), ratio(0, 0)
    (0.25, None)
    """
    return part / whole if whole else None
