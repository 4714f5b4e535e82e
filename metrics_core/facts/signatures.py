"""Signatures of videos, which show by the direction of edges whether one video is a copy of another.

A copy may be coded otherwise, scaled, cropped a little, shortened a little, put between bars, or carry a logo.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Edges lie on so many rows and columns of a frame; a signature has those of so many moments of the video.
PLACES, MOMENTS = 8, 4
# Rows and columns of means to which a frame is reduced before its edges are taken, and pixels that a mean reads.
_SIDE, _PIXELS = 32, 4
# Edges are those of the frame blurred by so many means: finer ones are elsewhere after a small crop.
_BLUR = 1.5
# An edge counts by its direction; one that is weaker than this share of the median edge of its frame counts less, and
# so does one below so many grey levels a mean, which is noise or coding.
_WEAK, _NOISE = 0.3, 0.1
# The most frames that are kept, and at least half as many unless the video has fewer: enough for means per moment.
MAX_LOOKS = 32
# A moment is a mean over frames around it, weighted by a bell of this width, as a share of the video: a copy without
# the first second shows the same a little earlier.
_WIDTH = 0.12
# A signature keeps the sign of an edge, and nothing where the edge is weaker than this share of the root mean square of
# all. A video where that is less than this is flat: its slopes are of a third of a grey level over the whole frame.
_LEAST, _FLAT = 0.4, 0.1


def _bell(places: Floats, centres: Floats, width: float) -> Floats:
    """Compute bell-shaped weights of places around centres, each row of sum 1, shape (centres, places)."""
    weights = np.exp(-0.5 * ((places - centres[:, None]) / width) ** 2)
    shares: Floats = weights / weights.sum(axis=1, keepdims=True)
    return shares


def _pictures_to_edges() -> tuple[Floats, Floats]:
    """Build two matrices (PLACES, _SIDE * _PIXELS): one blurs a frame along an axis, one gives the slope of the
    blurred frame.
    """
    means = np.arange(_SIDE, dtype=np.float64) + 0.5
    centres = (np.arange(PLACES, dtype=np.float64) + 0.5) * _SIDE / PLACES
    blur = _bell(means, centres, _BLUR)
    slope = blur * (means - centres[:, None]) / _BLUR**2
    # A bell that the border of the frame cuts off would see a slope in a flat frame.
    slope -= blur * slope.sum(axis=1, keepdims=True)
    parts = np.repeat(np.eye(_SIDE), _PIXELS, axis=1) / _PIXELS
    return blur @ parts, slope @ parts


_BLURRED, _SLOPE = _pictures_to_edges()


def compute_edges(luma: NDArray[np.uint8]) -> Floats:
    """Compute the edges of a frame, luma of shape (H, W): its slopes along x, then along y, at 8 x 8 places, as an
    array (128,) from -1 to 1. A flat frame has edges of 0.

    Contrast cancels out, so that light, a logo or a subtitle changes few of them.
    """
    pixels = _pick_pixels(luma).astype(np.float64)
    slopes = np.stack([_BLURRED @ pixels @ _SLOPE.T, _SLOPE @ pixels @ _BLURRED.T]).reshape(2, -1)
    lengths = np.sqrt(np.einsum("an,an->n", slopes, slopes))
    # The middle one by size; as a median, at a tenth of its time.
    usual = np.partition(lengths, len(lengths) // 2)[len(lengths) // 2]
    edges: Floats = (slopes / (lengths + _WEAK * usual + _NOISE)).ravel()
    return edges


def _pick_pixels(luma: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Pick 128 x 128 pixels of a frame, luma of shape (H, W), at even distances: all that its edges depend on."""
    for axis, size in enumerate(luma.shape):
        luma = luma.take(np.arange(_SIDE * _PIXELS) * size // (_SIDE * _PIXELS), axis)
    return luma


@dataclass
class SignatureScan:
    """Collects frames of one video at even distances, at most 32 of them: call `add_frame` with every frame, then
    `compute_signature`. looks: 128 x 128 pixels each of the frames 0, frame_step, 2 * frame_step, ...

    A short video is measured in every frame. Where more than 32 frames are kept, every second one is dropped, and from
    then on half as many frames are measured. So no length or rate need be known before.
    """

    frame_step: int = 1
    looks: list[NDArray[np.uint8]] = field(default_factory=list)
    _n: int = 0

    def add_frame(self, luma: NDArray[np.uint8]) -> None:
        """Count the next frame, luma of shape (H, W), and keep its pixels if its number is a multiple of `frame_step`.
        Above 32 kept frames every second one is dropped and `frame_step` doubles.
        """
        if self._n % self.frame_step == 0:
            self.looks.append(_pick_pixels(luma))
            if len(self.looks) > MAX_LOOKS:
                self.looks = self.looks[::2]
                self.frame_step *= 2
        self._n += 1

    def compute_signature(self, inside: tuple[slice, slice] | None = None) -> bytes | None:
        """Compute the signature of the video from the frames so far: 128 bytes for 512 edges at four moments, the first
        half with a bit for every edge that is clearly positive, the second for negative ones. None without a frame, or
        where all are flat. inside: rows and columns that count, such as those between bars; None for all.
        """
        if not self.looks:
            return None
        times = (np.arange(len(self.looks), dtype=np.float64) * self.frame_step + 0.5) / self._n
        centres = (np.arange(MOMENTS, dtype=np.float64) + 0.5) / MOMENTS
        edges = (_bell(times, centres, _WIDTH) @ [compute_edges(look[inside or ...]) for look in self.looks]).ravel()
        usual = np.sqrt(np.mean(edges**2))
        if usual < _FLAT:
            return None
        return np.packbits([edges >= _LEAST * usual, edges <= -_LEAST * usual]).tobytes()


def convert_to_unit_vectors(signatures: Sequence[bytes]) -> NDArray[np.float32]:
    """Convert signatures (128 bytes each) to float32 vectors (n, 512) of length 1, in their order. The cosine of two
    vectors is the similarity of the two videos.

    >>> signatures = [b"\\xff" * 64 + bytes(64), b"\\xf0" * 64 + b"\\x0f" * 64, b"\\xf0" * 64 + bytes(64)]
    >>> units = convert_to_unit_vectors(signatures)
    >>> np.round(units[0] @ units.T, 2) + 0.0
    array([1.  , 0.  , 0.71], dtype=float32)
    """
    bits = np.unpackbits(np.frombuffer(b"".join(signatures), dtype=np.uint8).reshape(len(signatures), 2, -1), axis=2)
    signs = bits[:, 0].astype(np.float32) - bits[:, 1]
    units: NDArray[np.float32] = signs / np.linalg.norm(signs, axis=1, keepdims=True)
    return units
