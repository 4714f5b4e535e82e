"""The data of the command demo: a dataset of ten drawn videos, and the image-text encoder that knows only such videos.

`python -m lab.demo` makes the dataset and `python -m lab.encoder.train` the encoder.
"""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent / "dataset"
HASHES = "SHA256SUMS"
