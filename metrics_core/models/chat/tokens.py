"""How many tokens a request takes, by a rule of thumb: no server is asked and no tokenizer loaded."""

from __future__ import annotations

import io
import math

from metrics_core.models.chat.protocol import ChatRequest, Part, TextPart
from metrics_core.models.chat.structured import schema_instruction

BYTES_PER_TOKEN = 4
# Side of the square of pixels that becomes one token in models of the Qwen2.5-VL class. Others differ by up to 3 times.
PIXELS_PER_TOKEN = 28
# What the chat template puts around the two messages.
TOKENS_AROUND = 16


def estimated_tokens(request: ChatRequest) -> int:
    """Tokens of a request: one for 4 bytes of text in UTF-8, and one for a square of 28 x 28 pixels of an image."""
    around = text_tokens(request.system) + text_tokens(schema_instruction(request.schema)) + TOKENS_AROUND
    return around + sum(_part_tokens(part) for part in request.parts)


def text_tokens(text: str) -> int:
    """Tokens of a text: a quarter of its bytes in UTF-8, rounded up.

    >>> text_tokens("a dog runs"), text_tokens("")
    (3, 0)
    """
    return math.ceil(len(text.encode("utf-8", "surrogatepass")) / BYTES_PER_TOKEN)


def image_tokens(width: int, height: int) -> int:
    """Tokens of an image of this size in pixels.

    >>> image_tokens(448, 336)
    192
    """
    return math.ceil(width / PIXELS_PER_TOKEN) * math.ceil(height / PIXELS_PER_TOKEN)


def _part_tokens(part: Part) -> int:
    if isinstance(part, TextPart):
        return text_tokens(part.text)
    from PIL import Image

    # Reads the header only.
    with Image.open(io.BytesIO(part.jpeg)) as image:
        return image_tokens(*image.size)
