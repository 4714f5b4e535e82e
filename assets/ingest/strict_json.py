"""JSON, parsed more strictly than Python does: NaN, repeated keys and deep nesting are refused."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from typing import Any

from assets.ingest.encodings import decode_text
from assets.ingest.hygiene import MAX_DEPTH, format_value, strip_zero_sign
from assets.ingest.lines import ByteReader
from assets.ingest.rejects import Code, Reject

# Longer integers do not fit a double, and Python refuses to parse them from 4,300 digits on.
_MAX_DIGITS = 300
_PART = 2**20

_BRACKET = re.compile(r"[\[\]{}]")
# The rest of the text from the position of an error on, when the text stops inside a literal, number or escape.
_CUT_OFF = re.compile(r"|t|tr|tru|f|fa|fal|fals|n|nu|nul|-|\.|[eE][+-]?|\\?u[0-9a-fA-F]{0,3}")


class _Refused(Exception):
    def __init__(self, code: Code, reason: str) -> None:
        super().__init__(reason)
        self.reject = Reject(code, reason)


def parse_json_object(data: bytes) -> dict[str, Any] | Reject:
    """Parse the bytes of a line and return its JSON object as a dict. Return a Reject where it is no valid UTF-8, JSON
    or object, and for faults that `parse_json` refuses.

    >>> parse_json_object(b'{"value": 5}')
    {'value': 5}
    >>> parse_json_object(b'{"value": NaN}').code
    'nan'
    """
    try:
        value = parse_json(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        return _explain_bytes(error)
    if isinstance(value, dict | Reject):
        return value
    return Reject("not_an_object", "the line must be a JSON object with fields, written in braces")


def read_json(file: ByteReader, most_bytes: int = sys.maxsize) -> Any:
    """Read a file that holds one JSON value in UTF-8, or UTF-16 with a byte order mark; return the value. Return a
    Reject where it has more than `most_bytes`, is not valid in its encoding, or has a fault that `parse_json` refuses.

    >>> from io import BytesIO
    >>> read_json(BytesIO(b'{"value": [5]}')), read_json(BytesIO(b"[1, 2]"), most_bytes=3).reason
    ({'value': [5]}, 'it has more than 3 bytes')
    """
    data = bytearray()
    while len(data) <= most_bytes and (part := file.read(_PART)):
        data += part
    if len(data) > most_bytes:
        return Reject("too_long", f"it has more than {most_bytes} bytes")
    try:
        text, _ = decode_text(data, may_be_cp1252=False)
    except UnicodeDecodeError as error:
        return _explain_bytes(error)
    return parse_json(text)


def _explain_bytes(error: UnicodeDecodeError) -> Reject:
    return Reject("invalid_utf8", f"byte {error.start + 1} is not valid UTF-8: save the file as UTF-8")


def parse_json(text: str) -> Any:
    """Parse a JSON text and return its value. Return a Reject for invalid JSON, NaN, repeated keys, nesting deeper than
    32, and whole numbers of more than 300 digits. A float that overflows becomes infinite, which hygiene.py refuses.
    """
    text = text.strip(" \t\r\n")
    if text.count("[") + text.count("{") > MAX_DEPTH and _is_too_deep(text):
        return Reject("too_deep", f"it is nested more than {MAX_DEPTH} levels deep: flatten it")
    try:
        return _DECODER.decode(text)
    except _Refused as refused:
        return refused.reject
    except json.JSONDecodeError as error:
        return _explain_syntax_error(text, error)


def _is_too_deep(text: str) -> bool:
    """Return whether the brackets outside strings nest too deeply. The answer is exact for valid JSON."""
    outside_strings = "".join(text.replace("\\\\", "").replace('\\"', "").split('"')[::2])
    depth = 0
    for bracket in _BRACKET.finditer(outside_strings):
        depth += 1 if bracket.group() in "[{" else -1
        if depth > MAX_DEPTH:
            return True
    return False


def _explain_syntax_error(text: str, error: json.JSONDecodeError) -> Reject:
    if error.msg.startswith("Unterminated string") or _CUT_OFF.fullmatch(text, error.pos):
        return Reject("json_truncated", f"the JSON stops after {len(text)} characters, before it is complete")
    return Reject("json_invalid", f"not valid JSON at character {error.pos + 1}: {error.msg}")


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        repeated = next(name for name, times in Counter(name for name, _ in pairs).items() if times > 1)
        raise _Refused("duplicate_key", f"field {format_value(repeated)} appears twice in one object: keep one")
    return fields


def _refuse_constant(word: str) -> None:
    raise _Refused("nan", f"{word} is not valid JSON: give a finite number or leave the field out")


def _parse_integer(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise _Refused("out_of_range", f"a whole number has more than {_MAX_DIGITS} digits: shorten it")
    return int(digits)


_DECODER = json.JSONDecoder(
    object_pairs_hook=_build_object,
    parse_constant=_refuse_constant,
    parse_int=_parse_integer,
    parse_float=strip_zero_sign,
)
