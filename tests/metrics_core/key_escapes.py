"""The key of a server as JSON may hold it, and whether a text shows it."""

from __future__ import annotations

import re
from random import Random

_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))")


def escape_key(key: str, random: Random) -> str:
    """Write the key into JSON: every sign as it is, or as one of the escapes that a parser of JSON undoes."""
    return "".join(_escape(sign, random) for sign in key)


def _escape(sign: str, random: Random) -> str:
    forms = [sign, f"\\u{ord(sign):04x}", f"\\u{ord(sign):04X}", *(["\\/"] if sign == "/" else [])]
    return random.choice(forms)


def shows_key(key: str, text: str) -> bool:
    """Whether the key stands in the text, as it is or behind escapes of JSON."""
    return key in text or key in _ESCAPE.sub(lambda match: chr(int(match[1], 16)) if match[1] else match[2], text)
