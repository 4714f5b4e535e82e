"""Estimate how many tokens texts and images take, by a rule of thumb: no server is asked, no tokenizer is loaded."""

from __future__ import annotations

import math

_BYTES_PER_TOKEN = 4
# Side of the square of pixels that becomes one token in models of the Qwen2.5-VL class. Others differ by up to 3 times.
_PIXELS_PER_TOKEN = 28


def estimate_byte_tokens(n_bytes: int) -> int:
    """Return about how many tokens a text of so many bytes in UTF-8 has: a quarter of the bytes, rounded up."""
    return math.ceil(n_bytes / _BYTES_PER_TOKEN)


def estimate_text_tokens(text: str) -> int:
    """Return about how many tokens a text has: a quarter of its bytes in UTF-8, rounded up.

    >>> estimate_text_tokens("a dog runs"), estimate_text_tokens("")
    (3, 0)
    """
    return estimate_byte_tokens(len(text.encode("utf-8", "surrogatepass")))


def estimate_image_tokens(width: int, height: int) -> int:
    """Return about how many tokens an image of this size in pixels takes: one per 28 x 28 pixels, both sides rounded
    up.

    >>> estimate_image_tokens(448, 336)
    192
    """
    return math.ceil(width / _PIXELS_PER_TOKEN) * math.ceil(height / _PIXELS_PER_TOKEN)
