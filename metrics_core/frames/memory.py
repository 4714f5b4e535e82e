"""Estimate the memory that a video takes between its file and the encoder."""

from __future__ import annotations

from metrics_core.frames.fit import MAX_PIXELS, PictureFit
from metrics_core.frames.pictures import MAX_FRAMES_BYTES

# Whole frames that a decoder holds at once, counted as RGB: its reference frames, and copies.
N_DECODER_PICTURES = 20
# A decoder process without a video: Python, NumPy and the libraries of the codecs.
PROCESS_BYTES = 100 << 20
# What the models for text on screen and speech add to it, with the largest frame in which text is looked for.
FACT_MODELS_BYTES = 400 << 20
# Copies of a sampled frame: in the decoder, received from it, and preprocessed with four bytes per number.
BYTES_PER_NUMBER = 1 + 1 + 4


def estimate_video_bytes(pixels: int | None, n_sampled: int | None, fit: PictureFit | None) -> int:
    """Estimate the most bytes of memory that a video takes until its frames are encoded. A number that is None counts
    as the largest possible.

    Args:
        pixels: pixels of one frame; None counts as the largest number that is decoded.
        n_sampled: number of sampled frames; None counts as the largest number that is kept.
        fit: the part of a frame that is kept; None keeps whole frames.
    """
    pixels = min(pixels or MAX_PIXELS, MAX_PIXELS)
    frame = 3 * (fit.height * fit.width if fit else pixels)
    sampled = MAX_FRAMES_BYTES if n_sampled is None else min(n_sampled * frame, MAX_FRAMES_BYTES)
    return N_DECODER_PICTURES * 3 * pixels + BYTES_PER_NUMBER * sampled
