"""Estimate how many tokens a chat request takes, by a rule of thumb."""

from __future__ import annotations

import io

from metrics_core.models.chat.json_answers import format_schema_instruction
from metrics_core.models.chat.protocol import ChatRequest, MessagePart, TextPart
from metrics_core.models.server.tokens import estimate_image_tokens, estimate_text_tokens

# What the chat template puts around the two messages.
_TEMPLATE_TOKENS = 16


def estimate_tokens(request: ChatRequest) -> int:
    """Return about how many tokens the input of a request takes: one per 4 bytes of text in UTF-8, one per 28 x 28
    pixels of an image. The schema's instruction and 16 tokens of the chat template count too; the answer does not.
    """
    around = (
        estimate_text_tokens(request.system)
        + estimate_text_tokens(format_schema_instruction(request.schema))
        + _TEMPLATE_TOKENS
    )
    return around + sum(_estimate_part_tokens(part) for part in request.parts)


def _estimate_part_tokens(part: MessagePart) -> int:
    if isinstance(part, TextPart):
        return estimate_text_tokens(part.text)
    from PIL import Image

    # Reads the header only.
    with Image.open(io.BytesIO(part.jpeg)) as image:
        return estimate_image_tokens(*image.size)
