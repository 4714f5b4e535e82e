"""How much memory videos take on their way from the file to the encoder."""

from __future__ import annotations

from metrics_core.frames.fit import MOST_PIXELS, Fit
from metrics_core.frames.pictures import MOST_BYTES

# For all videos together that are decoded or wait for the encoder, in all decoders; one that needs more goes alone.
BUDGET = 4 << 30
# Whole pictures that decoding holds at once, counted as RGB: those that others are drawn from, and copies.
PICTURES_IN_DECODER = 20
# Copies of a sampled frame: in the decoder, received from it, and prepared for the encoder with four bytes a number.
BYTES_PER_NUMBER = 1 + 1 + 4


def bytes_in_flight(pixels: int | None, n_sampled: int | None, fit: Fit | None) -> int:
    """An upper estimate of what a video takes while it is decoded and until it is encoded.

    Args:
        pixels: of one picture; None counts as the most that are decoded.
        n_sampled: how many frames are sampled; None counts as the most that are kept.
        fit: what is kept of a frame, None for all of it.
    """
    pixels = min(pixels or MOST_PIXELS, MOST_PIXELS)
    frame = 3 * (fit.height * fit.width if fit else pixels)
    sampled = MOST_BYTES if n_sampled is None else min(n_sampled * frame, MOST_BYTES)
    return PICTURES_IN_DECODER * 3 * pixels + BYTES_PER_NUMBER * sampled
