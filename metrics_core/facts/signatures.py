"""Signatures of videos: bits of some frames that tell a copy after other coding, scaling or a small crop."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Bits = NDArray[np.bool_]

# A frame has as many bits as its coarsest waves, side by side; a signature has so many frames.
WAVES = 8
FRAME_BITS = WAVES * WAVES
FRAMES = 8
# Means of a frame before its waves are taken, and pixels looked at for each.
_SIDE, _PIXELS = 32, 4
# Of a flatter frame the waves are those of its coding.
_LEAST_WAVE = 0.5
_PARTS = np.repeat(np.eye(_SIDE), _PIXELS, axis=1) / _PIXELS
_COSINES = np.cos(np.pi * np.arange(WAVES)[:, None] * (2 * np.arange(_SIDE) + 1) / (2 * _SIDE))


def frame_bits(luma: NDArray[np.uint8]) -> Bits:
    """Return which of the coarsest waves of a frame (H, W) exceed their median, shape (64,): the perceptual hash pHash.

    A flat frame has no bit set.
    """
    waves = _COSINES @ _means(luma) @ _COSINES.T / _SIDE**2
    waves[0, 0] = 0.0
    if np.abs(waves).max() < _LEAST_WAVE:
        return np.zeros(FRAME_BITS, dtype=np.bool_)
    bits: Bits = (waves > np.median(waves)).ravel()
    return bits


def signature_of(frames: Sequence[Bits]) -> bytes | None:
    """Return the signature of a video, 64 bytes, given the bits of frames at even distances; None without a frame."""
    if not frames:
        return None
    return np.packbits([frames[len(frames) * place // FRAMES] for place in range(FRAMES)]).tobytes()


def units_of(signatures: Sequence[bytes]) -> NDArray[np.float32]:
    """Return the signatures as vectors (n, 512) of length 1: their cosine is 1 less twice the share of other bits.

    >>> units = units_of([bytes(64), bytes(32) + b"\\xff" * 32])
    >>> abs(float(units[0] @ units[1])) < 1e-6
    True
    """
    bits = np.unpackbits(np.frombuffer(b"".join(signatures), dtype=np.uint8).reshape(len(signatures), -1), axis=1)
    units: NDArray[np.float32] = (bits.astype(np.float32) * 2 - 1) / np.float32(np.sqrt(bits.shape[1]))
    return units


def _means(luma: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Means over 32 x 32 parts of a frame; a frame with fewer rows or columns repeats some."""
    taken = [np.arange(_SIDE * _PIXELS) * size // (_SIDE * _PIXELS) for size in luma.shape]
    pixels = luma[np.ix_(*taken)].astype(np.float64)
    # A product of matrices is many times as fast as means over two axes.
    means: NDArray[np.float64] = _PARTS @ pixels @ _PARTS.T
    return means
