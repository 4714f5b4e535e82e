"""Cut a frame down to the part that an image encoder sees, in the process that decoded it.

The steps are those of open_clip's transform for inference up to its normalisation, with the same bytes as result:
resizing with Pillow, then a crop or a border. So the transform treats the result as it would treat the whole frame.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

# The largest frame that H.264, HEVC and AV1 have a level for: 8192 x 4352.
MAX_PIXELS = 8192 * 4352


class PictureRefused(Exception):
    """Raised for an array that is no frame, or a frame that is too large or too narrow; the message names the
    remedy.
    """


@dataclass(frozen=True, slots=True)
class PictureFit:
    """A rule that resizes and crops frames to the part that an encoder sees; calling it with a frame does so. The
    fields are those of open_clip's PreprocessCfg.

    Attributes:
        height, width: size of the result, in pixels.
        resize_mode: ``shortest`` fills the frame and crops the longer side, ``longest`` fits the whole frame in and
            adds a border, ``squash`` changes the proportions.
        interpolation: Pillow's method of resizing.
        fill: grey level of the border, from 0 to 255.
    """

    height: int
    width: int
    resize_mode: Literal["shortest", "longest", "squash"] = "shortest"
    interpolation: Literal["bicubic", "bilinear"] = "bicubic"
    fill: int = 0

    def __call__(self, picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Resize a frame, uint8 (H, W, 3), and crop or border it to uint8 (height, width, 3).

        Raises:
            PictureRefused: the resized frame would be larger than `MAX_PIXELS`, or empty.
        """
        from PIL import Image

        height, width = self.compute_resized_size(*picture.shape[:2])
        if not height or not width or height * width > MAX_PIXELS:
            raise PictureRefused(
                f"a frame of {picture.shape[1]} x {picture.shape[0]} is too narrow to be resized for the encoder: "
                "crop the video to a less extreme shape"
            )
        if picture.shape[:2] != (height, width):
            image = Image.fromarray(picture).resize((width, height), self._choose_resampling())
            picture = np.asarray(image)
        return self._crop_or_pad(picture)

    def compute_resized_size(self, height: int, width: int) -> tuple[int, int]:
        """Return (height, width) of a frame of this height and width after resizing, before cropping or bordering."""
        if self.resize_mode == "squash":
            return self.height, self.width
        if self.resize_mode == "shortest" and self.height == self.width:
            # torchvision rounds the longer side down; timm's function, used below, rounds to the nearest.
            longer = int(self.height * max(height, width) / min(height, width))
            return (longer, self.width) if width <= height else (self.height, longer)
        choose = max if self.resize_mode == "longest" else min
        ratio = choose(height / self.height, width / self.width)
        return round(height / ratio), round(width / ratio)

    def _choose_resampling(self) -> int:
        from PIL import Image

        # open_clip knows only this method for a frame that is not square.
        always_bicubic = self.resize_mode == "shortest" and self.height != self.width
        return Image.Resampling.BICUBIC if always_bicubic else Image.Resampling[self.interpolation.upper()]

    def _crop_or_pad(self, picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Cut out the centre of the frame, and add a border where the frame is smaller than the target."""
        rows, framed_rows = _find_centre(picture.shape[0], self.height)
        columns, framed_columns = _find_centre(picture.shape[1], self.width)
        # torchvision's crop always fills with black.
        fill = self.fill if self.resize_mode == "longest" else 0
        framed = np.full((self.height, self.width, 3), fill, dtype=np.uint8)
        framed[framed_rows, framed_columns] = picture[rows, columns]
        return framed


def _find_centre(have: int, want: int) -> tuple[slice, slice]:
    """Return the slice to take of one side of the frame, and the slice of the target that it fills."""
    if have >= want:
        start = round((have - want) / 2)
        return slice(start, start + want), slice(0, want)
    start = (want - have) // 2
    return slice(0, have), slice(start, start + have)
