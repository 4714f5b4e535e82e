"""Ways in which a server may write a key so that a reader can undo them, and a reader who does."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Callable
from random import Random
from urllib.parse import quote, unquote

Encoding = Callable[[str, Random], str]
_JSON_ESCAPE = re.compile(r"\\+(?:u\{?([0-9a-fA-F]{2,4})\}?|x([0-9a-fA-F]{2})|([0-7]{3})|(.))")


def _some(write: Callable[[str], str]) -> Encoding:
    """Some of the letters are written so, at least one."""

    def encoded(key: str, random: Random) -> str:
        sure = random.randrange(len(key))
        return "".join(write(c) if i == sure or random.random() < 0.4 else c for i, c in enumerate(key))

    return encoded


def _parted(between: str) -> Encoding:
    """In two pieces, with this between them."""

    def encoded(key: str, random: Random) -> str:
        at = random.randrange(1, len(key))
        return key[:at] + between + key[at:]

    return encoded


def _base64(before: str, after: str = "") -> Encoding:
    return lambda key, random: base64.b64encode(f"{before}{key}{after}".encode()).decode()


def _lines_of_base64(key: str, random: Random) -> str:
    return "\n".join(re.findall(".{1,20}", _base64("Bearer ")(key, random)))


ENCODINGS: dict[str, Encoding] = {
    "plain": lambda key, random: key,
    "capitals": lambda key, random: key.upper(),
    "JSON: every sign behind a backslash that may be": lambda key, random: key.replace("/", r"\/"),
    "JSON: some signs as \\u": _some(lambda c: f"\\u{ord(c):04x}"),
    "JSON: some signs as \\u in capitals": _some(lambda c: f"\\u{ord(c):04X}"),
    "JSON in JSON": lambda key, random: json.dumps(json.dumps(_some(lambda c: f"\\u{ord(c):04x}")(key, random))),
    "JavaScript: \\u{}": _some(lambda c: f"\\u{{{ord(c):x}}}"),
    "Python: \\x": _some(lambda c: f"\\x{ord(c):02x}"),
    "C: octal digits": _some(lambda c: f"\\{ord(c):03o}"),
    "percent": lambda key, random: quote(key, safe=""),
    "percent, every sign": _some(lambda c: f"%{ord(c):02X}"),
    "percent twice": lambda key, random: quote(_some(lambda c: f"%{ord(c):02x}")(key, random), safe=""),
    "quoted-printable": _some(lambda c: f"={ord(c):02X}"),
    "HTML": _some(lambda c: f"&#{ord(c)};"),
    "HTML in hexadecimal digits": _some(lambda c: f"&#x{ord(c):x};"),
    "HTML in HTML": lambda key, random: html.escape(_some(lambda c: f"&#{ord(c):03};")(key, random)),
    "wide letters": _some(lambda c: chr(ord(c) + 0xFEE0)),
    "base64": _base64(""),
    "base64 of the header": _base64("Bearer "),
    "base64 of both, without its end": lambda key, random: _base64("authorization: Bearer ")(key, random).rstrip("="),
    "base64 within JSON": _base64('{"headers": {"authorization": "Bearer ', '", "accept": "*/*"}}'),
    "base64 of URLs": lambda key, random: base64.urlsafe_b64encode(f"Bearer {key}".encode()).decode(),
    "base64 with escapes": lambda key, random: _base64("Bearer ")(key, random).replace("/", r"\/").replace("+", "%2B"),
    "base64 in lines": _lines_of_base64,
    "hexadecimal digits": lambda key, random: key.encode().hex(),
    "hexadecimal digits with spaces": lambda key, random: key.encode().hex(" "),
    "spaced": lambda key, random: " ".join(key),
    "with signs of no width": lambda key, random: "\u200b".join(key),
    "in two lines": _parted("\n"),
    "in two lines of JSON": _parted("\\n"),
    "in two texts": _parted('", "'),
    "in two texts to be joined": _parted("' + '"),
    "in two parts of a message": _parted('"}, {"type": "text", "text": "'),
    "in two elements": _parted('</td>\n<td class="b">'),
}


def legible(key: str, text: str) -> bool:
    """Whether the key can be read in the text: as it is, after undoing what encodes it, or out of two pieces of it.

    It shares no line with what is tested, and knows the encodings above. Of two pieces it wants half of the key.
    """
    bare = _letters(key)
    half = (len(bare) + 1) // 2
    pieces = [bare[start : start + half] for start in range(len(bare) - half + 1)]
    plain = text
    for _ in range(8):
        narrow = "".join(chr(ord(c) - 0xFEE0) if 0xFF01 <= ord(c) <= 0xFF5E else c for c in plain)
        undone = html.unescape(unquote(_JSON_ESCAPE.sub(_escaped, narrow)))
        for read in (plain, undone, unquote(re.sub("=(?=[0-9A-F]{2})", "%", plain))):
            letters = _letters(read)
            if any(piece in letters for piece in pieces) or _is_coded(key, read):
                return True
        if undone == plain:
            return False
        plain = undone
    return False


def _letters(text: str) -> str:
    return "".join(c for c in text.lower() if c.isascii() and c.isalnum())


def _escaped(found: re.Match[str]) -> str:
    four, two, octal, sign = found.groups()
    return sign or chr(int(octal, 8) if octal else int(four or two, 16))


def _is_coded(key: str, text: str) -> bool:
    joined = re.sub(r"\s", "", text)
    for run in re.findall(r"[A-Za-z0-9+/_-]{16,}", joined):
        for start in range(4):
            part = run[start:].replace("-", "+").replace("_", "/")
            if key.encode() in base64.b64decode(part + "A" * (-len(part) % 4)):
                return True
    return key.encode().hex() in joined.lower()
