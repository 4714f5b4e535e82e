"""Rules for every value of a row, known field or not: what Postgres, UTF-8 and a reader can live with."""

from __future__ import annotations

import math
import re
from typing import Any

from assets.ingest.rejects import Reject

MAX_TEXT = 100_000
MAX_DEPTH = 32
RAW_LENGTH = 2_000

# All but surrogates and Unicode category Cc, of which tab, line feed and carriage return are allowed.
# A run of allowed characters is matched more than twice as fast as a forbidden one is searched.
_SAFE = re.compile("[\t\n\r\x20-\x7e\xa0-\ud7ff\ue000-\U0010ffff]*")


def check(payload: dict[str, Any]) -> Reject | None:
    """The first rule that a value or a key anywhere in the row breaks, or None.

    >>> check({"text": "A pan is tossed.", "tags": ["pan", "kitchen"]}) is None
    True
    >>> check({"text": "A pan", "tags": ["bell \\x07"]}).reason
    "field 'tags' contains the control character U+0007: remove it"
    """
    if _fault(payload) is None:
        return None
    for field, value in payload.items():
        if (fault := _fault([field, value])) is not None:
            return Reject(fault.code, f"field {shown(field)} {fault.reason}")
    return None


def _fault(value: Any) -> Reject | None:
    """Walk level by level: no recursion that a hostile row could exhaust, and the depth is known for free."""
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        deeper: list[Any] = []
        for item in level:
            kind = type(item)
            if kind is str:
                if len(item) > MAX_TEXT:
                    return Reject("too_long", f"has {len(item)} characters: the limit is {MAX_TEXT}")
                if _SAFE.fullmatch(item) is None:
                    return _character_fault(item)
            elif kind is dict:
                deeper.extend(item)
                deeper.extend(item.values())
            elif kind is list:
                deeper.extend(item)
            elif kind is float:
                if not math.isfinite(item):
                    return _number_fault(item)
            elif kind is not int and kind is not bool and item is not None:
                return Reject("wrong_type", f"holds a {kind.__name__}: use what JSON can write")
        if not deeper:
            return None
        level = deeper
    return Reject("too_deep", f"is nested more than {MAX_DEPTH} levels deep: flatten it")


def _character_fault(text: str) -> Reject:
    character = next(character for character in text if _SAFE.fullmatch(character) is None)
    name = f"U+{ord(character):04X}"
    if character == "\x00":
        return Reject("nul_character", f"contains the NUL character {name}: remove it")
    if "\ud800" <= character <= "\udfff":
        return Reject("lone_surrogate", f"contains the lone surrogate {name}: write the whole character")
    return Reject("control_characters", f"contains the control character {name}: remove it")


def _number_fault(number: float) -> Reject:
    if math.isnan(number):
        return Reject("nan", "holds NaN: give a number or leave the field out")
    return Reject("not_finite", "holds a number that is not finite: give a smaller one")


def shown(value: object) -> str:
    """A value as a message may quote it: at most 60 characters of a text, everything unprintable escaped."""
    return repr(value[:60] if isinstance(value, str) else value)[:80]


def storable(raw: bytes) -> str:
    """The first 2,000 characters of a row as text that Postgres stores: invalid bytes and NUL are escaped.

    >>> storable(b"caf\\xe9 \\x00")
    'caf\\\\xe9 \\\\x00'
    """
    # A character of UTF-8 takes at most four bytes.
    text = raw[: 4 * RAW_LENGTH].rstrip(b"\r\n").decode("utf-8", "backslashreplace")
    return text.replace("\x00", "\\x00")[:RAW_LENGTH]
