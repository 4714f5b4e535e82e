"""Rules for every value of a row, in known and unknown fields, so that Postgres, UTF-8 and people can read it."""

from __future__ import annotations

import math
import re
import unicodedata
from typing import Any

from assets.ingest.rejects import Reject
from assets.words.text import CONTROLS

MAX_TEXT = 100_000
MAX_DEPTH = 32
RAW_LENGTH = 2_000

# Matching a run of allowed characters is faster than searching for a forbidden one.
_SAFE = re.compile(f"[^{CONTROLS}]*")

# White space, controls, format characters (zero-width, byte order mark, direction marks, soft hyphen) and marks that
# combine with a character before them.
_INVISIBLE = frozenset({"Zs", "Zl", "Zp", "Cc", "Cf", "Mn", "Mc", "Me"})
# Hangul fillers and the braille pattern without dots are letters and a symbol to Unicode, and show nothing.
_FILLERS = frozenset("\u115f\u1160\u3164\uffa0\u2800")


def has_safe_text(line: bytes) -> bool:
    """Return whether no text of a line of valid JSON needs a check: it has only printable ASCII without backslashes,
    and at most 100,000 bytes. False means that its texts have to be checked.

    >>> has_safe_text(b'{"text": "A pan"}'), has_safe_text('{"text": "café"}'.encode())
    (True, False)
    """
    return len(line) <= MAX_TEXT and line.isascii() and b"\\" not in line and b"\x7f" not in line


def find_fault(payload: dict[str, Any], *, texts_are_safe: bool = False) -> Reject | None:
    """Return the Reject for the first rule that a value or key anywhere in the row breaks; None for a good row. The
    rules forbid texts over 100,000 characters, control characters, lone surrogates, numbers that are not finite, and
    nesting deeper than 32. payload: the fields of the row.

    texts_are_safe: whether `has_safe_text` holds for the row.

    >>> find_fault({"text": "A pan is tossed.", "tags": ["pan", "kitchen"]}) is None
    True
    >>> find_fault({"text": "A pan", "tags": ["bell \\x07"]}).reason
    "field 'tags' contains the control character U+0007: remove it"
    """
    if texts_are_safe and all(type(value) is str for value in payload.values()):
        return None
    if _find_value_fault(payload, texts_are_safe=texts_are_safe) is None:
        return None
    for field, value in payload.items():
        if (fault := _find_value_fault([field, value])) is not None:
            return Reject(fault.code, f"field {format_value(field)} {fault.reason}")
    return None


def _find_value_fault(value: Any, *, texts_are_safe: bool = False) -> Reject | None:
    """Return the Reject for the first rule that the value breaks, without the name of a field; None for a good value.

    The value is walked level by level: a hostile row cannot exhaust the recursion, and the depth is known.
    """
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        deeper: list[Any] = []
        for item in level:
            kind = type(item)
            if kind is str:
                if texts_are_safe:
                    continue
                if len(item) > MAX_TEXT:
                    return Reject("too_long", f"has {len(item)} characters: the limit is {MAX_TEXT}")
                if _SAFE.fullmatch(item) is None:
                    return _explain_character(item)
            elif kind is dict:
                deeper.extend(item)
                deeper.extend(item.values())
            elif kind is list:
                deeper.extend(item)
            elif kind is float:
                if not math.isfinite(item):
                    return _explain_number(item)
            elif kind is not int and kind is not bool and item is not None:
                return Reject("wrong_type", f"holds a {kind.__name__}, which JSON cannot write: give text or a number")
        if not deeper:
            return None
        level = deeper
    return Reject("too_deep", f"is nested more than {MAX_DEPTH} levels deep: flatten it")


def _explain_character(text: str) -> Reject:
    character = next(character for character in text if _SAFE.fullmatch(character) is None)
    name = f"U+{ord(character):04X}"
    if character == "\x00":
        return Reject("nul_character", f"contains the NUL character {name}: remove it")
    if "\ud800" <= character <= "\udfff":
        return Reject("lone_surrogate", f"contains the lone surrogate {name}: write the whole character")
    return Reject("control_characters", f"contains the control character {name}: remove it")


def _explain_number(number: float) -> Reject:
    if math.isnan(number):
        return Reject("nan", "holds NaN: give a number or leave the field out")
    return Reject("not_finite", "holds a number that is not finite: give a finite one")


def strip_zero_sign(number: float | str) -> float:
    """Return the number, or the text of one, as a float, with 0.0 in place of -0.0.

    JSON in Postgres has one zero, and rows are hashed as Postgres stores them.
    """
    return float(number) + 0.0


def is_blank_text(text: str) -> bool:
    """Return whether a text is empty or has only white space and invisible characters.

    >>> is_blank_text(" \\u200b\\ufeff\\u0301"), is_blank_text("\\u200ba")
    (True, False)
    """
    # A short cut: most texts begin with an ASCII letter, and this runs for several fields of every row.
    if "!" <= text[:1] <= "~":
        return False
    return all(unicodedata.category(character) in _INVISIBLE or character in _FILLERS for character in text)


def format_value(value: object) -> str:
    """Quote a value for a message as Python writes it, with unprintable characters escaped. At most 60 characters of a
    text are shown, and at most 80 characters are returned; the closing quote may be missing.
    """
    return repr(value[:60] if isinstance(value, str) else value)[:80]


def is_storable(text: str) -> bool:
    """Return whether Postgres can store a text: it has no NUL character and no half of a surrogate pair.

    >>> is_storable("café"), is_storable("a\\x00"), is_storable("a\\ud800")
    (True, False, False)
    """
    return not any(character == "\0" or "\ud800" <= character <= "\udfff" for character in text)


def format_raw_row(raw: bytes) -> str:
    """Return the first 2,000 characters of a row as text that Postgres can store, with invalid bytes and NUL escaped.

    >>> format_raw_row(b"caf\\xe9 \\x00")
    'caf\\\\xe9 \\\\x00'
    """
    # A character of UTF-8 takes at most four bytes.
    text = raw[: 4 * RAW_LENGTH].rstrip(b"\r\n").decode("utf-8", "backslashreplace")
    return text.replace("\x00", "\\x00")[:RAW_LENGTH]
