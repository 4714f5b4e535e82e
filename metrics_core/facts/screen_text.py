"""Measures how much of a frame is text, such as subtitles and watermarks, with PP-OCRv6's small models on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metrics_core.facts.models import LINE_TURNER, TEXT_DETECTOR, TEXT_RECOGNIZER, find_model_file

Picture = NDArray[np.uint8]
ReadLines = Callable[[Picture], Sequence[tuple[str, NDArray[np.float32]]]]

# The longest side of the frame in which lines are looked for; they are read in one of up to twice this size.
SEARCHED_SIDE, LONGEST_SIDE = 640, 1280
# A line counts as text if it is read with this certainty and has so many letters or digits: on 16 real clips, patterns
# such as leaves, bricks and mosaics are read with up to .76, and real lines with .97 and more.
LEAST_CERTAINTY = 0.8
LEAST_CHARACTERS = 2
# Growth of the region in which the model sees the middle of letters: boxes then have the height of a line.
BOX_GROWTH = 1.2


def measure_text_area(frame: Picture, read_lines: ReadLines) -> float:
    """Measure the share of an upright frame that text covers, by boxes around the lines that are read; 0 without
    text. A line with fewer than two letters or digits does not count.

    Args:
        frame: uint8, shape (H, W, 3), colours in the order blue, green, red.
        read_lines: returns the lines of a frame with their boxes, four corners (x, y) in pixels, as
            `read_lines_by_model` does.

    Examples:
        >>> left = np.array([[0, 0], [9, 0], [9, 9], [0, 9]], dtype=np.float32)
        >>> measure_text_area(np.zeros((10, 20, 3), np.uint8), lambda frame: [("STOP", left), ("I", left + 10)])
        0.5
    """
    from PIL import Image, ImageDraw

    mask = Image.new("L", (frame.shape[1], frame.shape[0]))
    pen = ImageDraw.Draw(mask)
    for text, corners in read_lines(frame):
        if sum(map(str.isalnum, text)) >= LEAST_CHARACTERS:
            pen.polygon([(float(x), float(y)) for x, y in corners], fill=1)
    return float(np.asarray(mask).mean())


def read_lines_by_model(frame: Picture) -> list[tuple[str, NDArray[np.float32]]]:
    """Read the lines of text in a frame, uint8 of shape (H, W, 3) in blue, green, red: their texts and boxes, float32
    of shape (4, 2). Lines that are read with less certainty than .8 are left out. Needs the extra `facts`; the models
    load at the first call and stay loaded.
    """
    lines = _load_reader()(frame)
    return [] if lines.boxes is None else list(zip(lines.txts, lines.boxes, strict=True))


@lru_cache(maxsize=1)
def _load_reader() -> Any:
    import cv2
    from rapidocr import RapidOCR

    # Several decoders work at once, so none takes more than one core.
    cv2.setNumThreads(1)
    return RapidOCR(
        params={
            "Global.log_level": "critical",
            "Global.text_score": LEAST_CERTAINTY,
            # Named files are only opened; without names the package would check them, and download another.
            "Det.model_path": str(find_model_file(TEXT_DETECTOR)),
            "Cls.model_path": str(find_model_file(LINE_TURNER)),
            "Rec.model_path": str(find_model_file(TEXT_RECOGNIZER)),
            "Det.limit_type": "max",
            "Det.limit_side_len": SEARCHED_SIDE,
            "Det.unclip_ratio": BOX_GROWTH,
            "Det.use_dilation": False,
            "EngineConfig.onnxruntime.intra_op_num_threads": 1,
            "EngineConfig.onnxruntime.inter_op_num_threads": 1,
        }
    )
