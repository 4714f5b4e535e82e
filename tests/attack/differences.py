"""Where two states of a database differ, up to the rounding of numbers."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any


def difference(found: Any, expected: Any, tolerance: float) -> str | None:
    """The first two cells that are not the same, or None; numbers may differ by the tolerance, also inside JSON."""
    if isinstance(expected, float | Decimal) and isinstance(found, float | Decimal):
        return None if abs(float(found) - float(expected)) <= tolerance else f"{found} for {expected}"
    if isinstance(expected, dict) and isinstance(found, dict) and found.keys() == expected.keys():
        found, expected = [found[name] for name in expected], list(expected.values())
    if isinstance(expected, list | tuple) and isinstance(found, list | tuple) and len(found) == len(expected):
        of_cells = (difference(*cells, tolerance) for cells in zip(found, expected, strict=True))
        return next((each for each in of_cells if each is not None), None)
    if isinstance(expected, str) and expected.startswith("{") and isinstance(found, str) and found != expected:
        return difference(json.loads(found), json.loads(expected), tolerance)
    return None if found == expected else f"{found!r} for {expected!r}"
