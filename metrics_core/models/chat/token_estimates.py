"""How many tokens a request takes, by a rule of thumb."""

from __future__ import annotations

import io

from metrics_core.models.chat.protocol import ChatRequest, Part, TextPart
from metrics_core.models.chat.structured import schema_instruction
from metrics_core.models.server.tokens import image_tokens, text_tokens

# What the chat template puts around the two messages.
TOKENS_AROUND = 16


def estimate_tokens(request: ChatRequest) -> int:
    """Return the tokens of a request: one for 4 bytes of text in UTF-8, one for 28 x 28 pixels of an image."""
    around = text_tokens(request.system) + text_tokens(schema_instruction(request.schema)) + TOKENS_AROUND
    return around + sum(_part_tokens(part) for part in request.parts)


def _part_tokens(part: Part) -> int:
    if isinstance(part, TextPart):
        return text_tokens(part.text)
    from PIL import Image

    # Reads the header only.
    with Image.open(io.BytesIO(part.jpeg)) as image:
        return image_tokens(*image.size)
