"""The key of a server, found and cut out of all that the server says, however it is written there."""

from __future__ import annotations

import base64
import html
import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any

from metrics_core.models.chat.structured import texts_in

CUT = "[key]"
WITHHELD = "[withheld: it holds the key of the server]"
# A piece of the key counts from this length on; a shorter one, such as a word, may stand in any text by chance.
SHORTEST_PIECE = 8
# Nobody writes a text in more encodings, one within the other.
_MOST_LEVELS = 5
# JSON that is nested deeper is no answer that anybody asked for, and ends what walks through it.
_DEEPEST = 100
_ESCAPE = re.compile(
    r"\\+(?:u(?:0000)?([0-9a-f]{4})|u\{([0-9a-f]{1,4})\}|x([0-9a-f]{2})|([0-3][0-7]{2})|[nrtbf])"
    r"|[%=]([0-9a-f]{2})|%u([0-9a-f]{4})|<[^<>]{0,200}>",
    re.IGNORECASE,
)
_OCTAL = 4
_NOT_BARE = re.compile("[^a-z0-9]+")


class Secret:
    """What must be in nothing that is stored or shown. A key of None: there is no secret, and every text passes."""

    def __init__(self, key: str | None) -> None:
        self._key = key
        self._pieces = frozenset(piece for form in _forms(key) for piece in _pieces(form)) if key else frozenset()

    def cleaned(self, value: Any) -> Any:
        """Parsed JSON with `without` for each of its texts and names. Raises ValueError where it is nested too deep."""
        return self._cleaned(value, _DEEPEST)

    def _cleaned(self, value: Any, levels: int) -> Any:
        if not levels:
            raise ValueError(f"it is nested deeper than {_DEEPEST} levels")
        if isinstance(value, str):
            return self.without(value)
        if isinstance(value, Mapping):
            return {self.without(name): self._cleaned(member, levels - 1) for name, member in value.items()}
        return [self._cleaned(member, levels - 1) for member in value] if isinstance(value, list) else value

    def without(self, text: str) -> str:
        """The text with the key cut out; nothing of a text that holds it in another way than plainly.

        >>> Secret("sk-12/345678").without("wrong key: sk-12/345678")
        'wrong key: [key]'
        >>> Secret("sk-12/345678").without("wrong key: sk-12%2F345678")
        '[withheld: it holds the key of the server]'
        """
        if not self._key:
            return text
        cut = text.replace(self._key, CUT)
        return WITHHELD if self.stands_in(cut) else cut

    def stands_in(self, value: Any) -> bool:
        """Whether a reader could take the key, or half of it, out of a text or out of the texts of parsed JSON.

        It may be escaped, in base64 or in hexadecimal digits, in capitals, or in pieces with other signs in between.
        """
        if not self._key:
            return False
        text = "\n".join(texts_in(value))
        for _ in range(_MOST_LEVELS):
            bare = _bare(text)
            if self._key in text or any(piece in bare for piece in self._pieces):
                return True
            plain = unicodedata.normalize("NFKC", html.unescape(_ESCAPE.sub(_unescaped, text)))
            if plain == text:
                return False
            text = plain
        # There is no telling what is in it.
        return True


def _forms(key: str) -> Iterator[str]:
    """The key, and what becomes of it in base64 at each place that it may have in a longer text, and in hexadecimal."""
    yield key
    for n_before in range(3):
        coded = base64.b64encode(b"\0" * n_before + key.encode()).decode()
        # The first and the last signs depend on what stands beside the key.
        yield coded[(0, 2, 3)[n_before] : len(coded) - (0, 3, 2)[(n_before + len(key)) % 3]]
    yield key.encode().hex()


def _pieces(form: str) -> Iterator[str]:
    """Stretches of it such that every half holds one whole: of a form that is cut in two, one piece does."""
    bare = _bare(form)
    half = max(SHORTEST_PIECE, (len(bare) + 1) // 2)
    size = max(SHORTEST_PIECE, len(bare) // 4)
    last = len(bare) - size
    return (bare[start : start + size] for start in {*range(0, last + 1, half - size + 1), last} if start >= 0)


def _bare(text: str) -> str:
    """Letters and digits alone: what stands between two pieces of a text in JSON, code or prose falls away."""
    return _NOT_BARE.sub("", text.lower())


def _unescaped(found: re.Match[str]) -> str:
    digits = found.group(found.lastindex) if found.lastindex else None
    return chr(int(digits, 8 if found.lastindex == _OCTAL else 16)) if digits else ""
