"""The scales on which the aspects of a manifest are rated."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from assets.ingest.hygiene import format_value
from assets.ingest.rejects import Reject

LOWEST_IS_BEST = ", lowest is best"
_RANGE = re.compile(r"(-?[0-9]{1,9})-(-?[0-9]{1,9})")
YES_OR_NO = {"yes": True, "true": True, "no": False, "false": False}
# Sums and squares of greater ratings would have no number.
_MOST_REAL = 1e12


class Scale(NamedTuple):
    """A scale of ratings. name: as it is declared, such as "1-7" or "0-20, lowest is best". least, most: its ends, 0
    (no) and 1 (yes) for "yes-no", and None for "real", which has all numbers from -1e12 to 1e12.
    """

    name: str
    least: float | None
    most: float | None
    lowest_is_best: bool

    @property
    def is_yes_no(self) -> bool:
        """Whether a rating is yes or no."""
        return self.name.startswith("yes-no")

    def parse_rating(self, value: object, *, is_mean: bool) -> int | float | Reject:
        """Return the number of a rating: a whole number of the scale, or on "real" any number; a mean may lie between
        whole numbers. On "yes-no", yes and true are 1, no and false 0. Return a Reject for any other value.

        >>> parse_scale("1-7").parse_rating(6, is_mean=False), parse_scale("1-7").parse_rating(4.5, is_mean=True)
        (6, 4.5)
        >>> parse_scale("1-7").parse_rating(8, is_mean=False).reason
        "field 'value' is 8: the scale is 1-7"
        """
        where = f"field 'value' is {format_value(value)}"
        if self.is_yes_no and not is_mean and isinstance(value, str):
            value = YES_OR_NO.get(value.lower(), value)
        if isinstance(value, bool) and self.is_yes_no and not is_mean:
            return int(value)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            needed = "yes or no" if self.is_yes_no and not is_mean else "a number"
            return Reject("wrong_type", f"{where}: give {needed}, since the scale is {self.name}")
        if self.least is None or self.most is None:
            if abs(value) > _MOST_REAL:
                return Reject("out_of_range", f"{where}: on the scale {self.name} give a number from -1e12 to 1e12")
            return value
        if not self.least <= value <= self.most:
            return Reject("out_of_range", f"{where}: the scale is {self.name}")
        if is_mean:
            return value
        if value != int(value):
            remedy = "give a whole number, or mean_of with the number of raters if it is their mean"
            return Reject("wrong_type", f"{where}: the scale is {self.name}: {remedy}")
        return int(value)


def parse_scale(name: str) -> Scale | None:
    """Return the scale of a name: two whole numbers such as "1-7", "yes-no" or "real", perhaps followed by ", lowest is
    best". None for any other text.

    >>> parse_scale("0-20, lowest is best")
    Scale(name='0-20, lowest is best', least=0.0, most=20.0, lowest_is_best=True)
    >>> parse_scale("7-1") is None
    True
    """
    kind, lowest_is_best = name.removesuffix(LOWEST_IS_BEST), name.endswith(LOWEST_IS_BEST)
    if kind in ("real", "yes-no"):
        is_real = kind == "real"
        return Scale(name, None if is_real else 0.0, None if is_real else 1.0, lowest_is_best)
    match = _RANGE.fullmatch(kind)
    if match is None or int(match[1]) >= int(match[2]):
        return None
    return Scale(name, float(match[1]), float(match[2]), lowest_is_best)


DEFAULT_SCALE = Scale("1-5", 1.0, 5.0, lowest_is_best=False)
"""The scale of an aspect for which none is declared."""
NO_SCALES: Mapping[str, Scale] = MappingProxyType({})
