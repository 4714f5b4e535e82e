"""The encoding of a text file that other people wrote: UTF-8, UTF-16 with its mark, or the cp1252 of spreadsheets."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable

UTF_8, UTF_16, CP1252 = "UTF-8", "UTF-16", "cp1252"
# Bytes that European text in cp1252 hardly has: undefined ones, and four letters beyond ASCII in a row, as in Russian
# or Chinese encodings. They would become other characters silently.
_NOT_WESTERN = re.compile(rb"[\x81\x83\x8d\x8f\x90\x9d\xff]|[\x80-\xff]{4}")
_CHARACTER = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")
# Bytes of the part before that are looked at again, since a match may begin there.
_OVERLAP = 3


def guess_encoding(parts: Iterable[bytes | bytearray], *, may_be_cp1252: bool = True) -> str:
    """Return the encoding of a file whose content comes in parts: "UTF-16" where it begins with that byte order mark,
    "cp1252" where it is not UTF-8 and reads as European text in cp1252, else "UTF-8". A file with some character in
    valid UTF-8 counts as UTF-8, so that a few broken bytes do not change all other characters.

    >>> guess_encoding([b"caf\\xe9"]), guess_encoding(["café".encode()]), guess_encoding([b"\\xe9 ", "café".encode()])
    ('cp1252', 'UTF-8', 'UTF-8')
    """
    before, is_ascii = b"", True
    for number, part in enumerate(parts):
        if number == 0 and part.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return UTF_16
        if not may_be_cp1252:
            return UTF_8
        is_ascii = is_ascii and part.isascii()
        if not part.isascii() and (_NOT_WESTERN.search(before + part) or _CHARACTER.search(before + part)):
            return UTF_8
        before = (before + part)[-_OVERLAP:]
    return UTF_8 if is_ascii else CP1252


def decode_text(data: bytes | bytearray, *, may_be_cp1252: bool = True) -> tuple[str, str]:
    """Return the text of a whole file without a byte order mark, and its encoding as `guess_encoding` names it. Raises
    UnicodeDecodeError.
    """
    encoding = guess_encoding([data], may_be_cp1252=may_be_cp1252)
    return data.decode("utf-8-sig" if encoding == UTF_8 else encoding), encoding


class Utf8Stream:
    """Turns the bytes of a file in another encoding into UTF-8, part by part."""

    def __init__(self, encoding: str) -> None:
        # Halves of surrogate pairs become bytes that are no UTF-8, so that their row is refused.
        self._decoder = codecs.getincrementaldecoder(encoding)("surrogatepass" if encoding == UTF_16 else "strict")

    def convert(self, part: bytes) -> bytes:
        """Return the next bytes in UTF-8; b"" for the end of the file."""
        try:
            return self._decoder.decode(part, final=not part).encode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            self._decoder.reset()
            return b"\xff"
